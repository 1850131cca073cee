#include "config/terminal_text.hpp"

#include <utility>

#include "config/utf8.hpp"

namespace flyball {

std::string terminal_text(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    const std::string_view one = text.substr(at, bytes);
    const bool sound = is_utf8(one);
    const bool control = first < 0x20 || first == 0x7f || (one >= "\xc2\x80" && one < "\xc2\xa0");
    const bool turns = one == "\u200e" || one == "\u200f" || (one >= "\u202a" && one <= "\u202e") ||
                       (one >= "\u2066" && one <= "\u2069");
    const std::string_view shown = !sound || control || turns ? "?" : one;
    if (out.size() + shown.size() > most) break;
    out += shown;
    at += sound ? bytes : 1;
  }
  return out;
}

Error terminal_text(Error error) {
  error.message = terminal_text(error.message);
  return error;
}

}  // namespace flyball
