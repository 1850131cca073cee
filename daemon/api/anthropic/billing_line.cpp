#include "daemon/api/anthropic/billing_line.hpp"

#include <algorithm>

namespace flyball::api::anthropic {

std::string_view without_billing_line(std::string_view system) noexcept {
  if (!system.starts_with("x-anthropic-billing-header:")) return system;
  return system.substr(std::min(system.find('\n'), system.size() - 1) + 1);
}

}  // namespace flyball::api::anthropic
