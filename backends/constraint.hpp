// The form that an answer must have: its text is a word of a language that the client gave.
// constrain/constraint reads and compiles it.
#pragma once

#include <cstdint>

#include "config/packed_json.hpp"

namespace flyball {

struct Constraint {
  enum class Kind : std::uint8_t {
    json_object,  // any JSON object
    json_schema,  // JSON that a schema allows
    regex,        // a text that the pattern matches whole
    gbnf,         // a word of the grammar, in the notation of llama.cpp
    choice,       // one of a list of strings
  };
  Kind kind = Kind::json_object;
  // A schema; a string (regex, gbnf); an array of strings (choice); nothing (json_object).
  PackedJson source;
  bool compact = false;  // JSON without whitespace between its tokens
};

}  // namespace flyball
