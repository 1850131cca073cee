#include "config/utf8.hpp"

#include <cstddef>
#include <cstdint>

namespace flyball {

bool is_utf8(std::string_view text) noexcept {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = p + text.size();
  while (p < end) {
    const unsigned char lead = *p;
    if (lead < 0x80) {
      ++p;
      continue;
    }
    std::ptrdiff_t length = 0;
    std::uint32_t smallest = 0;
    std::uint32_t code = 0;
    if ((lead & 0xE0) == 0xC0) {
      length = 2, smallest = 0x80, code = lead & 0x1FU;
    } else if ((lead & 0xF0) == 0xE0) {
      length = 3, smallest = 0x800, code = lead & 0x0FU;
    } else if ((lead & 0xF8) == 0xF0) {
      length = 4, smallest = 0x10000, code = lead & 0x07U;
    } else {
      return false;
    }
    if (end - p < length) return false;
    for (std::ptrdiff_t i = 1; i < length; ++i) {
      if ((p[i] & 0xC0) != 0x80) return false;
      code = (code << 6) | (p[i] & 0x3FU);
    }
    if (code < smallest || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    p += length;
  }
  return true;
}

}  // namespace flyball
