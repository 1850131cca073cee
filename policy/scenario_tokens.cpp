// The tokenizer of scenarios, and the numbers that people write as words.
#include "policy/scenario_tokens.hpp"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace flyball::policy {
namespace {

constexpr std::array<std::string_view, 12> kNumbers{"one",   "two",   "three", "four", "five",   "six",
                                                    "seven", "eight", "nine",  "ten",  "eleven", "twelve"};
struct NumberWord {
  std::string_view word;
  double value;
};
constexpr std::array kSetsOf{NumberWord{"dual", 2}, NumberWord{"couple", 2}, NumberWord{"pair", 2},
                             NumberWord{"triple", 3}, NumberWord{"quad", 4}};
constexpr std::array kMagnitudes{NumberWord{"k", 1000}, NumberWord{"thousand", 1000},
                                 NumberWord{"hundred", 100}, NumberWord{"dozen", 12}};
// The words for those who ask, behind a number.
constexpr std::array<std::string_view, 22> kAsking{
    "user",      "people",  "person",     "dev",          "developer", "engineer", "employee", "student",
    "colleague", "agent",   "coworker",   "kid",          "member",    "session",  "stream",   "client",
    "customer",  "visitor", "concurrent", "simultaneous", "parallel",  "request"};
constexpr std::array<std::string_view, 11> kCarrying{"gb",  "tb",      "x",      "gpu",  "card", "graphics",
                                                     "rtx", "machine", "server", "node", "mac"};
constexpr std::array<std::string_view, 3> kVague{"few", "several", "many"};  // "a few hundred users"
constexpr double kMostOfARange = 1e6;
constexpr double kLeastSizeOfARange = 8;  // GB; a smaller number before a dash is that of a product
constexpr std::array<std::string_view, 8> kGigabytes{"gb", "gib", "gigs",     "gig",
                                                     "g",  "go",  "gigabyte", "gigabytes"};
constexpr std::array<std::string_view, 5> kBillions{"b", "bn", "billion", "billions", "bil"};

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || static_cast<unsigned char>(c) >= 0x80;
}

// A sign above ASCII that is no letter, and how it is read.
struct Sign {
  std::string_view bytes, read;
};
constexpr std::array<Sign, 8> kSigns{
    Sign{"\xC3\x97", "x"}, Sign{"\xE2\x80\x99", "'"}, Sign{"\xE2\x80\x93", ","}, Sign{"\xE2\x80\x94", ","},
    Sign{"\xC2\xA0", " "}, Sign{"\xE2\x80\x9C", ","}, Sign{"\xE2\x80\x9D", ","}, Sign{"\xE2\x80\xA6", ","}};

