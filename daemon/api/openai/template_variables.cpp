#include "daemon/api/openai/template_variables.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "daemon/api/field_error.hpp"
#include "daemon/api/reasoning_variables.hpp"

namespace flyball::api::openai {
namespace {

// The template gets these from fields that were checked, or from the model file: no further variable replaces
// them.
constexpr std::array<std::string_view, 4> kOwnVariables{"messages", "tools", "bos_token", "eos_token"};

constexpr std::array<std::string_view, 7> kEfforts{"none", "minimal", "low", "medium",
                                                   "high", "xhigh",   "max"};

}  // namespace

Result<PackedJson> read_variables(const Fields& body, JsonView effort, const std::string& place) {
  const JsonView given = body.member("chat_template_kwargs");
  if (given) {
    if (!given.is_object())
      return field_error(ErrorCode::invalid_value, "chat_template_kwargs", "must be an object");
    for (const std::string_view own : kOwnVariables)
      if (given.find(own))
        return field_error(ErrorCode::invalid_value, "chat_template_kwargs." + std::string(own),
                           "is set by the daemon alone");
  }
  if (!effort) return given ? PackedJson(given) : PackedJson();
  if (!effort.is_string() || std::ranges::find(kEfforts, effort.text()) == kEfforts.end())
    return field_error(ErrorCode::invalid_value, place,
                       "must be one of none, minimal, low, medium, high, xhigh, max");
  return reasoning_variables({.on = effort.text() != "none", .effort = effort.text()}, given);
}

}  // namespace flyball::api::openai
