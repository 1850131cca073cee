#include "backends/grammar/quoted.hpp"

namespace flyball::grammar {

std::string quoted(std::string_view name) {
  constexpr std::size_t kLongest = 64;
  if (name.size() <= kLongest) return '"' + std::string(name) + '"';
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return '"' + std::string(name.substr(0, end)) + "...\"";
}

}  // namespace flyball::grammar
