// How a text is read: atoms, then from each place the longest pattern of the vocabulary, the machines, the
// models and the catalogue's systems. Words that no pattern has are skipped and named; nothing is fatal.
#include "policy/scenario.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "config/engine_kinds.hpp"
#include "config/table.hpp"
#include "policy/fact_text.hpp"
#include "policy/machines.hpp"
#include "policy/scenario_machines.hpp"
#include "policy/scenario_text.hpp"
#include "policy/scenario_tokens.hpp"

namespace flyball::policy {
namespace {

constexpr std::size_t kMaxScenarioBytes = 2000;
constexpr const char* kDefault = "default";
constexpr const char* kGuess = "guess";  // from words too: what they stand for unless other words say it
constexpr std::string_view kTopic = "topic";
constexpr std::string_view kTotals = "# gb across|";  // the row of sizes that several share

constexpr std::array<std::string_view, 13> kNegations{"not",   "no",       "isnt",  "arent",  "without",
                                                      "never", "dont",     "cant",  "cannot", "wont",
                                                      "aint",  "shouldnt", "doesnt"};
// "No idea what to use", "can't decide", "no more than 10 users": nothing that follows is denied.
constexpr std::array<std::string_view, 8> kDenyNothing{"idea", "clue", "sure",  "decide",
                                                       "more", "less", "fewer", "matter"};
constexpr std::array<std::string_view, 4> kDenyOn{"or", "nor", "and", "oder"};  // "no GPU or NPU"
constexpr std::string_view kDecide = "decide";                                  // no slip of "decode"
constexpr std::array<std::string_view, 4> kEndsOfNegation{"but", "just", "only", "so"};
// "x2" as "two of them".
constexpr std::array<std::string_view, 4> kThem{"them", "those", "these", "it"};
constexpr std::array<std::string_view, 3> kJoins{"and", "plus", "und"};
// Before the name of another machine: "and a 4090 pc".
constexpr std::array<std::string_view, 10> kArticles{"a",    "an",  "my",  "one",    "another",
                                                     "also", "the", "our", "second", "his"};
// Adjectives that stand before a machine's name.
constexpr std::array<std::string_view, 16> kOfMachines{
    "gaming", "home",  "old",       "older", "new",    "used",   "big",   "small",
    "spare",  "other", "dedicated", "cheap", "second", "little", "beefy", "separate"};
constexpr std::array<std::string_view, 3> kInside{"in", "inside", "on"};  // "one 3090 in my server"
// "8 H100 across 2 servers": behind cards.
constexpr std::array<std::string_view, 7> kSpread{"across",   "over",        "total", "altogether",
                                                  "combined", "distributed", "spread"};
constexpr std::array<std::string_view, 4> kAlternatives{"or", "vs", "versus", "oder"};
constexpr std::array<std::string_view, 8> kMultipliers{"k",   "m",        "mio",     "million",
                                                       "mil", "thousand", "hundred", "b"};
constexpr std::array<std::string_view, 31> kCountedThings{
    "document", "doc",     "email",   "mail",    "chunk",    "file",    "ticket",    "page",
    "article",  "token",   "message", "record",  "row",      "review",  "invoice",   "podcast",
    "book",     "paper",   "call",    "query",   "queries",  "request", "prompt",    "summaries",
    "contract", "picture", "photo",   "comment", "sentence", "receipt", "transcript"};
constexpr std::array<std::string_view, 2> kCurrencySigns{"\xE2\x82\xAC",
                                                         "\xC2\xA3"};  // the dollar is no letter
constexpr std::array<std::string_view, 9> kCurrencies{"euro", "eur", "usd",  "dollar", "buck",
                                                      "gbp",  "chf", "quid", "franken"};
// Before the number of a card: "rtx 2000" is no year.
constexpr std::array<std::string_view, 4> kCardBrands{"rtx", "gtx", "quadro", "geforce"};
constexpr std::array<std::string_view, 8> kPeriods{"second", "minute", "hour",  "day",
                                                   "night",  "week",   "month", "year"};
constexpr std::array<std::string_view, 5> kEach{"a", "an", "per", "each", "every"};
constexpr std::array<std::string_view, 6> kAdverbs{"daily",  "nightly", "hourly",
                                                   "weekly", "monthly", "overnight"};

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
  if (rest == "GiB" && value != std::floor(value)) {
    value *= 1024;
    rest = "MiB";
  }
  return std::string(assignment.substr(0, hash)) + std::to_string(std::llround(value)) + std::string(rest);
}

std::string gib_text(double gib) {
  return filled("#GiB", gib);
}

// ---- sayings ----------------------------------------------------------------------------------------------

struct Saying {
  std::string text;  // its value, as "24GiB"
  FactValue value;
  std::string words;  // that say it
  bool guess = false;
};

class Sayings {
 public:
  explicit Sayings(Reading& reading) : reading_(reading) {}

  // "hardware.gpu.memory~=24GiB". Values that the fact cannot have are left out.
  void add(std::string_view assignment, const std::string& words) {
    const std::size_t equals = assignment.find('=');
    std::string_view name = assignment.substr(0, equals);
    const bool guess = name.ends_with('~');
    if (guess) name.remove_suffix(1);
    const FactId id = *find_fact(name);  // the vocabulary names known facts: a test sets every row
    const FactInfo& info = default_targets()->facts()[id];
    std::string text(assignment.substr(equals + 1));
    auto value = fact_value(info, text);
    if (!value) return;
    settle(info, id, {std::move(text), std::move(*value), words, guess});
  }
  const Saying* get(std::string_view name) const {
    const auto it = by_fact_.find(*find_fact(name));
    return it == by_fact_.end() ? nullptr : &it->second;
  }
  void forget(std::string_view name) { by_fact_.erase(*find_fact(name)); }
  void set(Facts& facts) const {
    for (const auto& [id, said] : by_fact_) facts.set(id, said.value, said.guess ? kGuess : kScenarioWords);
  }
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  static bool at_once(const std::string& words) {
    for (const char* sign : {"once", "time", "parallel", "oncurrent", "imultaneous"})
      if (words.contains(sign)) return true;
    return false;
  }

  void settle(const FactInfo& fact, FactId id, Saying said) {
    if (fact.name == "workload.class" && !said.guess && !among(classes_, said.text))
      classes_.push_back(said.text);
    const auto [it, first] = by_fact_.try_emplace(id, said);
    Saying& held = it->second;
    if (first || held.value == said.value) {
      held.guess &= said.guess;
      return;
    }
    if (fact.name == "hardware.os" && !held.guess && !said.guess) return;  // several: Reading::oses
    if (fact.name == "workload.class" && !held.guess) return;              // another app
    if (auto* all = std::get_if<std::vector<std::string>>(&held.value)) {
      for (const std::string& one : std::get<std::vector<std::string>>(said.value))
        if (!among(*all, one)) all->push_back(one);
      return;
    }
    if (fact.name == "workload.concurrency" && at_once(held.words) != at_once(said.words)) {
      if (at_once(said.words)) held = std::move(said);
      return;
    }
    if (held.guess != said.guess) {
      if (held.guess) held = std::move(said);
      return;
    }
    if (held.guess) {  // of two guesses the more: 32 of "production", 50 of "50 people"
      const auto* number = std::get_if<std::int64_t>(&said.value);
      if (number && *number > std::get<std::int64_t>(held.value)) held = std::move(said);
      return;
    }
    reading_.notes.push_back("\"" + held.words + "\" and \"" + said.words + "\" contradict each other (" +
                             std::string(fact.name) + " " + held.text + " and " + said.text +
                             "): " + held.text + " is taken");
  }

