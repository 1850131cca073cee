// A text as atoms: runs of letters and of digits, with the mark between them. scenario.cpp reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::policy {

enum class Break : std::uint8_t { none, joint, space, hard };  // before an atom; joint: - or _

// A run of letters or of digits. Bytes above ASCII are letters.
struct Atom {
  std::string text;  // in small letters
  Break before = Break::hard;
  std::size_t begin = 0, end = 0;  // bytes of the text
};

// Units of gigabytes and of billions behind a number read as "gb" and "b".
std::vector<Atom> tokenize(std::string_view text);

// Joins numbers of several atoms to one: "1.5k users" and "a hundred users" as their product, and ranges. The
// load of a range ("10-20 users", "8-16k context") is its higher end, what there is to carry it ("16-24 GB",
// "2 to 4 cards") its lower one. Returns a sentence for each range.
std::vector<std::string> join_numbers(std::string_view text, std::vector<Atom>& atoms);

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != std::ranges::end(names);
}

bool is_digit(char c) noexcept;
// "3.1", "twelve", "dual". nullopt: the token is no number.
std::optional<double> number_of(std::string_view token);
// The word, or its plural.
bool same_word(std::string_view text, std::string_view pattern) noexcept;
// Whether one letter was left out, doubled, swapped or mistaken.
bool one_slip(std::string_view a, std::string_view b) noexcept;

}  // namespace flyball::policy