bool is_unit(const auto& units, std::string_view word) {
  return std::ranges::any_of(units, [&](std::string_view unit) { return same_word(word, unit); });
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::vector<Atom> atoms() {
    while (at_ < text_.size()) step();
    return std::move(atoms_);
  }

 private:
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void add(std::string text, std::size_t bytes) {
    atoms_.push_back({std::move(text), pending_, at_, at_ + bytes});
    pending_ = Break::none;
    at_ += bytes;
  }

  void step() {
    for (const Sign& sign : kSigns)
      if (text_.substr(at_).starts_with(sign.bytes)) {
        if (sign.read == "x") return add("x", sign.bytes.size());
        if (sign.read != "'") pending_ = std::max(pending_, sign.read == "," ? Break::hard : Break::space);
        at_ += sign.bytes.size();
        return;
      }
    if (is_digit(peek(0))) return number();
    if (is_letter(peek(0))) return word();
    mark();
  }

  // "3.1", "1,000".
  void number() {
    std::size_t n = 0;
    std::string digits;
    const auto run = [&] {
      while (is_digit(peek(n))) digits += peek(n++);
    };
    run();
    const std::size_t first = n;
    while (first <= 3 && peek(n) == ',' && is_digit(peek(n + 1)) && is_digit(peek(n + 2)) &&
           is_digit(peek(n + 3)) && !is_digit(peek(n + 4)) && !is_letter(peek(n + 4))) {
      ++n;
      run();
    }
    if (peek(n) == '.' && is_digit(peek(n + 1))) {
      digits += peek(n++);
      run();
    }
    add(std::move(digits), n);
  }

  // The x of "2xH100" stands alone; "7900xtx" is no count.
  void word() {
    std::size_t n = 0;
    std::string letters;
    const auto lower = [](char c) {
      return static_cast<unsigned char>(c) >= 0x80
                 ? c
                 : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    };
    while (is_letter(peek(n)) && !sign_at(at_ + n)) letters += lower(peek(n++));
    while ((peek(n) == '\'' || text_.substr(std::min(at_ + n, text_.size())).starts_with(kSigns[1].bytes)) &&
           is_letter(peek(n == 0 ? 0 : n + (peek(n) == '\'' ? 1 : 3)))) {  // "isn't"
      n += peek(n) == '\'' ? 1 : 3;
      while (is_letter(peek(n)) && !sign_at(at_ + n)) letters += lower(peek(n++));
    }
    const bool counts = letters.size() > 1 && letters.front() == 'x' && pending_ == Break::none &&
                        !atoms_.empty() && is_digit(atoms_.back().text.front()) &&
                        atoms_.back().text.size() <= 3;
    if (counts) return add("x", 1);
    if (!atoms_.empty() && is_digit(atoms_.back().text.front()) && pending_ <= Break::space) {
      const bool glued = pending_ == Break::none;
      if (among(kGigabytes, letters) && (glued || letters.size() > 1) &&
          (letters != "g" || is_memory(atoms_.back().text)))
        letters = "gb";
      if (among(kBillions, letters) && (glued || letters != "b")) letters = "b";
    }
    add(std::move(letters), n);
  }

  // The g of "5700g" is a processor's.
  static bool is_memory(std::string_view number) {
    constexpr std::string::size_type kDigitsOfAProcessor = 4;
    return number.contains('.') || number.size() < kDigitsOfAProcessor || number == "1024" ||
           number == "2048";
  }

  bool sign_at(std::size_t at) const {
    return std::ranges::any_of(kSigns,
                               [&](const Sign& sign) { return text_.substr(at).starts_with(sign.bytes); });
  }

  void mark() {
    const char c = peek(0), next = peek(1);
    Break found = Break::hard;
    if (c == '-' || c == '_') {
      found = Break::joint;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '~' || c == '#' || c == '*') {
      found = Break::space;
    } else if (c == '\'' || c == '`') {
      found = Break::none;
    } else if (c == '.') {
      found = is_letter(next) || is_digit(next) ? Break::joint : Break::hard;
    } else if (c == '+') {  // "1x4090+1x3090", "max+ 395"
      found = is_letter(next) || is_digit(next) ? Break::hard : Break::joint;
    }
    pending_ = std::max(pending_, found);
    ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Break pending_ = Break::hard;
  std::vector<Atom> atoms_;
};

class NumberJoiner {
 public:
  NumberJoiner(std::string_view text, std::vector<Atom>& atoms) : text_(text), atoms_(atoms) {}

  std::vector<std::string> join() {
    for (std::size_t at = 0; at < atoms_.size(); ++at) magnitude(at);
    for (std::size_t at = 0; at < atoms_.size(); ++at) range(at);
    return std::move(notes_);
  }

 private:
  std::string_view word(std::size_t at) const {
    return at < atoms_.size() ? std::string_view(atoms_[at].text) : std::string_view();
  }
  std::string_view next(std::size_t at) const {
    return at < atoms_.size() && atoms_[at].before != Break::hard ? word(at) : std::string_view();
  }
  void replace(std::size_t at, std::size_t length, double value) {
    atoms_[at].text = std::to_string(std::llround(value));
    atoms_[at].end = atoms_[at + length - 1].end;
    atoms_.erase(atoms_.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                 atoms_.begin() + static_cast<std::ptrdiff_t>(at + length));
  }

  // "1.5k users", "two hundred people", "half a dozen devs".
  void magnitude(std::size_t at) {
    double value = 1;
    std::size_t i = at;
    if (const auto number = number_of(word(at))) {
      value = *number;
      ++i;
    } else if (word(at) == "half" && next(at + 1) == "a" && next(at + 2) == "dozen") {
      value = 0.5;
      i += 2;
    } else if (word(at) == "a") {
      ++i;
    }
    const auto found = std::ranges::find(kMagnitudes, i == at ? word(i) : next(i), &NumberWord::word);
    if (found == kMagnitudes.end()) return;
    if (found->word == "k" && (i == at || atoms_[i].before != Break::none)) return;
    if (!is_unit(kAsking, next(i + 1))) return;
    if (next(i + 1).starts_with("request") && !at_once(i + 2)) return;  // a volume
    if (at > 0 && i == at && among(kVague, word(at - 1))) return;
    value *= found->value;
    if (value == std::floor(value) && value <= kMostOfARange) replace(at, i + 1 - at, value);
  }

  // "at once", "at the same time", "in parallel".
  bool at_once(std::size_t at) const {
    const std::string_view last = next(at) == "at" && next(at + 1) == "the" ? next(at + 2) : next(at + 1);
    return next(at).starts_with("concurrent") || next(at).starts_with("simultaneous") || last == "once" ||
           last == "parallel" || last == "same";
  }

  // "10-20 users", "10 to 20 users", "between 10 and 20 users", "16GB-24GB".
  void range(std::size_t at) {
    const auto low = whole(at);
    if (!low || (at > 0 && atoms_[at].before == Break::none)) return;
    std::size_t i = at + 1;
    const bool unit_twice = word(i) == "gb" || word(i) == "tb" || word(i) == "k";
    const std::string unit(unit_twice ? word(i) : std::string_view());
    if (unit_twice) ++i;
    std::string link = "-";
    if (next(i) == "to" || (next(i) == "and" && at > 0 && word(at - 1) == "between"))
      link = " " + atoms_[i++].text + " ";
    else if (!dash_before(i))
      return;
    const auto high = whole(i);
    if (!high || *high <= *low || (link != "-" && next(i).empty())) return;
    const std::string_view behind = next(i + 1);
    if (behind.empty() || (unit_twice && behind != unit)) return;
    const bool load = is_unit(kAsking, behind) || behind == "k";
    if (!load && !is_unit(kCarrying, behind)) return;
    if (link == "-" && *low < kLeastSizeOfARange && is_unit(kGigabytes, behind))
      return;  // "Raspberry Pi 5 - 8GB"
    const double taken = load ? *high : *low;
    notes_.push_back("\"" + atoms_[at].text + link + atoms_[i].text + " " + std::string(behind) +
                     "\" is a range: " + std::to_string(std::llround(taken)) + " is taken");
    replace(at, i + 1 - at, taken);
  }
  std::optional<double> whole(std::size_t at) const {
    const auto value = number_of(word(at));
    if (!value || *value != std::floor(*value) || *value < 1 || *value > kMostOfARange) return std::nullopt;
    return value;
  }
  bool dash_before(std::size_t at) const {
    if (at >= atoms_.size()) return false;
    std::string between(text_.substr(atoms_[at - 1].end, atoms_[at].begin - atoms_[at - 1].end));
    std::erase(between, ' ');
    return between == "-" || between == "\xE2\x80\x93" || between == "\xE2\x80\x94";
  }

  std::string_view text_;
  std::vector<Atom>& atoms_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> join_numbers(std::string_view text, std::vector<Atom>& atoms) {
  return NumberJoiner(text, atoms).join();
}

std::vector<Atom> tokenize(std::string_view text) {
  return Tokenizer(text).atoms();
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

std::optional<double> number_of(std::string_view token) {
  for (std::size_t i = 0; i < kNumbers.size(); ++i)
    if (kNumbers[i] == token) return static_cast<double>(i + 1);
  for (const NumberWord& set : kSetsOf)
    if (set.word == token) return set.value;
  double value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error != std::errc{} || end != token.data() + token.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool same_word(std::string_view text, std::string_view pattern) noexcept {
  if (text == pattern) return true;
  return text.size() > 2 && text.ends_with('s') && text.substr(0, text.size() - 1) == pattern;
}

bool one_slip(std::string_view a, std::string_view b) noexcept {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1) return false;
  std::size_t i = 0;
  while (i < a.size() && a[i] == b[i]) ++i;
  if (a.size() < b.size()) return a.substr(i) == b.substr(i + 1);
  if (i == a.size()) return false;
  if (a.substr(i + 1) == b.substr(i + 1)) return true;
  return i + 1 < a.size() && a[i] == b[i + 1] && a[i + 1] == b[i] && a.substr(i + 2) == b.substr(i + 2);
}

}  // namespace flyball::policy