  Reading& reading_;
  std::map<FactId, Saying> by_fact_;
  std::vector<std::string> classes_;  // that are said outright
};

// A machine or a card of the table, as often as the words name it.
struct Named {
  const Machine* machine = nullptr;
  double count = 1;
  bool counted = false;
  double memory = 0;  // GiB of each, as the words say it; 0: they do not
  std::string words;
};

class Reader {
 public:
  Reader(std::string_view words, Reading& reading) : text_(words), reading_(reading), sayings_(reading) {}

  void read(Facts& facts) {
    reading_.words = text_.words();
    reading_.notes = text_.ranges();
    for (std::size_t at = 0; at < text_.size();) at += step(at);
    flush();
    settle_others();
    settle_mac();
    settle_machines();
    settle_models();
    settle_classes();
    sayings_.set(facts);
  }

 private:
  enum class Sizes : std::uint8_t { none, card, machine };  // owner of a bare size behind a pattern
  enum class Last : std::uint8_t { nothing, named, card, machine };
  enum class Aside : std::uint8_t { none, alternative, other };  // an alternative ends with its phrase

  // A machine that the answer leaves out.
  struct Other {
    std::string words;
    bool alternative = false;
  };

  std::size_t step(std::size_t at) {
    if (text_.before(at) == Break::hard) {
      negated_ = alternative_ = false;
      if (aside_ == Aside::alternative) end_aside();
    }
    if (among(kEndsOfNegation, text_.word(at))) negated_ = false;
    if (!negated_) look_for_another_machine(at);
    if (const std::size_t n = count_behind(at); n > 0) return n;
    if (const std::size_t n = spread(at); n > 0) return n;
    if (const std::size_t n = price(at); n > 0) return n;
    if (const std::size_t n = volume(at); n > 0) return n;
    if (const std::size_t n = counted_size(at); n > 0) return n;
    const Match found = text_.longest(at);
    // A name of the table behind a hyphen of a model's name is none: "bge-reranker-v2-m3".
    if (in_model_name_ && text_.before(at) <= Break::joint && text_.before(at) != Break::hard) {
      const bool counts =
          found.pattern && (found.pattern->quantization || found.pattern->word || found.pattern->model);
      if (!counts && !size_of_model(at)) return absorb(at);
    }
    if (const std::size_t n = parameters(at, found.length); n > 0) return n;
    if (const std::size_t n = size(at, found.length); n > 0) return n;
    if (found.pattern && usable(found, at)) {
      take(found, at);
      return found.length;
    }
    return skip(at);
  }

  // ---- numbers with a meaning of their own ----------------------------------------------------------------

  // "$1400", "2k euros", "budget of 1080": no card, no year.
  std::size_t price(std::size_t at) {
    constexpr double kLeastOfABudget = 50;
    const bool sign = among(kCurrencySigns, text_.word(at));
    const std::size_t begin = at + (sign ? 1 : 0);
    const auto number = begin < text_.size() ? number_of(text_.word(begin)) : std::nullopt;
    if (!number || !is_digit(text_.word(begin).front())) return 0;
    std::size_t end = begin + 1;
    if (text_.next(end) == "k" && text_.before(end) == Break::none) ++end;
    bool price = sign || text_.has_between(at, "$");
    if (text_.before(at) != Break::hard && at > 0 && *number >= kLeastOfABudget)
      price |= text_.word(at - 1) == "budget" ||
               (at > 1 && text_.word(at - 1) == "of" && text_.word(at - 2) == "budget");
    const auto same = [&](std::string_view one) { return same_word(text_.next(end), one); };
    if (std::ranges::any_of(kCurrencies, same) || among(kCurrencySigns, text_.next(end))) {
      price = true;
      ++end;
    }
    return price ? understand(at, end - at, "a price") : 0;
  }

  // "10k emails a day", "a million documents overnight", "every 5 minutes", "20 requests a day": how much,
  // not how many at once.
  std::size_t volume(std::size_t at) {
    std::size_t i = at;
    if (text_.word(i) == "every" && number_of(text_.next(i + 1)) && is_period(text_.next(i + 2)))
      return understand(at, 3, "a volume");
    const bool number = number_of(text_.word(i)).has_value();
    if (number || text_.word(i) == "a") ++i;
    bool large = false;
    while (i < text_.size() && (i == at || text_.next(i) != "") && among(kMultipliers, text_.word(i)) &&
           (i > at || !number)) {
      if (text_.word(i).size() == 1 && text_.before(i) != Break::none) break;
      large = true;
      ++i;
      break;
    }
    if (i == at || (!number && !large)) return 0;
    std::string_view thing = text_.next(i);
    const bool counted =
        std::ranges::any_of(kCountedThings, [&](std::string_view one) { return same_word(thing, one); });
    const bool at_once =
        same_word(thing, "request") || same_word(thing, "stream") || same_word(thing, "user");
    if (!counted && !at_once) return 0;
    if (text_.word(i - 1) == "k" && (same_word(thing, "token") || same_word(thing, "prompt"))) {
      if (period(i + 1) == 0) return 0;  // "8k tokens"
    }
    ++i;
    const std::size_t n = period(i);
    if (at_once && n == 0 && !large) return 0;
    if (same_word(thing, "prompt") && n == 0) return 0;
    if (same_word(thing, "user") && n == 0) return 0;
    std::string facts = "a volume, not a number at once";
    if (n > 0 && (text_.word(i + n - 1).starts_with("night") || text_.word(i + n - 1) == "overnight")) {
      const std::string words = text_.said(at, i + n - at);
      if (!negated_) sayings_.add("workload.class~=batch", words);
      facts = "workload.class~=batch, a volume";
    }
    return understand(at, i + n - at, facts);
  }
  static bool is_period(std::string_view word) {
    return std::ranges::any_of(kPeriods, [&](std::string_view one) { return same_word(word, one); });
  }
  std::size_t period(std::size_t at) const {
    if (among(kAdverbs, text_.next(at))) return 1;
    return among(kEach, text_.next(at)) && is_period(text_.next(at + 1)) ? 2 : 0;
  }

