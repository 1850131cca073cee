// One inference request on its way: engine events in, HTTP answer out, streamed or whole. Between route::Job,
// which knows no HTTP, http::Exchange, which knows no engines, and the codec, which knows neither.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/api/answer.hpp"
#include "daemon/api/answer_share.hpp"
#include "daemon/api/codec.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/api/whole_answer.hpp"
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
  std::optional<Timings> timings;  // of one that was a single answer and ended well; nullopt: any other
};

class Inference final : public http::ExchangeObserver,
                        public route::JobObserver,
                        public std::enable_shared_from_this<Inference> {
 public:
  using Over = std::function<void(Inference&, const Outcome&)>;  // once, last

  // Takes the writer out of `request`, which has begun.
  Inference(std::shared_ptr<http::Exchange> exchange, const Codec& codec, Generate& request,
            AnswerShare share, metrics::Metrics& metrics, Over over);

  // Charges the app with what the answer repeats of its request. Errors: as of AnswerShare::cover().
  Result<void> reserve();

  // Takes over the job that was submitted with this as its observer. Its answers are in flight until they
  // have left.
  void run(std::shared_ptr<route::Job> job);
  // It was not admitted.
  void refuse(const route::Refusal& refusal);
  // Ends it with an error of the daemon's own (drain deadline).
  void abort(const Error& error);

  const http::Exchange& exchange() const noexcept { return *exchange_; }
  route::Job* job() noexcept { return job_.get(); }
  bool wants_answer() const noexcept { return wants_answer_; }  // false: its prompt alone

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
  // The fields that say where the request went and how it was read.
  void describe(std::vector<http::Field>& fields) const;
  void begin_stream();
  bool write(std::size_t choice, const AnswerEvents& events);  // false: the client is behind
  bool tell(std::size_t choice, const AnswerEvents& events);   // charges the app, then write()
  bool hold(std::size_t choice, const AnswerEvents& events);
  void fail(const Error& error, const route::Standings& standings, std::int64_t retry_after_ms);
  void finish(Outcome outcome);
  Usage usage() const { return job_ ? job_->receipt().usage : Usage{}; }
  metrics::RequestLabels labels() const;

  std::shared_ptr<http::Exchange> exchange_;
  std::optional<Timings> timings_;
  const Codec& codec_;
  std::unique_ptr<AnswerWriter> writer_;
  const std::optional<StreamFraming> stream_;
  const char* const operation_;
  const bool wants_answer_, told_tools_;
  const std::string note_;  // x-flyball-note
  metrics::Metrics& metrics_;
  Over over_;
  std::shared_ptr<route::Job> job_;

  struct Progress {
    ChoiceReader reader;
    std::uint32_t tokens = 0;
  };
  std::vector<Progress> progress_;
  std::unique_ptr<WholeAnswer> whole_;  // unless streamed, until it is the exchange's
  std::shared_ptr<AnswerShare> share_;  // of a stream
  std::size_t unfinished_;
  std::string pending_;  // the frames of one batch of events
  std::string backend_ = "none";
  bool streaming_ = false, heartbeat_only_ = false, ended_ = false, got_token_ = false;
  http::TimePoint answerable_;  // when the event came that let the first byte go
};

}  // namespace flyball::api
