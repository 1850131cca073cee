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
  if (held_.bytes() + more > limit_) {  // as where a request asks for what the app's limits never allow
    const std::string message = "The answer takes more than the " + limit +
                                " that the daemon holds for the app. " +
                                (is_streamed_ ? "Ask for fewer tokens or top_logprobs."
                                              : "Stream it, or ask for fewer tokens, choices or "
                                                "top_logprobs.");
    return fail(ErrorCode::invalid_value, message, is_streamed_ ? "max_output_tokens" : "max_tokens");
  }
  return fail(ErrorCode::rate_limited,
              "The daemon holds " + config::format_bytes(held_.bytes_of_app()) +
                  " of the app's request bodies and unread answers, this answer needs " +
                  config::format_bytes(more) + " more, and the app's limit is " + limit +
                  ". Read the answers that wait" + (is_streamed_ ? "" : ", stream them") +
                  ", or ask for fewer top_logprobs.");
}

}  // namespace flyball::api
