// Volumes and prices: numbers that say neither how many users there are nor how large a machine is.
#include "policy/scenario_load.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace flyball::policy {
namespace {

constexpr std::array<std::string_view, 31> kCountedThings{
    "document", "doc",     "email",   "mail",    "chunk",    "file",    "ticket",    "page",
    "article",  "token",   "message", "record",  "row",      "review",  "invoice",   "podcast",
    "book",     "paper",   "call",    "query",   "queries",  "request", "prompt",    "summaries",
    "contract", "picture", "photo",   "comment", "sentence", "receipt", "transcript"};
constexpr std::array<std::string_view, 2> kCurrencySigns{"\xE2\x82\xAC",
                                                         "\xC2\xA3"};  // the dollar is no letter
constexpr std::array<std::string_view, 9> kCurrencies{"euro", "eur", "usd",  "dollar", "buck",
                                                      "gbp",  "chf", "quid", "franken"};
constexpr std::array<std::string_view, 8> kPeriods{"second", "minute", "hour",  "day",
                                                   "night",  "week",   "month", "year"};
constexpr std::array<std::string_view, 5> kEach{"a", "an", "per", "each", "every"};
constexpr std::array<std::string_view, 6> kAdverbs{"daily",  "nightly", "hourly",
                                                   "weekly", "monthly", "overnight"};

bool is_period(std::string_view word) {
  return std::ranges::any_of(kPeriods, [&](std::string_view one) { return same_word(word, one); });
}

// Atoms of "a day", "per hour", "nightly"; 0: no period is here.
std::size_t period_at(const Scan& scan, std::size_t at) {
  if (among(kAdverbs, scan.text.next(at))) return 1;
  return among(kEach, scan.text.next(at)) && is_period(scan.text.next(at + 1)) ? 2 : 0;
}

}  // namespace

std::size_t read_price(Scan& scan, std::size_t at) {
  constexpr double kLeastOfABudget = 50;
  const bool sign = among(kCurrencySigns, scan.text.word(at));
  const std::size_t begin = at + (sign ? 1 : 0);
  const auto number = begin < scan.text.size() ? number_of(scan.text.word(begin)) : std::nullopt;
  if (!number || !is_digit(scan.text.word(begin).front())) return 0;
  std::size_t end = begin + 1;
  if (scan.text.next(end) == "k" && scan.text.before(end) == Break::none) ++end;
  bool price = sign || scan.text.has_between(at, "$");
  const Pattern* const name = scan.text.longest(at).pattern;
  const bool is_card = name != nullptr && name->machine != nullptr;  // "budget 3090 build"
  if (scan.text.before(at) != Break::hard && at > 0 && *number >= kLeastOfABudget)
    price |= (scan.text.word(at - 1) == "budget" && !is_card) ||
             (at > 1 && scan.text.word(at - 1) == "of" && scan.text.word(at - 2) == "budget");
  const auto same = [&](std::string_view one) { return same_word(scan.text.next(end), one); };
  const bool sign_of_next = number_of(scan.text.next(end + 1)).has_value();  // "3090 €700"
  if (std::ranges::any_of(kCurrencies, same) ||
      (among(kCurrencySigns, scan.text.next(end)) && !sign_of_next)) {
    price = true;
    ++end;
  }
  return price ? scan.understand(at, end - at, "a price") : 0;
}

std::size_t read_volume(Scan& scan, std::size_t at) {
  std::size_t i = at;
  if (scan.text.word(i) == "every" && number_of(scan.text.next(i + 1)) && is_period(scan.text.next(i + 2)))
    return scan.understand(at, 3, "a volume");
  const bool number = number_of(scan.text.word(i)).has_value();
  if (number || scan.text.word(i) == "a") ++i;
  bool large = false;
  while (i < scan.text.size() && (i == at || scan.text.next(i) != "") &&
         among(kMultipliers, scan.text.word(i)) && (i > at || !number)) {
    if (scan.text.word(i).size() == 1 && scan.text.before(i) != Break::none) break;
    large = true;
    ++i;
    break;
  }
  if (i == at || (!number && !large)) return 0;
  std::string_view thing = scan.text.next(i);
  const bool counted =
      std::ranges::any_of(kCountedThings, [&](std::string_view one) { return same_word(thing, one); });
  const bool at_once = same_word(thing, "request") || same_word(thing, "stream") || same_word(thing, "user");
  if (!counted && !at_once) return 0;
  if (scan.text.word(i - 1) == "k" && (same_word(thing, "token") || same_word(thing, "prompt"))) {
    if (period_at(scan, i + 1) == 0) return 0;  // "8k tokens"
  }
  ++i;
  const std::size_t n = period_at(scan, i);
  if (at_once && n == 0 && !large) return 0;
  if (same_word(thing, "prompt") && n == 0) return 0;
  if (same_word(thing, "user") && n == 0) return 0;
  std::string facts = "a volume, not a number at once";
  if (n > 0 && (scan.text.word(i + n - 1).starts_with("night") || scan.text.word(i + n - 1) == "overnight")) {
    const std::string words = scan.text.said(at, i + n - at);
    if (!scan.negated) scan.sayings.add("workload.class~=batch", words);
    facts = "workload.class~=batch, a volume";
  }
  return scan.understand(at, i + n - at, facts);
}

void settle_classes(Scan& scan) {
  scan.reading.classes = scan.sayings.classes();
  if (scan.sayings.classes().size() > 1) {
    std::string all;
    for (const std::string& one : scan.sayings.classes()) all += (all.empty() ? "" : " and ") + one;
    scan.reading.notes.push_back("several kinds of work: " + all + "; the advice is for " +
                                 scan.sayings.classes().front() + ", ask for each alone to compare");
  }
}

}  // namespace flyball::policy
