// Masks of grammars of JSON over a model's vocabulary, along documents: the time of each, the first one's,
// and what is built and held.
//   mask_bench [FILE]   a GGUF file whose vocabulary is taken (default: qwen2's 151k of ../shared/data/vocab)
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backends/constrain/constraint.hpp"
#include "backends/constrain/mask.hpp"
#include "backends/grammar/gbnf.hpp"
#include "backends/model/gguf.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/text/tokenizer.hpp"
#include "config/json_reader.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;
using bench::expect;

// The time of this thread alone: other programs of the machine do not show in the figures.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double share_of(std::vector<double> times, double share) {
  std::ranges::sort(times);
  return times[std::min(times.size() - 1,
                        static_cast<std::size_t>(share * static_cast<double>(times.size())))];
}

// The time between two looks at the clock, less what a look takes by itself (on some machines over 1 us).
double since(double before) {
  static const double look = [] {
    std::vector<double> looks;
    for (int i = 0; i < 1'001; ++i) {
      const double first = cpu_seconds();
      looks.push_back(cpu_seconds() - first);
    }
    return share_of(std::move(looks), 0.5);
  }();
  return std::max(0.0, cpu_seconds() - before - look);
}

// Any JSON.
constexpr std::string_view kJson = R"(
root ::= value
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ("0" | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws ::= [ \t\n]*
)";

// Records of ten properties, as a JSON Schema asks for them. %s: how long strings may be.
std::string records(const std::string& length) {
  std::string out = R"(
root ::= "[" ws (record ("," ws record)*)? "]"
record ::= "{" ws "\"id\":" ws integer "," ws "\"name\":" ws string "," ws "\"email\":" ws string "," ws "\"active\":" ws boolean "," ws "\"score\":" ws number "," ws "\"role\":" ws role "," ws "\"tags\":" ws tags "," ws "\"address\":" ws address "," ws "\"note\":" ws string "," ws "\"parent\":" ws (integer | "null" ws) "}" ws
address ::= "{" ws "\"street\":" ws string "," ws "\"city\":" ws string "," ws "\"zip\":" ws "\"" [0-9]{5} "\"" ws "}" ws
tags ::= "[" ws (string ("," ws string){0,9})? "]" ws
role ::= ("\"admin\"" | "\"editor\"" | "\"viewer\"" | "\"guest\"") ws
boolean ::= ("true" | "false") ws
integer ::= "-"? ("0" | [1-9] [0-9]{0,15}) ws
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,15})? ws
character ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
ws ::= [ \t\n]*
)";
  return out + "string ::= \"\\\"\" character" + length + " \"\\\"\" ws\n";
}

// The same records as a JSON Schema; read as the daemon reads one.
constexpr std::string_view kRecordsSchema = R"({"type":"array","items":{"type":"object","properties":{
  "id":{"type":"integer"},"name":{"type":"string"},"email":{"type":"string","maxLength":200},
  "active":{"type":"boolean"},"score":{"type":"number"},"role":{"enum":["admin","editor","viewer","guest"]},
  "tags":{"type":"array","items":{"type":"string"},"maxItems":10},
  "address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},
    "zip":{"type":"string","pattern":"^[0-9]{5}$"}},"required":["street","city","zip"],"additionalProperties":false},
  "note":{"type":"string","maxLength":4000},"parent":{"type":["integer","null"]}},
  "required":["id","name","email","active","score","role","tags","address","note","parent"]}})";

