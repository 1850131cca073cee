// Parameters that a model writes as plain text, in XML, as JSON by their tool's schema.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/packed_json.hpp"

namespace flyball::api::calls {

// The types of JSON values that a parameter may have.
struct ValueTypes {
  bool string = true, other = true;    // other: any of those below, as far as they are known
  bool integer = true, number = true;  // number: of any kind, then integer holds too
  bool boolean = true, null = true, array = true, object = true;
};

// The types that the property's schema allows: by "type", by the values of "enum" and "const", or by the
// types of "anyOf" and "oneOf". All of them where it does not say, as behind a "$ref".
ValueTypes types_of(JsonView schema);
// The types of a parameter of a tool's function.
ValueTypes types_of_parameter(JsonView function, std::string_view name);

// The JSON that the text is: a value of an allowed type other than string, white space around it dropped.
// "True", "False" and "None" are read as Python spells them, and so are lists and objects that cannot be
// strings. nullopt: the text is a string.
std::optional<std::string> json_of(std::string_view text, const ValueTypes& types);

// Appends one byte of a JSON string: escaped, or a byte of UTF-8 as it is.
void append_string_byte(std::string& out, char byte);

}  // namespace flyball::api::calls
