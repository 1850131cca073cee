#include "daemon/route/attempt.hpp"

#include <algorithm>
#include <cstdlib>

namespace flyball::route {
namespace {

// Failures of this engine on this machine: another target may do better. Everything else is the request's own
// fault or would meet it anywhere.
bool another_may_serve(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::model_unsupported:
    case ErrorCode::model_unavailable:
    case ErrorCode::insufficient_memory:
    case ErrorCode::device_lost:
    case ErrorCode::worker_died:
    case ErrorCode::overloaded:
    case ErrorCode::upstream_refused:
    case ErrorCode::upstream_timeout:
      return true;
    default:
      return false;
  }
}

}  // namespace

Attempt::Action Attempt::begin() {
  if (targets_.empty())
    return GiveUp{{ErrorCode::no_target, "The policy names no engine that is available now.", {}, {}}};
  ++attempts_;
  return Acquire{targets_[at_]};
}

Attempt::Action Attempt::next_target(const Error& error) {
  if (at_ + 1 >= targets_.size() || attempts_ >= kMaxAttempts || !resumable()) return GiveUp{error};
  ++at_;
  ++attempts_;
  deaths_ = 0;
  return Acquire{targets_[at_]};
}

Attempt::Action Attempt::again(const Error& error) {
  if (attempts_ >= kMaxAttempts || !resumable()) return GiveUp{error};
  ++attempts_;
  return Acquire{targets_[at_]};
}

Attempt::Action Attempt::unavailable(const Error& error) {
  // The worker died between being ready and taking the request: it is being restarted.
  if (error.code == ErrorCode::worker_died) return failed(error);
  return another_may_serve(error.code) ? next_target(error) : GiveUp{error};
}

Attempt::Action Attempt::failed(const Error& error) {
  if (!another_may_serve(error.code)) return GiveUp{error};
  if (error.code != ErrorCode::worker_died) return next_target(error);
  if (++deaths_ < kMaxDeathsWithoutProgress) return again(error);
  // Twice without a token in between: the request itself is suspect and gets no third engine.
  return GiveUp{error};
}

std::optional<Attempt::GiveUp> Attempt::starts_on(const std::string& digest) {
  if ((!tokens_.empty() || echoed_ > 0) && digest != digest_)
    return GiveUp{{ErrorCode::worker_died,
                   "The engine process died, and the model's file has been replaced since: the rest of the "
                   "answer would be another model's.",
                   {},
                   {}}};
  digest_ = digest;
  return std::nullopt;
}

void Attempt::move_to(const policy::Target& target) {
  const auto next =
      std::find(targets_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, targets_.end(), &target);
  if (next == targets_.end()) std::abort();
  at_ = static_cast<std::size_t>(next - targets_.begin());
  ++attempts_;
  deaths_ = 0;
}

void Attempt::received(const Delta& delta) {
  echoed_ += delta.echoed;
  if (delta.echoed > 0) return;
  if (!delta.tokens.empty()) deaths_ = 0;
  tokens_.insert(tokens_.end(), delta.tokens.begin(), delta.tokens.end());
  text_bytes_ += delta.text.size();
}

}  // namespace flyball::route