// Such records, of words in several languages; those that are spaced out have lines of their own.
std::string document(std::mt19937_64& random, int records, bool spaced) {
  static constexpr const char* kWords[] = {"the",
                                           "quick",
                                           "deployment",
                                           "of",
                                           "Zürich",
                                           "engineering",
                                           "東京",
                                           "naïve",
                                           "server-side",
                                           "42",
                                           "(see below)",
                                           "coffee",
                                           "\\\"quoted\\\"",
                                           "line\\n",
                                           "Ω",
                                           "international",
                                           "a",
                                           "backwards-compatible",
                                           "🙂",
                                           "https://example.org/x"};
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto text = [&](std::size_t most) {
    std::string out = "\"";
    for (std::size_t n = 1 + pick(most); n > 0; --n)
      out += std::string(kWords[pick(std::size(kWords))]) + (n > 1 ? " " : "");
    return out + '"';
  };
  const std::string line = spaced ? "\n    " : "", colon = spaced ? ": " : ":";
  std::string out = "[";
  for (int i = 0; i < records; ++i) {
    if (i > 0) out += spaced ? ", " : ",";
    const auto key = [&](const char* name) { return std::string(name) + colon; };
    out += "{" + line + key("\"id\"") + std::to_string(pick(100000));
    out += "," + line + key("\"name\"") + text(2) + "," + line + key("\"email\"") + "\"someone@example.org\"";
    out += "," + line + key("\"active\"") + (pick(2) == 0 ? "true" : "false");
    out += "," + line + key("\"score\"") + std::to_string(pick(100)) + "." + std::to_string(pick(1000));
    out += "," + line + key("\"role\"") + (pick(2) == 0 ? "\"admin\"" : "\"viewer\"");
    out += "," + line + key("\"tags\"") + "[" + text(1) + "," + text(1) + "]";
    out += "," + line + key("\"address\"") + "{" + key("\"street\"") + text(2) + "," + key("\"city\"") +
           text(1) + "," + key("\"zip\"") + "\"" + std::to_string(10000 + pick(80000)) + "\"}";
    out += "," + line + key("\"note\"") + text(9) + "," + line + key("\"parent\"") + "null}";
  }
  return out + "]";
}

struct Figures {
  std::vector<double> compile, first, cold, warm, accept;  // seconds
  std::size_t program = 0, automaton = 0, masks = 0, kept = 0;
};

// A grammar, or a JSON Schema.
std::shared_ptr<constrain::Automaton> compiled(const std::string& source) {
  if (source.starts_with('{')) {
    const Constraint schema{Constraint::Kind::json_schema, expect(read_packed(source)), false};
    return std::make_shared<constrain::Automaton>(
        std::make_shared<const constrain::Program>(expect(constrain::compile(schema))));
  }
  const grammar::Limits limits;
  grammar::Fuel fuel(limits.steps);
  const auto grammar = expect(grammar::read_gbnf(source, fuel, limits));
  return std::make_shared<constrain::Automaton>(
      std::make_shared<const constrain::Program>(expect(constrain::compile(grammar, fuel, limits))));
}

