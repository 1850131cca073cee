// The vocabulary, and how a text is read by it: fillers dropped, plurals cut, always the longest row that
// fits.
#include "policy/scenario.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "config/table.hpp"
#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

constexpr std::size_t kMaxScenarioBytes = 2000;
constexpr double kMaxScenarioNumber = 1e6;
constexpr const char* kWords = "words";

// A number may stand before machines whose row has no # of its own; without one it is 1. "=#*1024"
// multiplies.
constexpr std::array kVocabulary{
    ScenarioWord{"mac|macbook|macbook pro|macbook air|mac studio|mac mini|apple silicon|m1|m2|m3|m4|m5",
                 "hardware.cluster.nodes=# hardware.gpu.integrated_count=1 hardware.gpu.discrete_count=0 "
                 "hardware.gpu.vendor=apple hardware.os=macos",
                 "`two macs` are two machines"},
    ScenarioWord{"pro|max|ultra", "", "of an Apple chip; says nothing"},
    ScenarioWord{"apu|amd apu",
                 "hardware.gpu.integrated_count=1 hardware.gpu.discrete_count=0 hardware.gpu.vendor=amd", ""},
    ScenarioWord{"integrated gpu|igpu",
                 "hardware.gpu.integrated_count=1 hardware.gpu.discrete_count=0 hardware.gpu.vendor=intel",
                 ""},
    ScenarioWord{"laptop|edge|edge box|raspberry pi|odd hardware|weird hardware|cpu|no gpu",
                 "hardware.gpu.count=0 hardware.gpu.integrated_count=0 hardware.gpu.discrete_count=0", ""},
    ScenarioWord{"rtx 5090",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory=32GiB", ""},
    ScenarioWord{"rtx 4090|rtx 3090|rtx 3090 ti",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory=24GiB", ""},
    ScenarioWord{"rtx 4080|rtx 5080",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia "
                 "hardware.gpu.memory=16GiB",
                 ""},
    ScenarioWord{"rtx 3060|rtx 4070|rtx 5070",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory=12GiB", ""},
    ScenarioWord{"rtx pro 6000",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia "
                 "hardware.gpu.memory=96GiB",
                 ""},
    ScenarioWord{"a100|h100",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory=80GiB", ""},
    ScenarioWord{"h200",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia hardware.gpu.memory=141GiB", ""},
    ScenarioWord{"rtx|geforce|nvidia|nvidia gpu", "hardware.gpu.discrete_count=# hardware.gpu.vendor=nvidia",
                 "memory unknown"},
    ScenarioWord{"radeon 7900 xtx|rx 7900 xtx|radeon rx 7900 xtx",
                 "hardware.gpu.discrete_count=# hardware.gpu.vendor=amd hardware.gpu.memory=24GiB", ""},
    ScenarioWord{"mi300x", "hardware.gpu.discrete_count=# hardware.gpu.vendor=amd hardware.gpu.memory=192GiB",
                 ""},
    ScenarioWord{"radeon|amd gpu", "hardware.gpu.discrete_count=# hardware.gpu.vendor=amd", "memory unknown"},
    ScenarioWord{"arc|intel gpu", "hardware.gpu.discrete_count=# hardware.gpu.vendor=intel",
                 "memory unknown"},
    ScenarioWord{"gpu", "hardware.gpu.discrete_count=#", "vendor and memory unknown"},
    ScenarioWord{"# gib memory|# gb memory|# gib ram|# gb ram", "hardware.memory.total=#GiB", ""},
    ScenarioWord{"# gib vram|# gb vram|# gib gpu memory|# gb gpu memory", "hardware.gpu.memory=#GiB",
                 "of each GPU"},
    ScenarioWord{"# machine|# node", "hardware.cluster.nodes=#", ""},
    ScenarioWord{"cluster", "hardware.cluster.nodes=2", "two machines or more"},
    ScenarioWord{"rented|cloud", "hardware.rented=true", ""},
    ScenarioWord{"linux", "hardware.os=linux", ""},
    ScenarioWord{"windows", "hardware.os=windows", ""},
    ScenarioWord{"macos", "hardware.os=macos", ""},

    ScenarioWord{"# b|# b model", "model.parameters=#*1000000000 model.bytes=#*562500000",
                 "billions of weights, at 4.5 bits each"},
    ScenarioWord{"# gib model|# gb model", "model.bytes=#GiB", ""},
    ScenarioWord{"# k|# k context", "model.context=#*1024", "tokens a sequence may hold"},
    ScenarioWord{"moe|mixture|mixture of experts|mixtral", "model.moe=true", ""},
    ScenarioWord{"gguf", "model.format=gguf", ""},
    ScenarioWord{"awq", "model.format=awq", ""},
    ScenarioWord{"gptq", "model.format=gptq", ""},
    ScenarioWord{"exl2", "model.format=exl2", ""},
    ScenarioWord{"exl3", "model.format=exl3", ""},
    ScenarioWord{"fp8", "model.format=fp8", ""},

    ScenarioWord{"chat", "workload.class=chat", ""},
    ScenarioWord{"agent|coding agent", "workload.class=agent", ""},
    ScenarioWord{"rag|indexing|indexer", "workload.class=rag", ""},
    ScenarioWord{"batch|nightly batch", "workload.class=batch", ""},
    ScenarioWord{"completion", "workload.class=completion", ""},
    ScenarioWord{"classification", "workload.class=classification", ""},
    ScenarioWord{"summarization|summary|summaries", "workload.class=summarization", ""},
    ScenarioWord{"extraction", "workload.class=extraction", ""},
    ScenarioWord{"embedding", "workload.class=embedding", ""},
    ScenarioWord{"fine tuning|fine tune", "workload.class=fine_tuning", ""},
    ScenarioWord{"# user|# stream|# request", "workload.concurrency=#", "at once"},
    ScenarioWord{"production", "workload.concurrency=32", ""},
    ScenarioWord{"batch #", "workload.batch_size=#", ""},
    ScenarioWord{"# k prompt", "workload.prompt_tokens=#*1024", ""},
    ScenarioWord{"long prompt|long context", "workload.prompt_tokens=32768", ""},
    ScenarioWord{"# k prefix|# k shared prefix", "workload.shared_prefix_tokens=#*1024", ""},
    ScenarioWord{"shared prefix|routing", "workload.shared_prefix_tokens=2048", ""},
    ScenarioWord{"# k answer", "workload.output_tokens=#*1024", ""},
    ScenarioWord{"decode|decode bound|long answer", "workload.phase=decode", ""},
    ScenarioWord{"prefill|prefill bound", "workload.phase=prefill", ""},
    ScenarioWord{"latency", "workload.objective=latency", ""},
    ScenarioWord{"throughput|max throughput", "workload.objective=throughput", ""},
    ScenarioWord{"peak|maximum performance", "workload.objective=peak", ""},
    ScenarioWord{"convenience", "workload.objective=convenience", "changes nothing: never Ollama"},
    ScenarioWord{"fixed|fixed critical|fixed and critical", "workload.fixed_critical=true", ""},
    ScenarioWord{"vision|image", "workload.modalities=text,image", ""},
    ScenarioWord{"voice|speech|audio", "workload.modalities=audio", ""},
    ScenarioWord{"every modality", "workload.modalities=text,image,audio", ""},
    ScenarioWord{"json|structured output|grammar", "workload.structured_output=true", ""},
    ScenarioWord{"draft model|speculative decoding", "workload.draft_model=true", ""},
    ScenarioWord{"desktop app|consumer app", "workload.delivery=desktop_app", ""},
    ScenarioWord{"embedded|in process|library", "workload.delivery=in_process", ""},
    ScenarioWord{"single file|one file", "workload.delivery=single_file", ""},
    ScenarioWord{"cross platform|one codebase", "workload.delivery=cross_platform", ""},
    ScenarioWord{"browser", "workload.delivery=browser", ""},
    ScenarioWord{"private|local only", "app.privacy=local_only", ""},
};

constexpr std::array<std::string_view, 16> kFillers{"a",  "an", "the", "with", "and", "on",  "for",   "of",
                                                    "in", "at", "to",  "my",   "per", "its", "model", "only"};
constexpr std::array<std::string_view, 10> kNumbers{"one", "two",   "three", "four", "five",
                                                    "six", "seven", "eight", "nine", "ten"};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(at), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

struct Pattern {
  std::vector<std::string_view> tokens;
  const ScenarioWord* row = nullptr;
  bool counted = false;  // a number may stand before it
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = [] {
    std::vector<Pattern> out;
    for (const ScenarioWord& row : kVocabulary)
      for (const std::string_view alternative : split(row.words, '|')) {
        Pattern pattern{split(alternative, ' '), &row, false};
        pattern.counted = row.facts.find('#') != std::string_view::npos &&
                          std::ranges::find(pattern.tokens, std::string_view("#")) == pattern.tokens.end();
        out.push_back(std::move(pattern));
      }
    return out;
  }();
  return all;
}

std::optional<double> number_of(std::string_view token) {
  for (std::size_t i = 0; i < kNumbers.size(); ++i)
    if (kNumbers[i] == token) return static_cast<double>(i + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc{} || end != token.data() + token.size()) return std::nullopt;
  return value;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

// Small letters; a unit glued to a number ("8K", "2x") stands apart, a number glued to a word ("h100") does
// not.
std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) out.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool point =
        c == '.' && !word.empty() && is_digit(word.back()) && i + 1 < text.size() && is_digit(text[i + 1]);
    if (!is_letter(c) && !is_digit(c) && !point) {
      finish();
      continue;
    }
    if (is_letter(c) && !word.empty() && is_digit(word.front())) finish();
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  finish();
  return out;
}

struct Match {
  const Pattern* pattern = nullptr;
  std::size_t length = 0;
  double number = 1;
};

// `tokens` from `at` on against one pattern, `lead` of them a count before it.
std::optional<Match> match(const Pattern& pattern, std::span<const std::string> tokens, std::size_t lead) {
  if (tokens.size() < lead + pattern.tokens.size()) return std::nullopt;
  Match out{&pattern, lead + pattern.tokens.size(), 1};
  if (lead > 0) {
    const auto count = number_of(tokens[0]);
    if (!count) return std::nullopt;
    out.number = *count;
  }
  for (std::size_t i = 0; i < pattern.tokens.size(); ++i) {
    const std::string& token = tokens[lead + i];
    if (pattern.tokens[i] == "#") {
      const auto value = number_of(token);
      if (!value) return std::nullopt;
      out.number = *value;
    } else if (pattern.tokens[i] != token) {
      return std::nullopt;
    }
  }
  return out;
}

Match longest(std::span<const std::string> tokens) {
  Match best;
  for (const Pattern& pattern : patterns())
    for (std::size_t lead = 0; lead <= (pattern.counted ? 1U : 0U); ++lead)
      if (const auto found = match(pattern, tokens, lead); found && found->length > best.length)
        best = *found;
  return best;
}

// "model.context=#*1024" with 8: "model.context=8192".
std::string filled(std::string_view assignment, double number) {
  const std::size_t hash = assignment.find('#');
  if (hash == std::string_view::npos) return std::string(assignment);
  double value = number;
  std::string_view rest = assignment.substr(hash + 1);
  if (rest.starts_with('*')) {
    value *= number_of(rest.substr(1)).value_or(1);
    rest = {};
  }
  return std::string(assignment.substr(0, hash)) + std::to_string(std::llround(value)) + std::string(rest);
}

Error unknown_word(const std::string& token, const std::set<std::string_view>& known) {
  if (number_of(token))
    return {ErrorCode::invalid_value, "\"" + token + "\": a number of what? Users, K, GiB, B?", {}, {}};
  return {ErrorCode::invalid_value,
          "the word \"" + token + "\" says nothing here" +
              config::did_you_mean(token, {known.begin(), known.end()}),
          {},
          {}};
}

Result<void> read_phrase(std::string_view phrase, const std::set<std::string_view>& vocabulary,
                         Facts& facts) {
  std::vector<std::string> tokens;
  for (std::string& token : tokens_of(phrase)) {
    const bool behind_number = !tokens.empty() && number_of(tokens.back());
    if (behind_number && (token == "x" || token == "s")) continue;  // "2x RTX 3090s"
    const std::string singular = token.substr(0, token.size() - 1);
    if (token.ends_with('s') && !vocabulary.contains(token) && vocabulary.contains(singular))
      token = singular;
    tokens.push_back(std::move(token));
  }
  for (std::size_t at = 0; at < tokens.size();) {
    const Match found = longest(std::span(tokens).subspan(at));
    if (!found.pattern) {
      if (std::ranges::find(kFillers, std::string_view(tokens[at])) != kFillers.end()) {
        ++at;
        continue;
      }
      // A number is at fault only where what it counts is known.
      const bool counts_nothing = number_of(tokens[at]) && at + 1 < tokens.size() &&
                                  !number_of(tokens[at + 1]) && !vocabulary.contains(tokens[at + 1]);
      return std::unexpected(unknown_word(tokens[at + (counts_nothing ? 1 : 0)], vocabulary));
    }
    if (found.number < 0 || found.number > kMaxScenarioNumber)
      return fail(ErrorCode::invalid_value, "\"" + tokens[at] + "\": the most that is read is " +
                                                std::to_string(std::llround(kMaxScenarioNumber)));
    for (const std::string_view assignment : split(found.pattern->row->facts, ' '))
      if (auto ok = set_fact(filled(assignment, found.number), kWords, facts); !ok) return ok;
    at += found.length;
  }
  return {};
}

template <class T>
const T* known(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  return fact ? &std::get<T>(fact->value) : nullptr;
}

}  // namespace

std::span<const ScenarioWord> scenario_vocabulary() {
  return kVocabulary;
}

Result<void> read_scenario(std::string_view words, Facts& facts) {
  if (words.size() > kMaxScenarioBytes)
    return fail(ErrorCode::invalid_value, std::to_string(words.size()) + " bytes of words, the limit is " +
                                              std::to_string(kMaxScenarioBytes));
  std::set<std::string_view> vocabulary;
  for (const Pattern& pattern : patterns())
    for (const std::string_view token : pattern.tokens)
      if (token != "#") vocabulary.insert(token);
  for (const std::string_view phrase : split(words, ','))
    if (auto ok = read_phrase(phrase, vocabulary, facts); !ok) return ok;
  return {};
}

void complete_scenario(Facts& facts) {
  constexpr const char* kDefault = "default";
  constexpr const char* kRelease = "this release";
  const auto otherwise = [&](std::string_view name, FactValue value, const char* source) {
    if (!facts.get(name)) facts.set(name, std::move(value), source);
  };
  using Integer = std::int64_t;
  if (const auto* count = known<Integer>(facts, "hardware.gpu.count"); count && *count == 0) {
    otherwise("hardware.gpu.discrete_count", Integer{0}, kDefault);
    otherwise("hardware.gpu.integrated_count", Integer{0}, kDefault);
  }
  if (facts.get("hardware.gpu.discrete_count"))
    otherwise("hardware.gpu.integrated_count", Integer{0}, kDefault);
  if (const auto* unified = known<bool>(facts, "hardware.memory.unified"); unified && *unified) {
    otherwise("hardware.gpu.integrated_count", Integer{1}, kDefault);
    otherwise("hardware.gpu.discrete_count", Integer{0}, kDefault);
  }
  const auto* discrete = known<Integer>(facts, "hardware.gpu.discrete_count");
  const auto* integrated = known<Integer>(facts, "hardware.gpu.integrated_count");
  if (discrete && integrated) {
    otherwise("hardware.gpu.count", *discrete + *integrated, kDefault);
    otherwise("hardware.memory.unified", *discrete == 0 && *integrated > 0, kDefault);
    if (*discrete + *integrated == 0) otherwise("hardware.gpu.vendor", std::string("none"), kDefault);
    const auto* memory = known<Integer>(facts, "hardware.gpu.memory");
    constexpr Integer kMost = Integer{1} << 62;
    if (memory && *discrete > 0 && *memory <= kMost / *discrete)
      otherwise("hardware.gpu.memory_total", *memory * *discrete, kDefault);
  }
  otherwise("hardware.cluster.nodes", Integer{1}, kDefault);
  otherwise("app.privacy", std::string("any"), kDefault);
  otherwise("workload.class", std::string("chat"), kDefault);
  otherwise("workload.modalities", std::vector<std::string>{"text"}, kDefault);
  otherwise("workload.delivery", std::string("service"), kDefault);

  otherwise("backend.cpu.available", true, kRelease);
  const auto* gpus = known<Integer>(facts, "hardware.gpu.count");
  const auto device = [&](const std::string& backend, bool there, const char* reason) {
    if (facts.get("backend." + backend + ".available")) return;
    facts.set("backend." + backend + ".available", there, kRelease);
    if (!there) facts.set("backend." + backend + ".reason", std::string(reason), kRelease);
  };
  device("vulkan", gpus && *gpus > 0, "no GPU is described");
  device("opencl", discrete && *discrete > 0, "no discrete GPU is described");
  for (const std::string_view backend : known_backends())
    if (is_remote(backend))
      device(std::string(backend), false, "no upstream of this kind can be configured yet");
  derive(facts);
}

}  // namespace flyball::policy
