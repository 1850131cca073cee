// UTF-8 texts by the first of some strings that occurs in them: the automaton of Aho and Corasick. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/grammar/automata.hpp"
#include "backends/grammar/dfa.hpp"
#include "config/error.hpp"

namespace flyball::grammar {

class StringSearch {
 public:
  // Precondition: the strings are UTF-8, and none is empty. Fails with unsupported_value past the bound.
  static Result<StringSearch> of(std::vector<std::string> strings, Bound bound);

  const std::vector<std::string>& strings() const noexcept { return strings_; }
  // The index of another string that occurs in string `i` or equals it; nullopt where there is none.
  std::optional<std::size_t> within(std::size_t i) const;
  // True where the end of a string is the beginning of another one or of itself, as in "aa": two of them may
  // then overlap in a text.
  bool may_overlap() const noexcept;
  // True where a string occurs in `text`, or an end of `text` is the beginning of a string.
  bool meets(std::string_view text) const;

  // The texts in which no string occurs.
  Result<Dfa> texts_without(Bound bound) const;
  // The texts that end with a string, and in which none occurs before.
  Result<Dfa> texts_up_to(Bound bound) const;

 private:
  StringSearch() = default;
  Result<Dfa> texts(bool with_string, Bound bound) const;

  std::vector<std::string> strings_;
  std::vector<std::uint32_t> ends_;  // the state behind each string
  // States: the longest end of the text that is the beginning of a string. One behind a string has no edges.
  Dfa automaton_;
  std::vector<std::uint32_t> shorter_;  // of each state: the one of the next shorter end
  std::vector<std::uint32_t> found_;    // of each state: the string that ends there, kNoString: none
};

// All texts.
Result<Dfa> any_text(Bound bound);

}  // namespace flyball::grammar