  bool size_of_model(std::size_t at) const {
    return (number_of(text_.word(at)) && text_.next(at + 1) == "b") ||
           (text_.word(at) == "a" && number_of(text_.next(at + 1)) && text_.next(at + 2) == "b");
  }

  // "70B", "30b-a3b", "two 32B models".
  std::size_t parameters(std::size_t at, std::size_t longest) {
    if (longest > 3) return 0;  // "mixtral 8x7b"
    std::size_t i = at;
    double count = 1;
    if (number_of(text_.word(i)) && number_of(text_.next(i + 1)) && text_.next(i + 2) == "b") {
      count = *number_of(text_.word(i));
      ++i;
    } else if (number_of(text_.word(i)) && text_.next(i + 1) == "x" && number_of(text_.next(i + 2)) &&
               text_.next(i + 3) == "b") {
      count = *number_of(text_.word(i));
      i += 2;
    }
    const auto billions = number_of(text_.word(i));
    if (!billions || text_.next(i + 1) != "b" || *billions <= 0 || *billions > 10'000) return 0;
    std::size_t end = i + 2;
    bool moe = false;
    if (text_.next(end) == "a" && number_of(text_.next(end + 1)) && text_.next(end + 2) == "b") {
      moe = true;
      end += 3;
    }
    while (same_word(text_.next(end), "parameter") || same_word(text_.next(end), "param") ||
           same_word(text_.next(end), "model"))
      ++end;
    const bool models = count > 1 && text_.word(end - 1) == "models";
    if (i > at && (!models || count > kMostOfACount)) return 0;
    const std::string words = text_.said(at, end - at);
    std::string facts = filled("model.parameters=#", *billions * 1e9);
    if (moe) facts += " model.moe=true";
    if (!negated_ && is_alternative_model(at, end)) return end - at;
    if (!negated_) {
      const auto weights = std::llround(*billions * 1e9);
      if (models || !is_size_of_name(at, weights, moe, end)) {
        if (moe) sayings_.add("model.moe=true", words);
        add_model({words, weights, 0, std::llround(count)}, nullptr, at, end);
      }
    }
    in_model_name_ = true;
    return understand(at, end - at, facts);
  }

  // A bare size: of the machine or card before it, else of the one behind it.
  std::size_t size(std::size_t at, std::size_t longest) {
    const double gib = longest > 2 ? 0 : gib_at(at);
    if (gib == 0) return 0;
    const bool each = text_.next(at + 2) == "each" || text_.next(at + 2) == "apiece";
    const std::size_t length = each ? 3 : 2;
    const std::string words = text_.said(at, length);
    if (negated_) return understand(at, length, "denied");
    const bool adjacent = text_.before(at) != Break::hard;
    if (set_aside(at, length)) return length;
    Named* const named = last_named();
    if (named && named->machine->kind == Machine::Class::discrete)
      return size_of_card(*named, gib, at, length, each, adjacent);
    const bool card = last_ == Last::card;
    if (named || card || last_ == Last::machine) {
      const bool card_before = !named && !named_.empty() && named_.back().memory == 0 &&
                               named_.back().machine->kind == Machine::Class::discrete;
      if (!each && card_before && named_.back().machine->has_memory(gib))  // "4060 laptop 8 GB"
        return ambiguous(at, length);
      if (named && named->memory == 0) named->memory = gib;
      const std::string fact = (card ? "hardware.gpu.memory=" : "hardware.memory.total=") + gib_text(gib);
      sayings_.add(fact, words);
      return understand(at, length, fact);
    }
    // "4GB gtx 1650"
    Match ahead;
    if (text_.next(at + length) != "") ahead = text_.longest(at + length);
    if (ahead.pattern && sizes_of(*ahead.pattern) != Sizes::none) {
      pending_size_ = gib;
      return understand(at, length,
                        sizes_of(*ahead.pattern) == Sizes::card ? "hardware.gpu.memory=" + gib_text(gib)
                                                                : "hardware.memory.total=" + gib_text(gib));
    }
    return ambiguous(at, length);
  }

  // Behind a card: its memory where it was sold with as much, that of all of them together, or the machine's.
  std::size_t size_of_card(Named& named, double gib, std::size_t at, std::size_t length, bool each,
                           bool adjacent) {
    const Machine& machine = *named.machine;
    const std::string fact = "hardware.gpu.memory=" + gib_text(gib);
    if (named.memory == 0) {
      if (each || machine.memory.empty() || machine.has_memory(gib)) {
        named.memory = gib;
        return understand(at, length, fact);
      }
      if (named.counted && machine.has_memory(gib / named.count)) {  // "2x3090 48 GB"
        named.memory = gib / named.count;
        return understand(at, length, "hardware.gpu.memory_total=" + gib_text(gib));
      }
      constexpr double kMostOfAVariant = 2;  // "2080 Ti 22 GB": boards are sold with twice the memory
      if (adjacent && gib <= kMostOfAVariant * machine.memory.back()) return ambiguous(at, length);
    }
    sayings_.add("hardware.memory.total=" + gib_text(gib), text_.said(at, length));
    return understand(at, length, "hardware.memory.total=" + gib_text(gib));
  }

  std::size_t ambiguous(std::size_t at, std::size_t length) {
    const std::string words = text_.said(at, length);
    flush();
    reading_.skipped.push_back(words);
    reading_.notes.push_back("\"" + words + "\" may be a card's memory or the machine's: say VRAM or RAM");
    return length;
  }

  // "2 x 24GB GPUs", "two 12 GB RTX 3060", "2x32GB RAM": so many, each of this size.
  std::size_t counted_size(std::size_t at) {
    const double count = count_at(at);
    if (count == 0 || negated_ || (at > 0 && text_.before(at) == Break::none)) return 0;
    const bool times = text_.next(at + 1) == "x";
    const std::size_t size_at = at + 1 + (times ? 1 : text_.of_the(at + 1));
    const double gib = text_.next(size_at).empty() ? 0 : gib_at(size_at);
    if (gib == 0 || (in_model_name_ && !times)) return 0;
    const std::size_t length = size_at + 2 - at;
    const Match unit = text_.longest(size_at);
    if (unit.length > 2 && unit.pattern->word) {
      const std::string_view facts = unit.pattern->word->facts;
      const bool memory = facts.starts_with("hardware.memory.total="),
                 vram = facts.starts_with("hardware.gpu.memory=");
      if (!times || (!memory && !vram)) return 0;
      const std::size_t all = size_at + unit.length - at;
      const std::string words = text_.said(at, all);
      if (set_aside(at, all)) return all;
      const std::string fact =
          memory ? "hardware.memory.total=" + gib_text(count * gib) : "hardware.gpu.memory=" + gib_text(gib);
      sayings_.add(fact, words);
      if (vram) count_cards(count, words);
      return understand(at, all, fact);
    }
    Named* const named = last_named();
    if (times && named && named->machine->kind == Machine::Class::discrete && !named->counted &&
        named->memory == 0 && named->machine->has_memory(gib) && !set_aside(at, length)) {
      named->count = count;
      named->counted = true;
      named->memory = gib;
      return understand(at, length, "hardware.gpu.memory=" + gib_text(gib));
    }
    Match ahead;
    if (text_.next(size_at + 2) != "") ahead = text_.longest(size_at + 2);
    if (!ahead.pattern || ahead.counted || !ahead.pattern->counted) return 0;
    const Sizes sizes = sizes_of(*ahead.pattern);
    if (sizes == Sizes::none) return 0;
    if (set_aside(at, length)) return length;
    pending_size_ = gib;
    pending_count_ = count;
    return understand(
        at, length,
        (sizes == Sizes::card ? "hardware.gpu.memory=" : "hardware.memory.total=") + gib_text(gib));
  }

  // "x2", "2x" and "two of them" behind a card or a machine and its size.
  std::size_t count_behind(std::size_t at) {
    if (hardware_end_ == 0 || aside_ != Aside::none) return 0;
    for (std::size_t i = hardware_end_; i < at; ++i)
      if (!is_filler(text_.word(i))) return 0;
    std::size_t length = 0;
    double count = count_at(at);
    const auto unit = [&](std::size_t i) {
      return among(std::array<std::string_view, 4>{"gb", "tb", "b", "k"}, text_.next(i));
    };
    if (at == hardware_end_ && text_.word(at) == "x" && !text_.next(at + 1).empty() && !unit(at + 2)) {
      count = count_at(at + 1);
      length = 2;
    } else if (text_.next(at + 1) == "of" && among(kThem, text_.next(at + 2))) {
      length = 3;
    } else if (at == hardware_end_ && text_.next(at + 1) == "x" && text_.next(at + 2).empty()) {
      length = 2;
    }
    if (length == 0 || count == 0) return 0;
    const std::string words = text_.said(at, length);
    if (Named* const named = last_named()) {
      if (named->counted) return 0;
      named->count = count;
      named->counted = true;
    } else if (last_ == Last::card) {
      if (generic_.counted) return 0;
      count_cards(count, words);
    } else if (last_ == Last::machine) {
      sayings_.add(filled("hardware.cluster.nodes=#", count), words);
    } else {
      return 0;
    }
    hardware_end_ = at + length;
    return understand(at, length, "a count");
  }

  void count_cards(double count, const std::string& words) {
    sayings_.add(filled("hardware.gpu.discrete_count=#", count), words);
    generic_ = {nullptr, count, true, 0, words};
    last_ = Last::card;
  }

  // "8 H100 across 2 servers", "2 servers with 8 H100 in total": those of all machines.
  std::size_t spread(std::size_t at) {
    const Named* const named = last_named();
    const bool cards = named ? named->machine->kind == Machine::Class::discrete && named->counted
                             : last_ == Last::card && generic_.counted;
    if (!cards || aside_ != Aside::none || at < hardware_end_) return 0;
    for (std::size_t i = hardware_end_; i < at; ++i)
      if (!is_filler(text_.word(i))) return 0;
    if (!among(kSpread, text_.word(at)) || text_.before(at) == Break::hard) return 0;
    spread_ = true;
    hardware_end_ = at + 1;
    return 1;
  }

  Named* last_named() { return !named_.empty() && last_ == Last::named ? &named_.back() : nullptr; }
  // A whole number of machines or cards; 0: none stands here.
  double count_at(std::size_t at) const {
    const auto count = at < text_.size() ? number_of(text_.word(at)) : std::nullopt;
    return count && *count == std::floor(*count) && *count >= 1 && *count <= kMostOfACount ? *count : 0;
  }
  // "24 GB"; 0: no size stands here.
  double gib_at(std::size_t at) const {
    const auto number = number_of(text_.word(at));
    if (!number || (text_.next(at + 1) != "gb" && text_.next(at + 1) != "tb")) return 0;
    const double gib = text_.next(at + 1) == "tb" ? *number * 1024 : *number;
    return gib > 0 && gib <= kMaxScenarioNumber ? gib : 0;
  }

  static Sizes sizes_of(const Pattern& pattern) {
    if (pattern.machine)
      return pattern.machine->kind == Machine::Class::discrete ? Sizes::card : Sizes::machine;
    if (!pattern.word) return Sizes::none;
    if (pattern.word->facts.contains("hardware.gpu.discrete_count=#")) return Sizes::card;
    return pattern.word->facts.contains("hardware.gpu.integrated_count") ||
                   pattern.word->facts.contains("hardware.gpu.count") ||
                   pattern.word->facts.contains("topic=phone") || pattern.word->words.starts_with("pc|") ||
                   pattern.word->facts == kMachines
               ? Sizes::machine
               : Sizes::none;
  }

  // ---- several machines -----------------------------------------------------------------------------------

  static MachineWords machine_words_of(const Match& found, const std::string& said) {
    if (!found.pattern || (!found.pattern->machine && !found.pattern->word)) return {};
    return machine_words(found.pattern->word, found.pattern->machine, said);
  }
  static bool is_hardware(const Pattern& pattern) {
    if (pattern.machine) return true;
    if (!pattern.word) return false;
    const std::string_view facts = pattern.word->facts, words = pattern.word->words;
    if (facts.empty()) return !words.starts_with("coding|") && !words.starts_with("user|");
    return facts.starts_with("hardware.") || facts.contains("topic=phone");
  }

  // "and a 4090 pc" behind "mac mini": what follows is of another machine.
  void look_for_another_machine(std::size_t at) {
    const bool alternative = among(kAlternatives, text_.word(at)), joins = among(kJoins, text_.word(at));
    const bool sign = text_.has_between(at, "+&"), listed = text_.before(at) == Break::hard;
    if (now_.empty() || (!alternative && !joins && !sign && !listed)) return;
    constexpr std::size_t kMostModifiers = 12;
    std::size_t i = at + (alternative || joins ? 1 : 0);
    const std::size_t begin = i;
    Apart apart = alternative || joins || sign ? Apart::joined : Apart::no;
    if (apart == Apart::joined && among(kArticles, text_.next(i))) apart = Apart::joined_with_article;
    MachineWords next;
    for (std::size_t n = 0; n < kMostModifiers && i < text_.size() && next.host == Host::none; ++n) {
      if (i > begin && text_.before(i) == Break::hard) break;
      const std::string& word = text_.word(i);
      const Match found = text_.longest(i);
      if (found.pattern && is_hardware(*found.pattern)) {
        add_words(next, machine_words_of(found, lower(text_.said(i, found.length))));
        i += found.length;
      } else if (number_of(word) || word == "gb" || word == "tb" || word == "x" || among(kArticles, word) ||
                 among(kOfMachines, word)) {
        ++i;
      } else if (apart != Apart::no && now_.host != Host::none && among(kInside, word) &&
                 !next.card.empty()) {
        ++i;  // "and one 3090 in my server"
      } else {
        break;
      }
    }
    if (next.empty() || !another_machine(now_, next, apart)) return;
    begin_aside(alternative ? Aside::alternative : Aside::other);
  }

  void begin_aside(Aside aside) {
    flush();
    if (aside_ == Aside::none) first_ = now_;
    aside_ = aside;
    now_ = {};
    pending_size_ = pending_count_ = 0;
    others_.push_back({"", aside == Aside::alternative});
  }
  void end_aside() {
    aside_ = Aside::none;
    now_ = first_;
  }
  // Whether these words are of a machine that the answer leaves out; they are kept with its name.
  bool set_aside(std::size_t at, std::size_t length) {
    if (aside_ == Aside::none) {
      hardware_end_ = at + length;
      return false;
    }
    flush();
    std::string& words = others_.back().words;
    words += (words.empty() ? "" : " ") + text_.said(at, length);
    return true;
  }

  // Whether the pattern begins another machine is settled first.
  void place(const Match& found, std::size_t at, const std::string& words) {
    const MachineWords says = machine_words_of(found, lower(words));
    if (says.empty()) return;
    if (aside_ == Aside::none && now_.host == Host::apple && says.card == "amd" && is_intel_mac(now_)) {
      now_.intel = true;
      forget_apple_silicon();
    }
    const bool again = at > 0 && text_.word(at - 1) == "the";
    if (aside_ == Aside::other && again && same_machine(first_, says))
      end_aside();
    else if (another_machine(now_, says, Apart::no))
      begin_aside(alternative_ ? Aside::alternative : Aside::other);
    add_words(now_, says);
    if (aside_ == Aside::none && says.host == Host::apple && mac_words_.empty()) mac_words_ = words;
    constexpr std::size_t kMostOfAName = 60;
    if (aside_ == Aside::none && first_words_.size() < kMostOfAName)
      first_words_ += (first_words_.empty() ? "" : " ") + words;
  }

  void settle_others() {
    if (aside_ == Aside::none) first_ = now_;
    for (const Other& other : others_) {
      if (other.words.empty()) continue;
      if (other.alternative) {
        reading_.notes.push_back("\"" + other.words + "\" is an alternative to \"" + first_words_ +
                                 "\": the advice is for " + first_words_ + ", ask for each alone to compare");
        reading_.understood.push_back({other.words, "an alternative"});
      } else {
        reading_.notes.push_back("\"" + other.words +
                                 "\" is another machine and is skipped: the advice is for \"" + first_words_ +
                                 "\", ask for each alone");
        reading_.skipped.push_back(other.words);
      }
    }
  }

  // ---- patterns -------------------------------------------------------------------------------------------

  bool usable(const Match& found, std::size_t at) const {
    const ScenarioWord* word = found.pattern->word;
    if (!word) return true;
    // "8K" is a context at the end of its phrase; "10k invoices" counts something else.
    if (word->facts.starts_with("model.context") && found.length == 2) {
      const std::string_view behind = text_.next(at + 2);
      return behind.empty() || is_filler(behind);
    }
    if (word->facts == "model.moe=true" && word->words == "a#b") return false;
    return true;
  }

  void take(const Match& found, std::size_t at) {
    const Pattern& pattern = *found.pattern;
    std::size_t length = found.length;
    const std::string words = text_.said(at, length);
    flush();
    const bool hardware = is_hardware(pattern);
    if (negated_) {
      if (hardware && set_aside(at, length)) return;
      const bool gpu = pattern.word && pattern.word->facts == "hardware.gpu.discrete_count=#";
      if (gpu) sayings_.add("hardware.gpu.count=0", "no " + words);
      reading_.understood.push_back({"no " + words, gpu ? "hardware.gpu.count=0" : "denied"});
      negated_ = among(kDenyOn, text_.next(at + length));
      return;
    }
    in_model_name_ = false;
    if (pattern.machine && alternative_ && !named_.empty() && aside_ == Aside::none)
      begin_aside(Aside::alternative);
    place(found, at, words);
    if (pattern.machine) alternative_ = false;
    if (hardware && set_aside(at, length)) return;
    Match counted = found;
    if (pending_count_ > 0 && pattern.counted && !found.counted) {
      counted.number = pending_count_;
      counted.counted = true;
    }
    if (pattern.machine) {
      named_.push_back({pattern.machine, counted.number, counted.counted, pending_size_, words});
      if (pattern.machine->kind != Machine::Class::discrete && pending_size_ > 0)
        sayings_.add("hardware.memory.total=" + gib_text(pending_size_), words);
      pending_size_ = pending_count_ = 0;
      last_ = Last::named;
      reading_.understood.push_back({words, pattern.machine->names.front()});
    } else if (pattern.model) {
      const bool alternative = pattern.model->parameters > 0 && is_alternative_model(at, at + length);
      if (!alternative) take_model(*pattern.model, at, length);
      std::string facts = "a model's name";
      if (pattern.model->parameters > 0)
        facts = "model.parameters=" + std::to_string(pattern.model->parameters) +
                (pattern.model->moe ? " model.moe=true" : "");
      if (!alternative) reading_.understood.push_back({words, facts});
      in_model_name_ = true;
    } else if (pattern.quantization) {
      take_quantization(*pattern.quantization, words);
      if (model_end_ == at) model_end_ = at + length;
      in_model_name_ = true;
    } else if (pattern.system) {
      if (!among(reading_.systems, pattern.system->id)) reading_.systems.push_back(pattern.system->id);
      reading_.understood.push_back({words, "a system: " + pattern.system->id});
    } else {
      take_word(counted, words);
    }
  }

  void take_word(const Match& found, const std::string& words) {
    const ScenarioWord& row = *found.pattern->word;
    std::string facts;
    const std::string small = lower(words);
    if (row.words.starts_with(kTotals)) {
      total_ = {found.number, words};
      return;
    }
    // "M4 Max with a 40 core GPU": the one of its chip.
    const bool one_memory = now_.host == Host::apple || now_.host == Host::unified || now_.host == Host::deck;
    if (one_memory && !now_.intel && row.words.starts_with("gpu|") && !found.counted) {
      reading_.understood.push_back({words, "the GPU of its chip"});
      return;
    }
    intel_ |= small == "intel" || small.starts_with("xeon") || small.starts_with("core ") ||
              (small.size() > 1 && small.front() == 'i' && is_digit(small[1]));
    for (const std::string_view assignment : split_at(row.facts, ' ')) {
      const bool open = assignment.contains('#') && !found.counted;
      if (assignment.starts_with(kTopic)) {
        const std::string topic(assignment.substr(kTopic.size() + 1));
        if (!among(reading_.topics, topic)) reading_.topics.push_back(topic);
        if (row.words.contains("reranker")) in_model_name_ = true;
        facts += (facts.empty() ? "" : " ") + std::string(assignment);
        continue;
      }
      if (open && assignment.starts_with("hardware.cluster.nodes")) continue;
      std::string value = filled(assignment, found.number);
      if (open) value.insert(value.find('='), "~");
      if (value.starts_with("hardware.os") && !value.contains('~')) {
        const std::string os = value.substr(value.find('=') + 1);
        if (!among(reading_.oses, os)) reading_.oses.push_back(os);
      }
      if (value.starts_with("hardware.gpu.discrete_count")) {
        if (found.counted) generic_ = {nullptr, found.number, true, 0, words};
      }
      sayings_.add(value, words);
      facts += (facts.empty() ? "" : " ") + value;
    }
    if (row.facts.starts_with("model.format") || row.facts.starts_with("model.context"))
      in_model_name_ = false;
    const Sizes sizes = sizes_of(*found.pattern);
    if (sizes != Sizes::none &&
        !(last_ == Last::named && row.facts.contains("hardware.gpu.discrete_count=#"))) {
      const bool beside =
          last_ == Last::named && !named_.empty() && named_.back().machine->kind == Machine::Class::discrete;
      if (!beside || sizes == Sizes::machine) last_ = sizes == Sizes::card ? Last::card : Last::machine;
      if (pending_size_ > 0) {
        sayings_.add((sizes == Sizes::card ? "hardware.gpu.memory=" : "hardware.memory.total=") +
                         gib_text(pending_size_),
                     words);
        pending_size_ = pending_count_ = 0;
      }
    }
    laptop_ |= machine_words(&row, nullptr, small).host == Host::laptop;
    reading_.understood.push_back({words, facts.empty() ? std::string(row.remark) : facts});
  }

  static std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (text.ends_with('s')) text.pop_back();
    return text;
  }