// One document: each mask as the grammar meets it for the first time, and again.
void play(const std::string& grammar, const std::vector<Token>& tokens, const text::Tokenizer& tokenizer,
          const std::shared_ptr<const constrain::Vocabulary>& vocabulary, Figures& out) {
  const double begin = cpu_seconds();
  const auto automaton = compiled(grammar);
  out.compile.push_back(since(begin));
  constrain::Masks masks(automaton, vocabulary);
  std::vector<std::uint64_t> bits(vocabulary->words());
  for (const bool is_warm : {false, true}) {
    auto matcher = expect(constrain::Matcher::begin(automaton));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto token = static_cast<std::size_t>(tokens[i]);
      const double before = cpu_seconds();
      expect(masks.fill(matcher, bits));
      const double took = since(before);
      if ((bits[token / 64] >> token % 64 & 1U) == 0) bench::die("a token of the document is not allowed");
      const double allowed = cpu_seconds();
      if (!expect(matcher.accept(tokenizer.bytes(tokens[i]))))
        bench::die("a token of the document is refused");
      if (is_warm) out.accept.push_back(since(allowed));
      if (!is_warm && i == 0) out.first.push_back(took);
      (is_warm ? out.warm : out.cold).push_back(took);
    }
    if (!matcher.can_end()) bench::die("the document is not whole");
  }
  out.program = automaton->program().memory();
  out.automaton = std::max(out.automaton, automaton->memory());
  out.masks = std::max(out.masks, masks.memory());
  out.kept = std::max(out.kept, masks.size());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : std::string(FLYBALL_SOURCE_DIR) + "/../shared/data/vocab/ggml-vocab-qwen2.gguf";
  const auto opened = model::MappedFile::open(path);
  if (!opened) bench::die(opened.error().message, bench::kSkipped);
  const auto gguf = expect(model::Gguf::parse(opened->bytes()));
  const auto tokenizer = expect(text::Tokenizer::load(gguf));
  std::vector<std::string_view> bytes;
  std::vector<constrain::TokenId> ends;
  for (std::uint32_t token = 0; token < tokenizer->vocab_size(); ++token) {
    bytes.push_back(tokenizer->bytes(static_cast<Token>(token)));
    if (tokenizer->is_end_of_generation(static_cast<Token>(token))) ends.push_back(token);
  }
  const double begin = cpu_seconds();
  const auto vocabulary =
      std::make_shared<const constrain::Vocabulary>(bytes, std::vector<constrain::TokenId>{}, ends);
  const double built = since(begin);
  std::size_t nodes = vocabulary->rest().nodes.size();
  for (std::size_t i = 0; i < constrain::Vocabulary::kSlices; ++i) nodes += vocabulary->slice(i).nodes.size();
  std::printf(
      "vocabulary: %zu tokens, the longest of %u bytes; built in %.0f ms, %.1f MiB; %zu nodes, %zu of them "
      "not "
      "of safe text\n",
      vocabulary->size(), vocabulary->longest(), 1e3 * built,
      static_cast<double>(vocabulary->memory()) / (1 << 20), nodes, vocabulary->rest().nodes.size());
  struct Case {
    const char* name;
    std::string grammar;
  };
  const std::vector<Case> cases{{"json", std::string(kJson)},
                                {"records", records("*")},
                                {"records, strings of 0 to 4000", records("{0,4000}")},
                                {"records, strings of 0 to 200", records("{0,200}")},
                                {"records by a JSON Schema", std::string(kRecordsSchema)}};
  std::printf(
      "%-32s %8s %8s | first mask p50 p99 ms | new document p50 p99 max us | again p50 p99 us | accept p50 "
      "us | "
      "held KiB: program automaton masks (number)\n",
      "grammar", "compile", "masks");
  for (const auto& [name, grammar] : cases) {
    Figures figures;
    std::mt19937_64 random(1);
    for (int round = 0; round < 40; ++round) {
      const std::string text = document(random, 4, round % 2 == 0);
      const auto tokens = tokenizer->encode(text, {.add_special = false, .parse_special = false});
      play(grammar, tokens, *tokenizer, vocabulary, figures);
    }
    const auto us = [](const std::vector<double>& times, double share) {
      return 1e6 * share_of(times, share);
    };
    std::printf(
        "%-32s %6.2fms %8zu | %6.2f %6.2f | %7.1f %7.1f %7.1f | %6.1f %6.1f | %5.2f | %zu %zu %zu (%zu)\n",
        name, us(figures.compile, 0.5) / 1e3, figures.cold.size(), us(figures.first, 0.5) / 1e3,
        us(figures.first, 0.99) / 1e3, us(figures.cold, 0.5), us(figures.cold, 0.99), us(figures.cold, 1),
        us(figures.warm, 0.5), us(figures.warm, 0.99), us(figures.accept, 0.5), figures.program >> 10U,
        figures.automaton >> 10U, figures.masks >> 10U, figures.kept);
  }
  // Text that is no JSON string: a look at each token is needed.
  const std::vector<Case> texts{
      {"letters and spaces", "root ::= [a-zA-Z ]*"},
      {"text without a comma", "root ::= [^,]*"},
      {"lines of up to 80 characters", "root ::= ([^\\n]{0,80} \"\\n\")*"},
      {"words between spaces", "root ::= [^ \\n]+ (\" \" [^ \\n]+)*"},
      {"anything", "root ::= .*"},
      {"an identifier of up to 64", "root ::= [a-zA-Z0-9_\"-]{1,64}"},
      {"a string of up to 10", "root ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]{0,10} \"\\\"\""},
      {"a string of 20 to 100", "root ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]{20,100} \"\\\"\""}};
  std::printf("\n%-32s | first mask p50 max ms, after one character\n", "text");
  for (const auto& [name, grammar] : texts) {
    std::vector<double> first, second;
    for (int round = 0; round < 21; ++round) {
      const auto automaton = compiled(grammar);
      constrain::Masks masks(automaton, vocabulary);
      std::vector<std::uint64_t> bits(vocabulary->words());
      auto matcher = expect(constrain::Matcher::begin(automaton));
      for (auto* const times : {&first, &second}) {
        const double before = cpu_seconds();
        expect(masks.fill(matcher, bits));
        times->push_back(since(before));
        if (!expect(matcher.accept("\"")) && !expect(matcher.accept("a")))
          bench::die("a character is refused");
      }
    }
    std::printf("%-32s | %6.2f %6.2f | %6.2f %6.2f\n", name, 1e3 * share_of(first, 0.5),
                1e3 * share_of(first, 1), 1e3 * share_of(second, 0.5), 1e3 * share_of(second, 1));
  }
  return 0;
}
