// The form that an answer must have: its text is a word of a language that the client gave.
// constrain/constraint reads and compiles it.
#pragma once

#include <cstdint>

#include "config/packed_json.hpp"

namespace flyball {

struct Constraint {
  enum class Kind : std::uint8_t {
    json_object,     // any JSON object
    json_schema,     // JSON that a schema allows
    regex,           // a text that the pattern matches whole
    gbnf,            // a word of the grammar, in the notation of llama.cpp
    choice,          // one of a list of strings
    structural_tag,  // free text with constrained parts in it
  };
  static constexpr Kind kLastKind = Kind::structural_tag;
  Kind kind = Kind::json_object;
  // A schema; a string (regex, gbnf); an array of strings (choice); an object (structural_tag); nothing
  // (json_object).
  PackedJson source;
  bool compact = false;  // JSON without whitespace between its tokens
};

}  // namespace flyball
