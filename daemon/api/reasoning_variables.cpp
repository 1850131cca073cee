#include "daemon/api/reasoning_variables.hpp"

#include "daemon/api/json_rewriter.hpp"

namespace flyball::api {
namespace {

// The efforts that templates know are low, medium and high; some refuse others.
std::string_view known_effort(std::string_view effort) noexcept {
  if (effort == "none") return {};
  if (effort == "minimal") return "low";
  if (effort == "xhigh" || effort == "max") return "high";
  return effort;
}

}  // namespace

PackedJson reasoning_variables(const ReasoningWish& wish, JsonView given) {
  JsonRewriter out((given ? given.bytes().size() : 0) + 128);
  out.open(JsonKind::object);
  if (given)
    for (const auto& [key, value] : given.members()) {
      out.key(key);
      out.value(value);
    }
  const auto is_free = [&](std::string_view name) { return !given || !given.find(name); };
  const std::string_view effort = known_effort(wish.effort);
  if (!effort.empty() && is_free("reasoning_effort")) {
    out.key("reasoning_effort");
    out.string(effort);
  }
  for (const std::string_view name : {"enable_thinking", "thinking"})
    if (is_free(name)) {
      out.key(name);
      out.boolean(wish.on);
    }
  out.close();
  return out.take();
}

}  // namespace flyball::api
