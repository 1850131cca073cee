#include "daemon/route/run_state.hpp"

#include <algorithm>
#include <array>

namespace flyball::route {
namespace {

// In the order of the kinds, those before `failed`.
constexpr std::array<std::string_view, 7> kTexts{"waiting", "parked",    "running", "explained",
                                                 "done",    "cancelled", "moved"};
static_assert(kTexts.size() == static_cast<std::size_t>(RunState::Kind::failed));

}  // namespace

std::string_view RunState::text() const noexcept {
  if (kind_ == Kind::failed) return to_string(code_);
  return kind_ == Kind::foreign ? std::string_view(foreign_) : kTexts[static_cast<std::size_t>(kind_)];
}

RunState RunState::read(std::string_view text) {
  if (const auto* at = std::ranges::find(kTexts, text); at != kTexts.end())
    return static_cast<Kind>(at - kTexts.begin());
  if (const ErrorCode code = error_code_from(text); to_string(code) == text) return failed(code);
  RunState out(Kind::foreign);
  out.foreign_ = text;
  return out;
}

}  // namespace flyball::route
