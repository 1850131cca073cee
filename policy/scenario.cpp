// How a text is read by the vocabulary: fillers dropped, plurals cut, always the longest row that fits. What
// is said once holds, wherever it stands; what is said twice in two ways is an error.
#include "policy/scenario.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "config/engine_kinds.hpp"
#include "config/table.hpp"
#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

constexpr std::size_t kMaxScenarioBytes = 2000;
constexpr double kMaxScenarioNumber = 1e6;
constexpr const char* kDefault = "default";
constexpr const char* kWords = "words";
constexpr const char* kGuess = "guess";  // from words too: what they stand for unless other words say it

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
    for (const ScenarioWord& row : scenario_vocabulary())
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
  bool counted = false;  // the number was given
};

// `tokens` from `at` on against one pattern, `lead` of them a count before it.
std::optional<Match> match(const Pattern& pattern, std::span<const std::string> tokens, std::size_t lead) {
  if (tokens.size() < lead + pattern.tokens.size()) return std::nullopt;
  Match out{&pattern, lead + pattern.tokens.size(), 1, lead > 0 || !pattern.counted};
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

std::string joined(std::span<const std::string> tokens) {
  std::string out;
  for (const std::string& token : tokens) out += (out.empty() ? "" : " ") + token;
  return out;
}

// What the words say of one fact.
struct Saying {
  std::string text;  // its value, as "24GiB"
  FactValue value;
  std::string words;  // that say it, as "two rtx 3090"
  std::string kind;   // these without a count
  bool guess = false;
};

class Sayings {
 public:
  // "hardware.gpu.memory~=24GiB", with the number of the match for #.
  Result<void> add(std::string_view assignment, const Match& match, std::span<const std::string> tokens) {
    const std::size_t equals = assignment.find('=');
    std::string_view name = assignment.substr(0, equals);
    const bool guess =
        name.ends_with('~') || (!match.counted && assignment.find('#') != std::string_view::npos);
    if (name.ends_with('~')) name.remove_suffix(1);
    const FactId id = *find_fact(name);  // the vocabulary names known facts: a test sets every row
    const FactInfo& info = default_targets()->facts()[id];
    std::string text = filled(assignment.substr(equals + 1), match.number);
    auto value = fact_value(info, text);
    if (!value) return pass(value);
    Saying said{std::move(text), std::move(*value), joined(tokens),
                joined(tokens.last(match.pattern->tokens.size())), guess};
    const auto [it, first] = by_fact_.try_emplace(id, said);
    if (!first) return settle(info, it->second, std::move(said));
    return {};
  }

  void set(Facts& facts) const {
    const bool gpu = by_fact_.contains(*find_fact("hardware.gpu.discrete_count")) ||
                     by_fact_.contains(*find_fact("hardware.gpu.integrated_count"));
    for (const auto& [id, said] : by_fact_) {
      const bool no_gpu = said.guess && id == find_fact("hardware.gpu.count");
      if (!gpu || !no_gpu) facts.set(id, said.value, said.guess ? kGuess : kWords);
    }
  }

 private:
  static Result<void> settle(const FactInfo& fact, Saying& held, Saying said) {
    const bool sizes_a_gpu = fact.name == "hardware.gpu.memory";
    if (sizes_a_gpu && held.guess && said.guess && held.kind != said.kind)
      return fail(ErrorCode::invalid_value, "\"" + held.kind + "\" and \"" + said.kind +
                                                "\" are two kinds of GPU; a description has one");
    if (held.guess != said.guess) {
      if (held.guess) held = std::move(said);
      return {};
    }
    if (held.value == said.value) return {};
    if (!held.guess)
      return fail(ErrorCode::invalid_value, std::string(fact.name) + " is " + held.text + " by \"" +
                                                held.words + "\" and " + said.text + " by \"" + said.words +
                                                "\"");
    // Of two guesses the more: one GPU, of which nobody gave the number, and none beside an integrated one.
    const auto* number = std::get_if<std::int64_t>(&said.value);
    if (number && *number > std::get<std::int64_t>(held.value)) held = std::move(said);
    return {};
  }

  std::map<FactId, Saying> by_fact_;
};

// A size right behind a machine is its memory: "RTX 4090 24 GiB", "laptop 16 GB".
std::string_view memory_of(const ScenarioWord* machine) {
  if (!machine || machine->facts.find("hardware.gpu.") == std::string_view::npos) return {};
  return machine->facts.find("hardware.gpu.discrete_count=#") != std::string_view::npos
             ? "hardware.gpu.memory=#GiB"
             : "hardware.memory.total=#GiB";
}

bool is_size(std::span<const std::string> tokens) {
  return tokens.size() >= 2 && number_of(tokens[0]) && (tokens[1] == "gib" || tokens[1] == "gb");
}

Result<void> read_phrase(std::string_view phrase, const std::set<std::string_view>& vocabulary,
                         Sayings& sayings) {
  std::vector<std::string> tokens;
  for (std::string& token : tokens_of(phrase)) {
    const bool behind_number = !tokens.empty() && number_of(tokens.back());
    if (behind_number && (token == "x" || token == "s")) continue;  // "2x RTX 3090s"
    const std::string singular = token.substr(0, token.size() - 1);
    if (token.ends_with('s') && !vocabulary.contains(token) && vocabulary.contains(singular))
      token = singular;
    tokens.push_back(std::move(token));
  }
  static constexpr Pattern kSize{};
  const ScenarioWord* before = nullptr;
  for (std::size_t at = 0; at < tokens.size();) {
    const std::span<const std::string> rest = std::span(tokens).subspan(at);
    Match found = longest(rest);
    std::string_view facts = found.pattern ? found.pattern->row->facts : std::string_view();
    if (!found.pattern && is_size(rest) && !memory_of(before).empty()) {
      found = {&kSize, 2, *number_of(rest[0]), true};
      facts = memory_of(before);
    }
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
    for (const std::string_view assignment : split(facts, ' '))
      if (auto ok = sayings.add(assignment, found, rest.first(found.length)); !ok) return pass(ok);
    if (!facts.empty()) before = found.pattern->row;  // "M4 Max 64 GB": `max` says nothing
    at += found.length;
  }
  return {};
}

template <class T>
const T* known(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  return fact ? &std::get<T>(fact->value) : nullptr;
}

// The counts of GPUs, each from the others; what is left open is none. An error where they contradict each
// other.
Result<void> complete_counts(Facts& facts) {
  using Integer = std::int64_t;
  constexpr const char* kAll = "hardware.gpu.count";
  constexpr const char* kDiscrete = "hardware.gpu.discrete_count";
  constexpr const char* kIntegrated = "hardware.gpu.integrated_count";
  const auto set = [&](const char* name, Integer value) { facts.set(name, value, kDefault); };
  const auto* unified = known<bool>(facts, "hardware.memory.unified");
  const auto* discrete = known<Integer>(facts, kDiscrete);
  const auto* integrated = known<Integer>(facts, kIntegrated);
  const auto* all = known<Integer>(facts, kAll);
  // A laptop, say, is guessed to have no GPU: facts beside the words may name one.
  if (all && (discrete || integrated || unified) && facts.get(kAll)->source == kGuess) all = nullptr;
  if (unified && *unified && !integrated) set(kIntegrated, all ? *all : 1);
  integrated = known<Integer>(facts, kIntegrated);
  if (!discrete && unified && *unified) set(kDiscrete, 0);
  if (!discrete && all && (integrated || *all == 0))
    set(kDiscrete, std::max(*all - (integrated ? *integrated : 0), Integer{0}));
  discrete = known<Integer>(facts, kDiscrete);
  if (discrete && !integrated) set(kIntegrated, all ? std::max(*all - *discrete, Integer{0}) : 0);
  integrated = known<Integer>(facts, kIntegrated);
  if (!discrete || !integrated) return {};
  const std::string both =
      std::to_string(*discrete) + " discrete and " + std::to_string(*integrated) + " integrated GPUs";
  Integer sum = 0;
  if (__builtin_add_overflow(*discrete, *integrated, &sum) || (all && *all != sum))
    return fail(ErrorCode::invalid_value,
                std::string(kAll) + " is " + (all ? std::to_string(*all) : "no number") + ", of " + both);
  if (unified && *unified && *discrete > 0)
    return fail(ErrorCode::invalid_value, "hardware.memory.unified is true, with " + both);
  if (!all) set(kAll, sum);
  return {};
}

}  // namespace