  void take_quantization(const ScenarioQuantization& quantization, const std::string& words) {
    std::string facts;
    if (!quantization.name.empty()) {
      facts = "model.quantization=" + std::string(quantization.name);
      sayings_.add(facts, words);
    }
    if (quantization.gguf) {
      sayings_.add("model.format=gguf", words);
      facts += " model.format=gguf";
    }
    if (!models_.empty() && models_.back().bits == 0 && !open_quantization_) {
      models_.back().bits = quantization.bits;
    } else {
      bits_ = quantization.bits;
    }
    reading_.understood.push_back({words, facts.empty() ? "bits of a weight" : facts});
  }

  // `name`: of a model whose name says its size; nullptr where a size alone is said.
  void add_model(Reading::Model model, const ScenarioModel* name, std::size_t at, std::size_t end) {
    open_quantization_ = false;
    if (bits_ > 0) model.bits = std::exchange(bits_, 0);
    models_.push_back(std::move(model));
    model_name_ = name;
    model_begin_ = at;
    model_end_ = end;
  }
  static bool about_equal(std::int64_t a, std::int64_t b) {
    return std::abs(static_cast<double>(a) - static_cast<double>(b)) <= 0.1 * static_cast<double>(b);
  }
  bool right_behind_the_model(std::size_t at) const {
    if (models_.empty() || models_.back().count > 1) return false;
    for (std::size_t i = model_end_; i < at; ++i)
      if (!among(std::array<std::string_view, 3>{"the", "model", "of"}, text_.word(i))) return false;
    return true;
  }

