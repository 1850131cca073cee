#include "daemon/api/inference.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/api/error_table.hpp"
#include "daemon/api/limit_fields.hpp"

namespace flyball::api {
namespace {

constexpr std::string_view kHeartbeat = ": keep-alive\n\n";  // a comment: clients skip it

double seconds_between(http::TimePoint from, http::TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Inference::Inference(std::shared_ptr<http::Exchange> exchange, Shape shape, metrics::Metrics& metrics,
                     Over over)
    : exchange_(std::move(exchange)),
      shape_(std::move(shape)),
      metrics_(metrics),
      over_(std::move(over)),
      encoder_(shape_.envelope, shape_.with_logprobs, shape_.choices),
      progress_(shape_.choices),
      unfinished_(shape_.choices),
      answerable_(exchange_->readable()) {}

void Inference::run(std::shared_ptr<route::Job> job) {
  job_ = std::move(job);
}

metrics::RequestLabels Inference::labels() const {
  metrics::RequestLabels out;
  if (job_) {
    out.app = job_->receipt().app;
    out.model = job_->receipt().model;
  }
  out.backend = backend_;
  out.operation = to_string(shape_.envelope.operation);
  return out;
}

void Inference::begin_stream() {
  streaming_ = true;
  http::Response head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.fields.push_back({"Cache-Control", "no-cache"});
  if (job_) {
    head.fields.push_back({"x-flyball-route", job_->receipt().summary()});
    append_standings(job_->standings(), head.fields);
  }
  exchange_->begin_stream(std::move(head));
}

bool Inference::flush() {
  if (pending_.empty()) return true;
  const bool keeps_up = exchange_->write(pending_);
  pending_.clear();
  return keeps_up;
}

bool Inference::on_delta(std::size_t index, const Delta& delta) {
  if (ended_) return true;
  Progress& p = progress_[index];
  p.tokens += static_cast<std::uint32_t>(delta.tokens.size());
  if (!got_token_) {
    got_token_ = true;
    backend_ = job_->backend();
    const auto now = std::chrono::steady_clock::now();
    const double seconds = seconds_between(exchange_->readable(), now);
    metrics_.first_token(labels(), seconds);
    job_->first_token(seconds * 1e3);
    if (shape_.stream) answerable_ = now;
  }
  if (!shape_.stream) {
    p.answer.text += delta.text;
    p.answer.logprobs.insert(p.answer.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    return true;
  }
  if (!streaming_) begin_stream();
  if (!p.role_sent && shape_.envelope.operation == Operation::chat) encoder_.role_chunk(pending_, index);
  p.role_sent = true;
  if (!delta.text.empty() || (shape_.with_logprobs && !delta.logprobs.empty()))
    encoder_.delta_chunk(pending_, index, delta);
  return flush();
}

void Inference::on_done(std::size_t index, const Done& done) {
  if (ended_) return;
  Progress& p = progress_[index];
  p.answer.reason = done.reason;
  backend_ = job_->backend();
  if (shape_.choices == 1) timings_ = done.timings;
  if (const auto n = std::max(done.usage.completion_tokens, p.tokens); n > 1 && done.timings.decode_us > 0)
    metrics_.output_token_time(labels(), static_cast<double>(done.timings.decode_us) / 1e6 / (n - 1));
  const bool last = --unfinished_ == 0;
  if (last && !shape_.stream) answerable_ = std::chrono::steady_clock::now();
  if (shape_.stream) {
    if (!streaming_) {
      answerable_ = std::chrono::steady_clock::now();
      begin_stream();
    }
    if (!p.role_sent && shape_.envelope.operation == Operation::chat) encoder_.role_chunk(pending_, index);
    p.role_sent = true;
    encoder_.finish_chunk(pending_, index, done.reason);
    if (last) {
      if (shape_.include_usage) encoder_.usage_chunk(pending_, usage());
      Encoder::done_frame(pending_);
    }
    flush();
    if (last) exchange_->end_stream();
  } else if (last) {
    std::vector<Choice> choices;
    choices.reserve(progress_.size());
    for (Progress& one : progress_) choices.push_back(std::move(one.answer));
    http::Response response;
    response.body = encoder_.complete(choices, usage());
    response.fields.push_back({"x-flyball-route", job_->receipt().summary()});
    append_standings(job_->standings(), response.fields);
    exchange_->respond(std::move(response));
  }
  if (last) {
    Outcome outcome;
    finish(outcome);
  }
}

void Inference::on_error(const Error& error) {
  const route::Standings standings = job_ ? job_->standings() : route::Standings{};
  // Only the engine could count the prompt: it finds room when all of the app's tokens are there again.
  const bool limited = error.code == ErrorCode::token_limit_exceeded && standings.tokens;
  fail(error, standings, limited ? standings.tokens->reset_ms : -1);
}

void Inference::refuse(const route::Refusal& refusal) {
  fail(refusal.error, refusal.standings, refusal.retry_after_ms);
}

void Inference::fail(const Error& error, const route::Standings& standings, std::int64_t retry_after_ms) {
  if (ended_) return;
  Outcome outcome;
  outcome.failed = true;
  outcome.code = error.code;
  outcome.status = error_row(error.code).status;
  if (job_) backend_ = job_->backend();
  if (streaming_) {
    Encoder::error_frame(pending_, error);
    Encoder::done_frame(pending_);
    flush();
    exchange_->end_stream();
  } else {
    http::Response response = error_response(error);
    if (job_) response.fields.push_back({"x-flyball-route", job_->receipt().summary()});
    append_standings(standings, response.fields);
    if (retry_after_ms >= 0) set_retry_after(retry_after_ms, response.fields);
    answerable_ = http::TimePoint::max();  // an engine's refusal says nothing about the router's own time
    exchange_->respond(std::move(response));
  }
  finish(std::move(outcome));
}

void Inference::abort(const Error& error) {
  const auto self = shared_from_this();
  if (job_) job_->cancel();
  on_error(error);
}

void Inference::on_disconnect() {
  if (ended_) return;
  if (job_) {
    job_->cancel();
    backend_ = job_->backend();
  }
  Outcome outcome;
  outcome.failed = true;
  outcome.code = ErrorCode::cancelled;
  outcome.status = error_row(ErrorCode::cancelled).status;
  finish(std::move(outcome));
}

void Inference::on_drained() {
  if (!ended_ && job_) job_->resume();
}

void Inference::on_quiet() {
  if (ended_ || !shape_.stream) return;
  if (!streaming_) {
    heartbeat_only_ = true;
    begin_stream();
  }
  exchange_->write(kHeartbeat);
}

void Inference::on_first_byte(http::TimePoint at) {
  if (!job_ || heartbeat_only_ || answerable_ == http::TimePoint::max() || answerable_ < job_->asked_at())
    return;
  const double total = seconds_between(exchange_->readable(), at);
  const double engine = seconds_between(job_->asked_at(), answerable_);
  const double own = std::max(0.0, total - engine);
  metrics_.router_overhead(own);
  job_->router_took(own * 1e6);
}

void Inference::finish(Outcome outcome) {
  if (std::exchange(ended_, true)) return;
  const auto self = shared_from_this();  // `over_` lets go of us
  outcome.backend = backend_;
  outcome.usage = usage();
  outcome.timings = timings_;
  if (job_) {
    if (job_->receipt().queue_ms >= 0) metrics_.queue_wait(labels(), job_->receipt().queue_ms / 1e3);
    metrics_.tokens(labels(), outcome.usage.prompt_tokens, outcome.usage.cached_tokens,
                    outcome.usage.completion_tokens);
  }
  if (over_) std::exchange(over_, nullptr)(*this, outcome);
}

}  // namespace flyball::api
