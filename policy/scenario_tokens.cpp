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
constexpr std::array<std::string_view, 2> kPairs{"dual", "couple"};
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
      if (among(kGigabytes, letters) && (glued || letters.size() > 1)) letters = "gb";
      if (among(kBillions, letters) && (glued || letters != "b")) letters = "b";
    }
    add(std::move(letters), n);
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

}  // namespace

std::vector<Atom> tokenize(std::string_view text) {
  return Tokenizer(text).atoms();
}

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

std::optional<double> number_of(std::string_view token) {
  for (std::size_t i = 0; i < kNumbers.size(); ++i)
    if (kNumbers[i] == token) return static_cast<double>(i + 1);
  if (among(kPairs, token)) return 2;
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