  void take_model(const ScenarioModel& model, std::size_t at, std::size_t length) {
    const std::string words = text_.said(at, length);
    const bool sized = model.parameters > 0;
    const bool behind = sized && !model_name_ && right_behind_the_model(at);  // "the 671b deepseek r1"
    if (behind && !about_equal(models_.back().parameters, model.parameters)) {
      name_another(model, at + length);
      return;
    }
    if (model.moe) sayings_.add("model.moe=true", words);
    if (!model.architecture.empty())
      sayings_.add("model.architecture=" + std::string(model.architecture), words);
    if (!sized) {
      open_quantization_ = true;
      return;
    }
    if (behind) {
      model_name_ = &model;
      model_end_ = at + length;
      models_.back().words = text_.said(model_begin_, model_end_ - model_begin_);
    } else if (!among_names(model)) {
      add_model({words, model.parameters, 0, 1}, &model, at, at + length);
    }
    names_.push_back(&model);
  }
  // "70B or 32B".
  bool is_alternative_model(std::size_t at, std::size_t end) {
    if (!alternative_ || models_.empty()) return false;
    const std::string words = text_.said(at, end - at), first = models_.back().words;
    reading_.notes.push_back("\"" + words + "\" is an alternative to \"" + first + "\": the advice is for " +
                             first + ", ask for each alone to compare");
    reading_.understood.push_back({words, "an alternative"});
    alternative_ = false;
    return true;
  }
  bool among_names(const ScenarioModel& model) const {
    return std::ranges::find(names_, &model) != names_.end();
  }

