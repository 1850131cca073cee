// Names for the cases of parameterised tests, from texts that are no identifiers: sentences, templates.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>

namespace flyball::test {

// The words of a text joined by "_", at most 48 bytes, behind the case's number: "3_for_i_in_range_9". The number keeps
// apart texts that differ in signs alone.
inline std::string case_name(std::size_t index, std::string_view text) {
  std::string name = std::to_string(index);
  bool between = true;
  for (const char c : text) {
    if (name.size() >= 48) break;
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (word && between) name += '_';
    if (word) name += c;
    between = !word;
  }
  return name;
}

}  // namespace flyball::test
