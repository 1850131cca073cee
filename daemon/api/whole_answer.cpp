#include "daemon/api/whole_answer.hpp"

#include "config/units.hpp"

namespace flyball::api {
namespace {

// Short answers stay within one or two; few enough that an app of many open answers is not charged for
// nothing.
constexpr std::uint64_t kStepBytes = 4 * 1024;

}  // namespace

Result<void> WholeAnswer::gather(std::size_t choice, std::span<const AnswerEvent> events) {
  Choice& gathered = choices_[choice];
  const std::size_t before = gathered.bytes();
  api::gather(gathered, events);
  bytes_ += gathered.bytes() - before;
  if (bytes_ <= held_.bytes()) return {};
  const std::uint64_t more = (bytes_ - held_.bytes() + kStepBytes - 1) / kStepBytes * kStepBytes;
  if (held_.grow(more, limit_)) return {};
  const std::string limit = config::format_bytes(limit_) + " (limits.held_bytes)";
  if (held_.bytes() + more > limit_)  // as where a request asks for what the app's limits never allow
    return fail(ErrorCode::invalid_value,
                "The answer takes more than the " + limit +
                    " that the daemon holds for the app. Stream it, or ask for fewer tokens, choices or "
                    "top_logprobs.",
                "max_tokens");
  return fail(ErrorCode::rate_limited,
              "The daemon holds " + config::format_bytes(held_.bytes_of_app()) +
                  " of the app's request bodies and unread answers, this answer needs " +
                  config::format_bytes(more) + " more, and the app's limit is " + limit +
                  ". Read the answers that wait, stream them, or ask for fewer top_logprobs.");
}

void WholeAnswer::complete(std::unique_ptr<AnswerWriter> writer, const Totals& totals) {
  writer_ = std::move(writer);
  totals_ = totals;
}

bool WholeAnswer::next(std::string& out) {
  const bool more = writer_->whole(choices_, totals_, out);
  if (!more) out.push_back('\n');
  std::uint64_t left = 0;
  for (const Choice& choice : choices_) left += choice.bytes();
  held_.shrink_to(left);
  return more;
}

}  // namespace flyball::api