  // "deepseek r1 671b" is one model; "deepseek r1 32b" is not the model that has this name.
  bool is_size_of_name(std::size_t at, std::int64_t parameters, bool moe, std::size_t end) {
    if (!model_name_ || !right_behind_the_model(at)) return false;
    if (!about_equal(parameters, model_name_->parameters)) {
      models_.back().parameters = parameters;
      sayings_.forget("model.moe");
      if (moe) sayings_.add("model.moe=true", text_.said(at, end - at));
      name_another(*model_name_, end);
      return true;
    }
    model_end_ = end;
    models_.back().words = text_.said(model_begin_, end - model_begin_);
    return true;
  }
  void name_another(const ScenarioModel& model, std::size_t end) {
    sayings_.forget("model.architecture");
    model_end_ = end;
    model_name_ = nullptr;
    Reading::Model& last = models_.back();
    last.words = text_.said(model_begin_, end - model_begin_);
    reading_.notes.push_back("\"" + last.words + "\" is taken for another model than the one of " +
                             std::to_string(std::llround(static_cast<double>(model.parameters) / 1e9)) +
                             "B that has this name");
  }

  // ---- words without a pattern ----------------------------------------------------------------------------

  std::size_t absorb(std::size_t at) {
    const char* const between = text_.before(at) == Break::joint   ? "-"
                                : text_.before(at) == Break::space ? " "
                                                                   : "";
    if (!reading_.understood.empty()) reading_.understood.back().words += between + text_.said(at, 1);
    if (model_end_ == at) model_end_ = at + 1;
    return 1;
  }

