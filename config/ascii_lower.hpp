// ASCII letters in lower case.
#pragma once

#include <string>
#include <string_view>

namespace flyball {

// Every other byte stays, whatever the locale.
inline std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace flyball
