// Sets of Unicode code points, and how their members are spelled in bytes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/grammar/dfa.hpp"

namespace flyball::grammar {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// How a text's code points stand in the bytes of an answer.
enum class Spelling : std::uint8_t {
  utf8,
  // Between the quotes of a JSON string, as JSON.stringify writes it: escapes only where JSON requires them,
  // and each in one way. One string then has one spelling, which is what lets a language of keys exclude a
  // key.
  json_string,
};

struct CodePointRange {
  char32_t from = 0, to = 0;  // both within
};

// Ranges in order that neither overlap nor touch. Surrogates may be in a set; they have no spelling.
class CodePointSet {
 public:
  CodePointSet() = default;
  static CodePointSet all() { return of({{0, kLastCodePoint}}); }
  static CodePointSet of(std::vector<CodePointRange> ranges);  // in any order

  CodePointSet complement() const;
  void add(const CodePointSet& other);
  const std::vector<CodePointRange>& ranges() const noexcept { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

struct ByteRange {
  std::uint8_t from = 0, to = 0;  // both within
  bool operator==(const ByteRange&) const = default;
  auto operator<=>(const ByteRange&) const = default;
};
using ByteSequence = std::vector<ByteRange>;

// The spellings of a set's members: each member is spelled by exactly one word of one sequence.
std::vector<ByteSequence> spell(const CodePointSet& set, Spelling spelling);
// The spelling of a text of valid UTF-8.
std::string spell(std::string_view utf8, Spelling spelling);

}  // namespace flyball::grammar
