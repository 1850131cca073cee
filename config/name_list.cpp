#include "config/name_list.hpp"

#include <algorithm>

#include "config/table.hpp"

namespace flyball::config {

std::string listed(std::span<const std::string_view> names) {
  constexpr std::size_t kShown = 10;
  std::string out;
  const std::size_t shown = std::min(names.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : ", ") + std::string(names[i]);
  if (names.size() > shown) out += " and " + std::to_string(names.size() - shown) + " more";
  return out;
}

std::string quoted(std::string_view name) {
  constexpr std::size_t kShownBytes = 80;
  if (name.size() <= kShownBytes) return '"' + std::string(name) + '"';
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;  // whole characters
  return '"' + std::string(name.substr(0, end)) + "...\"";
}

std::string not_among(std::string_view name, const std::vector<std::string_view>& names) {
  return quoted(name) + did_you_mean(name, names) +
         (names.empty() ? " (there is none)" : " (there are: " + listed(names) + ")");
}

}  // namespace flyball::config