  std::size_t skip(std::size_t at) {
    const std::string& word = text_.word(at);
    if (among(kNegations, word)) {
      flush();
      if (among(kDenyNothing, text_.next(at + 1))) return 2;
      negated_ = true;
      return 1;
    }
    alternative_ |= among(kAlternatives, word);
    const auto number = number_of(word);
    const bool digits = is_digit(word.front());
    // The version of a model: "llama 3.1 8b".
    const bool release = word.size() == 4 && word.front() == '0';  // "deepseek r1 0528"
    if (in_model_name_ && digits && (*number < 20 || release)) return absorb(at);
    const bool of_card = at > 0 && text_.before(at) != Break::hard && among(kCardBrands, text_.word(at - 1));
    if (!of_card && digits && *number >= 1990 && *number <= 2040 && word.size() == 4) {
      if (set_aside(at, 1)) return 1;
      year_ = static_cast<int>(*number);
      return understand(at, 1, "a year");
    }
    if (!digits && (number == 1.0 || is_filler(word)) && !(number && *number > 1)) {
      flush();
      return 1;
    }
    if (const std::string* meant = digits ? nullptr : corrected(word)) {
      reading_.notes.push_back("\"" + text_.said(at, 1) + "\" is read as \"" + *meant + "\"");
      text_.correct(at, *meant);
      return 0;
    }
    if (text_.before(at) == Break::none && skipping_ && skip_end_ == at) {
      ++skip_end_;
    } else {
      flush();
      skip_begin_ = at;
      skip_end_ = at + 1;
      skipping_ = true;
    }
    in_model_name_ = false;
    negated_ = false;  // it was denied
    return 1;
  }

  static const std::string* corrected(const std::string& word) {
    constexpr std::size_t kShortest = 6;  // shorter words are too near to others
    if (word.size() < kShortest || known_words().contains(word) || among(kMultipliers, word) ||
        word == kDecide)
      return nullptr;
    const auto is_word = [](const std::string& known) { return std::ranges::none_of(known, is_digit); };
    const std::string* found = nullptr;
    for (const std::string& known : known_words())
      if (known.size() >= kShortest && is_word(known) && known.front() == word.front() && known != word &&
          !same_word(word, known) && one_slip(word, known)) {
        if (found) return nullptr;
        found = &known;
      }
    return found;
  }

  // The words that were skipped together.
  void flush() {
    if (!skipping_) return;
    reading_.skipped.push_back(text_.said(skip_begin_, skip_end_ - skip_begin_));
    skipping_ = false;
  }

  std::size_t understand(std::size_t at, std::size_t length, std::string facts) {
    flush();
    reading_.understood.push_back({text_.said(at, length), std::move(facts)});
    return length;
  }

  // ---- all sayings together -------------------------------------------------------------------------------

  // Macs had processors of Intel's up to 2020, the Mac Pro up to 2023.
  bool is_intel_mac(const MachineWords& mac) const {
    constexpr int kLastOfIntel = 2020, kLastOfIntelMacPro = 2022;
    if (mac.host != Host::apple || mac.chip) return false;
    const int last = mac.form == "mac pro" ? kLastOfIntelMacPro
                     : mac.form == "imac"  ? kLastOfIntel
                                           : kLastOfIntel - 1;
    return mac.intel || intel_ || (year_ > 0 && year_ <= last);
  }
  void forget_apple_silicon() {
    sayings_.forget("hardware.gpu.integrated_count");
    const Saying* vendor = sayings_.get("hardware.gpu.vendor");
    if (vendor && vendor->text == "apple") sayings_.forget("hardware.gpu.vendor");
  }

  void settle_mac() {
    constexpr int kTurn = 2020;
    if (first_.host != Host::apple || first_.chip) return;
    if (is_intel_mac(first_)) {
      const bool said = first_.intel && sayings_.get("hardware.gpu.count");  // "intel mac"
      if (!said) forget_apple_silicon();
      sayings_.add("hardware.gpu.count~=0", mac_words_);
      if (!said)
        reading_.notes.push_back("\"" + mac_words_ +
                                 "\" is read as a Mac with an Intel processor, not Apple silicon");
    } else if (year_ == kTurn && first_.form != "studio") {
      forget_apple_silicon();
      reading_.notes.push_back("a Mac of 2020 has an Intel processor or an M1: say which");
    }
  }

  void settle_machines() {
    std::vector<Named*> cards;
    for (Named& named : named_) {
      if (named.machine->kind == Machine::Class::discrete) {
        cards.push_back(&named);
        continue;
      }
      const Machine& machine = *named.machine;
      if (machine.kind == Machine::Class::no_gpu) {
        sayings_.add("hardware.gpu.count~=0", named.words);
      } else {
        sayings_.add("hardware.gpu.integrated_count=1", named.words);
        sayings_.add("hardware.gpu.vendor=" + machine.vendor, named.words);
        if (machine.vendor == "apple") sayings_.add("hardware.os~=macos", named.words);
        reading_.generation = machine.generation;
      }
      if (named.counted) sayings_.add(filled("hardware.cluster.nodes=#", named.count), named.words);
      if (named.memory > 0)
        sayings_.add("hardware.memory.total=" + gib_text(named.memory), named.words);
      else if (machine.only_memory() > 0)
        sayings_.add("hardware.memory.total~=" + gib_text(machine.only_memory()), named.words);
    }
    share_cards(cards);
    settle_cards(cards);
    settle_total();
    if (reading_.oses.size() > 1) sayings_.forget("hardware.os");
    const Saying* none = sayings_.get("hardware.gpu.count");
    const Saying* discrete = sayings_.get("hardware.gpu.discrete_count");
    const Saying* integrated = sayings_.get("hardware.gpu.integrated_count");
    if (!discrete && (sayings_.get("hardware.gpu.memory") || sayings_.get("hardware.gpu.memory_total")) &&
        !none && !integrated)
      sayings_.add("hardware.gpu.discrete_count~=1", "VRAM");
    if (!none || (!discrete && !integrated)) return;
    if (!none->guess) {
      const Saying& gpu = discrete ? *discrete : *integrated;
      reading_.notes.push_back("\"" + none->words + "\" and \"" + gpu.words +
                               "\" contradict each other: neither is taken");
      reading_.undecided = true;
      for (const char* fact : {"hardware.gpu.vendor", "hardware.gpu.memory", "hardware.gpu.memory_total",
                               "hardware.gpu.discrete_count", "hardware.gpu.integrated_count"})
        sayings_.forget(fact);
    }
    sayings_.forget("hardware.gpu.count");
  }

  // The memory of one card, in GiB: as it is said, or as its name has it; in a laptop as its laptop's row has
  // it. 0: not known.
  double memory_of(const Named& named) const {
    if (named.memory > 0) return named.memory;
    const Machine& machine = *named.machine;
    const std::string& name = machine.names.front();
    if (!laptop_ || name.ends_with("laptop")) return machine.only_memory();
    for (const Machine& other : shipped_machines())
      if (other.names.front() == name + " laptop") return other.only_memory();
    return 0;
  }

