// Clients of an engine in this process, for programs that measure it: what a request's tokens and its end
// cost in time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "backends/backend.hpp"
#include "tests/bench/program.hpp"

namespace flyball::bench {

using Clock = std::chrono::steady_clock;

// How often it is asked whether the engine has come to rest.
inline constexpr std::chrono::milliseconds kPoll{5};

inline double ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}
inline Clock::time_point in_seconds(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

struct Gap {  // between two tokens of a stream
  Clock::time_point from, to;
};

class Waiter final : public EventSink {
 public:
  bool push(Event event) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (const auto* delta = std::get_if<Delta>(&event)) {
      tokens_.push_back(Clock::now());
      answer_.insert(answer_.end(), delta->tokens.begin(), delta->tokens.end());
    } else {
      end_ = std::move(event);
    }
    changed_.notify_one();
    return true;
  }
  bool over() {
    const std::scoped_lock lock(mutex_);
    return end_.has_value();
  }
  bool wait_end(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [&] { return end_.has_value(); });
  }
  Done wait_done() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_.has_value(); });
    if (const auto* error = std::get_if<Error>(&*end_)) die(error->message);
    return std::get<Done>(*end_);
  }
  Timings wait_timings() { return wait_done().timings; }
  const std::vector<Token>& answer() const { return answer_; }  // after its end
  void wait_tokens(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_.has_value() || tokens_.size() >= n; });
  }
  // Of those that came between the two times.
  std::vector<Gap> gaps(Clock::time_point from, Clock::time_point to) {
    const std::scoped_lock lock(mutex_);
    std::vector<Gap> gaps;
    for (std::size_t i = 1; i < tokens_.size(); ++i)
      if (tokens_[i - 1] >= from && tokens_[i] <= to) gaps.push_back({tokens_[i - 1], tokens_[i]});
    return gaps;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Clock::time_point> tokens_;
  std::vector<Token> answer_;
  std::optional<Event> end_;
};

inline double ttft_ms(const Timings& t) {
  return static_cast<double>(t.queue_us + t.prefill_us) / 1e3;
}

// A request that has ended.
struct Turn {
  double ttft_ms = 0;
  std::uint32_t cached = 0;  // tokens of the prompt that were not computed
  std::uint32_t kept = 0;    // of these, tokens of a kept prefix
  std::vector<Token> tokens;
};

inline Turn run(Backend& backend, CompletionRequest request) {
  const auto waiter = std::make_shared<Waiter>();
  const auto ticket = expect(backend.start(std::move(request), waiter));
  const Done done = waiter->wait_done();
  return {ttft_ms(done.timings), done.usage.cached_tokens, done.kept_tokens, waiter->answer()};
}

struct Running {
  std::shared_ptr<Waiter> waiter = std::make_shared<Waiter>();
  Clock::time_point start;
  Ticket ticket;
};

class Client {
 public:
  explicit Client(Backend& backend) : backend_(backend) {}

  std::vector<Token> prompt(std::uint32_t n) {
    std::vector<Token> tokens(n);
    for (Token& token : tokens) token = static_cast<Token>(random_() % backend_.info().vocab_size);
    return tokens;
  }
  Running start(std::vector<Token> prompt, std::uint32_t answer = 1, std::string owner = {},
                const config::RequestSettings& settings = {}) {
    CompletionRequest request;
    request.owner = std::move(owner);
    request.settings = settings;
    request.prompt = TokenPrompt{std::move(prompt)};
    request.max_tokens = answer;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    Running running;
    running.start = Clock::now();
    running.ticket = expect(backend_.start(std::move(request), running.waiter));
    return running;
  }
  double ttft(std::uint32_t n) { return ttft_ms(start(prompt(n)).waiter->wait_timings()); }
  void wait_idle() const {
    while (backend_.load().running > 0) std::this_thread::sleep_for(kPoll);
  }
  // Half to `longest` times `typical_ms`, as often in each octave: requests arrive at any moment of a step,
  // soon after another one and after a while.
  void pause(double typical_ms, double longest) {
    const double x = static_cast<double>(random_()) / static_cast<double>(std::mt19937::max());
    std::this_thread::sleep_for(
        std::chrono::duration<double, std::milli>(typical_ms * std::pow(2 * longest, x) / 2));
  }

 private:
  Backend& backend_;
  std::mt19937 random_{1};
};

struct Quantiles {
  double p50 = 0, p90 = 0, p99 = 0, most = 0;
  std::size_t samples = 0;
  nlohmann::json to_json() const {
    return {{"p50", p50}, {"p90", p90}, {"p99", p99}, {"most", most}, {"samples", samples}};
  }
};

inline Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) die("nothing was measured: the long prompts are too short for this device");
  std::ranges::sort(values);
  const auto at = [&](std::size_t percent) { return values[(values.size() * percent - 1) / 100]; };
  return {at(50), at(90), at(99), values.back(), values.size()};
}

}  // namespace flyball::bench
