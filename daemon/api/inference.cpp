#include "daemon/api/inference.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/api/error_table.hpp"
#include "daemon/api/limit_fields.hpp"

namespace flyball::api {
namespace {

// The app's places and bytes that an answer takes until its last byte has left.
struct UntilSent {
  std::shared_ptr<const void> in_flight;
  std::shared_ptr<const AnswerShare> share;
};

double seconds_between(http::TimePoint from, http::TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Inference::Inference(std::shared_ptr<http::Exchange> exchange, const Codec& codec, Generate& request,
                     AnswerShare share, metrics::Metrics& metrics, Over over)
    : exchange_(std::move(exchange)),
      codec_(codec),
      writer_(std::move(request.writer)),
      stream_(request.stream),
      operation_(to_string(request.kind)),
      wants_answer_(request.base.wanted == Wanted::answer),
      told_tools_(request.tools_in_system_message),
      note_(std::move(request.note)),
      metrics_(metrics),
      over_(std::move(over)),
      unfinished_(request.choices()),
      answerable_(exchange_->readable()) {
  progress_.reserve(unfinished_);
  for (std::size_t i = 0; i < unfinished_; ++i)
    progress_.push_back({ChoiceReader(request.parser, exchange_->id() + "/" + std::to_string(i)), 0});
  if (stream_)
    share_ = std::make_shared<AnswerShare>(std::move(share));
  else
    whole_ = std::make_unique<WholeAnswer>(unfinished_, std::move(share), writer_->bytes({}));
}

Result<void> Inference::reserve() {
  return stream_ ? share_->cover(writer_->bytes({})) : whole_->reserve();
}

void Inference::run(std::shared_ptr<route::Job> job) {
  job_ = std::move(job);
  exchange_->keep_until_sent(std::make_shared<const UntilSent>(UntilSent{job_->in_flight(), share_}));
}

metrics::RequestLabels Inference::labels() const {
  metrics::RequestLabels out;
  if (job_) {
    out.app = job_->receipt().app;
    out.model = job_->receipt().model;
  }
  out.backend = backend_;
  out.operation = operation_;
  return out;
}

void Inference::describe(std::vector<http::Field>& fields) const {
  if (job_) fields.push_back({"x-flyball-route", job_->receipt().summary()});
  if (!note_.empty()) fields.push_back({"x-flyball-note", note_});
  if (!codec_.id_field.empty()) fields.push_back({std::string(codec_.id_field), exchange_->id()});
}

void Inference::begin_stream() {
  streaming_ = true;
  http::Response head = stream_head(*stream_);
  describe(head.fields);
  if (job_) append_standings(job_->standings(), head.fields);
  exchange_->begin_stream(std::move(head));
}

bool Inference::write(std::size_t choice, const AnswerEvents& events) {
  if (!streaming_) begin_stream();
  Frames frames(*stream_, pending_);
  writer_->write(choice, events, frames);
  if (pending_.empty()) return true;
  const bool keeps_up = exchange_->write(pending_);
  pending_.clear();
  return keeps_up;
}

bool Inference::tell(std::size_t choice, const AnswerEvents& events) {
  const auto covered = share_->cover(writer_->bytes(events));
  if (covered) return write(choice, events);
  const Error error = covered.error();
  job_->fail(error.code);
  fail(error, job_->standings(), -1);
  return true;
}

bool Inference::on_delta(std::size_t index, const Delta& delta) {
  if (ended_) return true;
  Progress& p = progress_[index];
  p.tokens += static_cast<std::uint32_t>(delta.tokens.size());
  if (stream_ && !streaming_) answerable_ = std::chrono::steady_clock::now();
  if (!got_token_ && wants_answer_ && delta.echoed == 0) {
    got_token_ = true;
    backend_ = job_->backend();
    const double seconds = seconds_between(exchange_->readable(), std::chrono::steady_clock::now());
    metrics_.first_token(labels(), seconds);
    job_->first_token(seconds * 1e3);
  }
  const AnswerEvents& events = p.reader.read(delta);
  if (stream_) return tell(index, events);
  hold(index, events);
  return true;
}

// False: the answer has ended there.
bool Inference::hold(std::size_t choice, const AnswerEvents& events) {
  const auto held = whole_->gather(choice, events);
  if (held) return true;
  const Error error = held.error();
  job_->fail(error.code);
  fail(error, job_->standings(), -1);
  return false;
}

void Inference::on_done(std::size_t index, const Done& done) {
  if (ended_) return;
  Progress& p = progress_[index];
  backend_ = job_->backend();
  if (progress_.size() == 1 && wants_answer_) timings_ = done.timings;
  if (const auto n = std::max(done.usage.completion_tokens, p.tokens); n > 1 && done.timings.decode_us > 0)
    metrics_.output_token_time(labels(), static_cast<double>(done.timings.decode_us) / 1e6 / (n - 1));
  const bool last = --unfinished_ == 0;
  if (stream_ ? !streaming_ : last) answerable_ = std::chrono::steady_clock::now();
  const auto took = std::chrono::steady_clock::now() - exchange_->readable();
  Totals totals{usage(), static_cast<std::uint64_t>(
                             std::chrono::duration_cast<std::chrono::microseconds>(took).count())};
  for (const Progress& choice : progress_) totals.reasoning_tokens += choice.reader.reasoning_tokens();
  const AnswerEvents& events = p.reader.read(done, last ? &totals : nullptr);
  if (stream_) {
    tell(index, events);
    if (ended_) return;
    if (last) exchange_->end_stream();
  } else {
    if (!hold(index, events)) return;
    if (last) {
      http::Response response;
      describe(response.fields);
      append_standings(job_->standings(), response.fields);
      whole_->complete(std::move(writer_), totals);
      exchange_->respond(std::move(response), std::move(whole_));
    }
  }
  if (last) finish({});
}

void Inference::on_error(const Error& error) {
  const route::Standings standings = job_ ? job_->standings() : route::Standings{};
  // Only the engine could count the prompt: it finds room when all of the app's tokens are there again.
  const bool limited = error.code == ErrorCode::token_limit_exceeded && standings.tokens;
  const std::int64_t retry = limited ? standings.tokens->reset_ms : job_ ? job_->retry_after_ms() : -1;
  if (!told_tools_ || !error.param.starts_with("messages[")) return fail(error, standings, retry);
  Error of_all = error;  // the messages that the engine has are not the client's
  of_all.param = "messages";
  fail(of_all, standings, retry);
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
    write(0, {event::Failed{error}});
    exchange_->end_stream();
  } else {
    http::Response response = codec_.error(error, exchange_->id());
    outcome.status = response.status;
    describe(response.fields);
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
  if (ended_ || !stream_ || heartbeat(*stream_).empty()) return;
  if (!streaming_) {
    heartbeat_only_ = true;
    begin_stream();
  }
  exchange_->write(heartbeat(*stream_));
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
  whole_.reset();
  outcome.backend = backend_;
  outcome.usage = usage();
  outcome.timings = timings_;
  if (job_ && wants_answer_) {
    if (job_->receipt().queue_ms >= 0) metrics_.queue_wait(labels(), job_->receipt().queue_ms / 1e3);
    metrics_.tokens(labels(), outcome.usage.prompt_tokens, outcome.usage.cached_tokens,
                    outcome.usage.completion_tokens);
  }
  if (over_) std::exchange(over_, nullptr)(*this, outcome);
}

}  // namespace flyball::api