  void settle_cards(const std::vector<Named*>& cards) {
    if (cards.empty()) return;
    // "RTX 3090, two GPUs"
    if (cards.size() == 1 && !cards.front()->counted && generic_.counted) {
      cards.front()->count = generic_.count;
      cards.front()->counted = true;
    }
    double count = 0, total = 0, most = 0;
    bool counted = false, all_known = true;
    std::string words;
    for (const Named* card : cards) {
      const double memory = memory_of(*card);
      count += card->count;
      counted |= card->counted;
      all_known &= memory > 0;
      total += memory * card->count;
      most = std::max(most, memory);
      words += (words.empty() ? "" : " + ") + card->words;
      sayings_.add("hardware.gpu.vendor=" + card->machine->vendor, card->words);
    }
    reading_.generation = cards.front()->machine->generation;
    const bool exact = counted || cards.size() > 1;
    if (!(generic_.counted && cards.size() > 1))
      sayings_.add(filled(exact ? "hardware.gpu.discrete_count=#" : "hardware.gpu.discrete_count~=#", count),
                   words);
    if (all_known) {
      const bool said = std::ranges::any_of(cards, [](const Named* card) { return card->memory > 0; });
      sayings_.add((said ? "hardware.gpu.memory=" : "hardware.gpu.memory~=") + gib_text(most), words);
      if (cards.size() > 1) sayings_.add("hardware.gpu.memory_total~=" + gib_text(total), words);
    }
  }

  double nodes() const {
    const Saying* nodes = sayings_.get("hardware.cluster.nodes");
    return nodes ? static_cast<double>(std::max<std::int64_t>(std::get<std::int64_t>(nodes->value), 1)) : 1;
  }

  // hardware.gpu.discrete_count is that of one machine.
  void share_cards(const std::vector<Named*>& cards) {
    if (!spread_ || nodes() <= 1) return;
    const auto share = [&](double& count, const std::string& words) {
      const double all = count;
      count = std::max(std::floor(all / nodes()), 1.0);
      if (count * nodes() != all)
        reading_.notes.push_back("\"" + words + "\" cannot be shared evenly by the machines: " +
                                 std::to_string(std::llround(count)) + " in each are taken");
    };
    for (Named* card : cards) share(card->count, card->words);
    if (!cards.empty() || !generic_.counted) return;
    share(generic_.count, generic_.words);
    sayings_.forget("hardware.gpu.discrete_count");
    sayings_.add(filled("hardware.gpu.discrete_count=#", generic_.count), generic_.words);
  }

  // "48 GB total": of the cards where there are some, else of the machines.
  void settle_total() {
    if (total_.words.empty()) return;
    const double gib = total_.gib / nodes();
    const auto integer = [&](const char* fact) {
      const Saying* said = sayings_.get(fact);
      return said ? static_cast<double>(std::get<std::int64_t>(said->value)) : 0.0;
    };
    constexpr double kGib = 1024.0 * 1024 * 1024, kNear = 0.1;
    const double cards = integer("hardware.gpu.discrete_count");
    const double all = integer("hardware.gpu.memory_total") > 0 ? integer("hardware.gpu.memory_total")
                                                                : integer("hardware.gpu.memory") * cards;
    const bool of_cards = cards > 0 && (all == 0 || std::abs(all / kGib - gib) <= kNear * gib);
    if (of_cards || (cards == 0 && first_.host != Host::none)) {
      const std::string fact =
          (of_cards ? "hardware.gpu.memory_total=" : "hardware.memory.total=") + gib_text(gib);
      sayings_.add(fact, total_.words);
      reading_.understood.push_back({total_.words, fact});
    } else {
      reading_.skipped.push_back(total_.words);
      reading_.notes.push_back("\"" + total_.words +
                               "\" may be the memory of the cards or of the machine: say VRAM or RAM");
    }
  }

  void settle_models() {
    const Saying* format = sayings_.get("model.format");
    for (Reading::Model& model : models_) {
      if (model.bits == 0) model.bits = bits_ > 0 ? bits_ : format && format->text == "fp8" ? 8 : kUsualBits;
      reading_.models.push_back(model);
    }
    if (models_.empty()) return;
    const Reading::Model& model = models_.front();
    sayings_.add("model.parameters=" + std::to_string(model.parameters), model.words);
    if (!sayings_.get("model.bytes"))
      sayings_.add("model.bytes=" +
                       std::to_string(std::llround(static_cast<double>(model.parameters) * model.bits / 8)),
                   model.words);
    // One large model on several Macs whose memory is not said: no single one holds it, or there would be
    // one.
    constexpr std::int64_t kLarge = std::int64_t{64} << 30;
    const Saying* nodes = sayings_.get("hardware.cluster.nodes");
    const Saying* vendor = sayings_.get("hardware.gpu.vendor");
    const Saying* bytes = sayings_.get("model.bytes");
    if (nodes && std::get<std::int64_t>(nodes->value) > 1 && vendor && vendor->text == "apple" &&
        !sayings_.get("hardware.memory.total") && std::get<std::int64_t>(bytes->value) > kLarge)
      sayings_.add("model.fits_memory~=false", nodes->words);
  }

  void settle_classes() {
    reading_.classes = sayings_.classes();
    if (sayings_.classes().size() > 1) {
      std::string all;
      for (const std::string& one : sayings_.classes()) all += (all.empty() ? "" : " and ") + one;
      reading_.notes.push_back("several kinds of work: " + all + "; the advice is for " +
                               sayings_.classes().front() + ", ask for each alone to compare");
    }
  }

  Text text_;
  Reading& reading_;
  Sayings sayings_;
  std::vector<Named> named_;
  std::vector<Reading::Model> models_;  // bits 0: not said
  Named generic_;                       // GPUs that are counted without a name of their own
  Last last_ = Last::nothing;
  struct Total {
    double gib = 0;
    std::string words;
  };

  MachineWords now_, first_;  // what the words say of the machine at this place, and of the first one
  std::string first_words_, mac_words_;
  std::vector<Other> others_;
  Aside aside_ = Aside::none;
  std::size_t hardware_end_ = 0;  // the atom behind the last words of the first machine
  Total total_;
  int year_ = 0;
  bool intel_ = false, spread_ = false;
  std::vector<const ScenarioModel*> names_;      // of models whose name says their size
  const ScenarioModel* model_name_ = nullptr;    // of the last model, where its name says its size
  std::size_t model_begin_ = 0, model_end_ = 0;  // its atoms
  double pending_size_ = 0, pending_count_ = 0, bits_ = 0;
  bool negated_ = false, alternative_ = false, laptop_ = false, in_model_name_ = false, skipping_ = false,
       open_quantization_ = false;
  std::size_t skip_begin_ = 0, skip_end_ = 0;
};

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
  if (!discrete && integrated && !all) set(kDiscrete, 0);
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

bool mentions(const Reading& reading, std::string_view phrase) {
  const std::vector<Atom> wanted = tokenize(phrase);
  return !wanted.empty() && !std::ranges::search(reading.words, wanted, same_word, {}, &Atom::text).empty();
}

Result<Reading> read_scenario(std::string_view words, Facts& facts) {
  if (words.size() > kMaxScenarioBytes)
    return fail(ErrorCode::invalid_value, std::to_string(words.size()) + " bytes of words, the limit is " +
                                              std::to_string(kMaxScenarioBytes));
  Reading reading;
  Reader(words, reading).read(facts);
  return reading;
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
