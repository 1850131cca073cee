// One inference request on its way: engine events in, HTTP answer out, streamed or whole. Between route::Job,
// which knows no HTTP, and http::Exchange, which knows no engines.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api/completion_request.hpp"
#include "daemon/api/encoder.hpp"
#include "daemon/http/connection.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/route/dispatcher.hpp"

namespace flyball::api {

// How it ended, for the access log and the metrics.
struct Outcome {
  int status = 200;
  ErrorCode code = ErrorCode::internal;  // meaningful where failed
  bool failed = false;
  std::string backend = "none";
  Usage usage;
  std::optional<Timings> timings;  // of one that was a single answer and ended well
};

class Inference final : public http::ExchangeObserver,
                        public route::JobObserver,
                        public std::enable_shared_from_this<Inference> {
 public:
  struct Shape {  // what of the request the answer depends on
    Envelope envelope;
    bool stream = false, include_usage = false, with_logprobs = false;
    std::uint32_t n = 1, choices = 1;  // n answers to each prompt
  };
  using Over = std::function<void(Inference&, const Outcome&)>;  // once, last

  Inference(std::shared_ptr<http::Exchange> exchange, Shape shape, metrics::Metrics& metrics, Over over);

  // Takes over the job that was submitted with this as its observer.
  void run(std::shared_ptr<route::Job> job);
  // It was not admitted.
  void refuse(const route::Refusal& refusal);
  // Ends it with an error of the daemon's own (drain deadline).
  void abort(const Error& error);

  const http::Exchange& exchange() const noexcept { return *exchange_; }
  route::Job* job() noexcept { return job_.get(); }

  // http::ExchangeObserver
  void on_disconnect() override;
  void on_drained() override;
  void on_quiet() override;
  void on_first_byte(http::TimePoint at) override;
  // route::JobObserver
  bool on_delta(std::size_t choice, const Delta& delta) override;
  void on_done(std::size_t choice, const Done& done) override;
  void on_error(const Error& error) override;

 private:
  void begin_stream();
  bool flush();
  void fail(const Error& error, const route::Standings& standings, std::int64_t retry_after_ms);
  void finish(Outcome outcome);
  Usage usage() const { return job_ ? job_->receipt().usage : Usage{}; }
  metrics::RequestLabels labels() const;

  std::shared_ptr<http::Exchange> exchange_;
  std::optional<Timings> timings_;
  const Shape shape_;
  metrics::Metrics& metrics_;
  Over over_;
  std::shared_ptr<route::Job> job_;
  Encoder encoder_;

  struct Progress {
    Choice answer;  // text and logprobs only where not streamed
    std::uint32_t tokens = 0;
    bool role_sent = false;
  };
  std::vector<Progress> progress_;
  std::size_t unfinished_;
  std::string pending_;  // encoded, not yet handed to the exchange
  std::string backend_ = "none";
  bool streaming_ = false, heartbeat_only_ = false, ended_ = false, got_token_ = false;
  http::TimePoint answerable_;  // when the event came that let the first byte go
};

}  // namespace flyball::api