Result<void> read_scenario(std::string_view words, Facts& facts) {
  if (words.size() > kMaxScenarioBytes)
    return fail(ErrorCode::invalid_value, std::to_string(words.size()) + " bytes of words, the limit is " +
                                              std::to_string(kMaxScenarioBytes));
  std::set<std::string_view> vocabulary;
  for (const Pattern& pattern : patterns())
    for (const std::string_view token : pattern.tokens)
      if (token != "#") vocabulary.insert(token);
  Sayings sayings;
  for (const std::string_view phrase : split(words, ','))
    if (auto ok = read_phrase(phrase, vocabulary, sayings); !ok) return pass(ok);
  sayings.set(facts);
  return {};
}

Result<void> complete_scenario(Facts& facts) {
  constexpr const char* kRelease = "this release";
  const auto otherwise = [&](std::string_view name, FactValue value, const char* source) {
    if (!facts.get(name)) facts.set(name, std::move(value), source);
  };
  using Integer = std::int64_t;
  if (auto ok = complete_counts(facts); !ok) return pass(ok);
  const auto* discrete = known<Integer>(facts, "hardware.gpu.discrete_count");
  const auto* integrated = known<Integer>(facts, "hardware.gpu.integrated_count");
  if (discrete && integrated) {
    otherwise("hardware.memory.unified", *discrete == 0 && *integrated > 0, kDefault);
    if (*discrete == 0 && *integrated == 0) otherwise("hardware.gpu.vendor", std::string("none"), kDefault);
    const auto* memory = known<Integer>(facts, "hardware.gpu.memory");
    constexpr Integer kMost = Integer{1} << 62;
    if (memory && *discrete > 0 && *memory <= kMost / *discrete)
      otherwise("hardware.gpu.memory_total", *memory * *discrete, kDefault);
  }
  if (const auto* vendor = known<std::string>(facts, "hardware.gpu.vendor"); vendor && *vendor == "apple")
    otherwise("hardware.os", std::string("macos"), kDefault);
  otherwise("hardware.cluster.nodes", Integer{1}, kDefault);
  otherwise("app.privacy", std::string("any"), kDefault);
  otherwise("workload.class", std::string("chat"), kDefault);
  otherwise("workload.modalities", std::vector<std::string>{"text"}, kDefault);
  otherwise("workload.delivery", std::string("service"), kDefault);

  using Expects = config::EngineKind::Expects;
  const auto* gpus = known<Integer>(facts, "hardware.gpu.count");
  const auto settle = [&](const TargetInstance& target, bool there, const char* reason) {
    const FactId available = fact_of(target, TargetFact::available);
    if (facts.get(available) != nullptr) return;
    facts.set(available, there, kRelease);
    if (!there) facts.set(fact_of(target, TargetFact::reason), std::string(reason), kRelease);
  };
  for (const TargetInstance& target : facts.targets()->instances()) {
    if (const config::EngineKind* kind = config::find_engine_kind(target.kind); kind == nullptr) {
      if (!target.configured) settle(target, false, "no upstream of this kind can be configured yet");
    } else if (kind->expects == Expects::processor) {
      settle(target, true, "");
    } else if (kind->expects == Expects::gpu) {
      settle(target, gpus && *gpus > 0, "no GPU is described");
    } else {
      settle(target, discrete && *discrete > 0, "no discrete GPU is described");
    }
  }
  derive(facts);
  return {};
}

}  // namespace flyball::policy
