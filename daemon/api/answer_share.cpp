#include "daemon/api/answer_share.hpp"

#include <string>

#include "config/units.hpp"

namespace flyball::api {
namespace {

// Short answers stay within one or two; few enough that an app of many open answers is not charged for
// nothing.
constexpr std::uint64_t kStepBytes = 4 * 1024;

}  // namespace

Result<void> AnswerShare::cover(std::uint64_t bytes) {
  if (bytes <= held_.bytes()) return {};
  const std::uint64_t more = (bytes - held_.bytes() + kStepBytes - 1) / kStepBytes * kStepBytes;
  if (held_.grow(more, limit_)) return {};
  const std::string limit = config::format_bytes(limit_) + " (limits.held_bytes)";
  // A client that tried again would fail again.
  if (body_bytes_ + held_.bytes() + more > limit_)
    return fail(ErrorCode::invalid_value,
                "The answer takes more than the " + limit +
                    " that the daemon holds for the app, its request's body included. " +
                    std::string(remedy_.advice),
                std::string(remedy_.field));
  return fail(ErrorCode::rate_limited,
              "The daemon holds " + config::format_bytes(held_.bytes_of_app()) +
                  " of the app's request bodies and unread answers, this answer needs " +
                  config::format_bytes(more) + " more, and the app's limit is " + limit +
                  ". Read the answers that wait. " + std::string(remedy_.advice));
}

}  // namespace flyball::api
