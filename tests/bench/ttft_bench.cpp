// What a long prompt costs those beside it: the time to first token of a short request alone and while a long
// prompt of another one is being computed, and the time between two tokens of a stream likewise. Random
// tokens, so that nothing is cached; times to first token are the engine's own, from arrival. --help lists
// the options, --json prints one object.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "backends/engine/local_backend.hpp"

namespace {

using namespace flyball;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kSolo =
    12;  // short requests alone before each long one, because a shared machine's speed drifts
constexpr std::uint32_t kStreamPrompt = 32;

struct Options {
  engine::LocalBackendOptions engine;
  std::uint32_t brief = 64, lengthy = 4096, rounds = 3;
  bool as_json = false;
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "ttft_bench: %s\n", what.c_str());
  std::exit(1);
}

double ms(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

class Waiter final : public EventSink {
 public:
  bool push(Event event) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (std::holds_alternative<Delta>(event))
      tokens_.push_back(Clock::now());
    else
      end_ = std::move(event);
    changed_.notify_one();
    return true;
  }
  bool over() {
    const std::scoped_lock lock(mutex_);
    return end_.has_value();
  }
  double wait_ttft_ms() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_.has_value(); });
    if (const auto* error = std::get_if<Error>(&*end_)) die(error->message);
    const Timings& t = std::get<Done>(*end_).timings;
    return static_cast<double>(t.queue_us + t.prefill_us) / 1e3;
  }
  void wait_tokens(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return end_.has_value() || tokens_.size() >= n; });
  }
  // Between two tokens, of those that came between the two times.
  std::vector<double> gaps_ms(Clock::time_point from, Clock::time_point to) {
    const std::scoped_lock lock(mutex_);
    std::vector<double> gaps;
    for (std::size_t i = 1; i < tokens_.size(); ++i)
      if (tokens_[i - 1] >= from && tokens_[i] <= to) gaps.push_back(ms(tokens_[i] - tokens_[i - 1]));
    return gaps;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Clock::time_point> tokens_;
  std::optional<Event> end_;
};

struct Running {
  std::shared_ptr<Waiter> waiter = std::make_shared<Waiter>();
  Ticket ticket;
};

class Client {
 public:
  explicit Client(Backend& backend) : backend_(backend) {}

  Running start(std::uint32_t prompt, std::uint32_t answer = 1) {
    CompletionRequest request;
    TokenPrompt tokens;
    for (std::uint32_t i = 0; i < prompt; ++i)
      tokens.tokens.push_back(static_cast<Token>(random_() % backend_.info().vocab_size));
    request.prompt = std::move(tokens);
    request.max_tokens = answer;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    Running running;
    auto ticket = backend_.start(std::move(request), running.waiter);
    if (!ticket) die(ticket.error().message);
    running.ticket = std::move(*ticket);
    return running;
  }
  double ttft_ms(std::uint32_t prompt) { return start(prompt).waiter->wait_ttft_ms(); }
  // Half to 32 times `typical_ms`, as often in each octave: requests arrive at any moment of a step, soon
  // after another one and after a while.
  void pause(double typical_ms) {
    const double x = static_cast<double>(random_()) / static_cast<double>(std::mt19937::max());
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(typical_ms * std::exp2(6 * x - 1)));
  }

 private:
  Backend& backend_;
  std::mt19937 random_{1};
};

struct Quantiles {
  double p50 = 0, p99 = 0;
  std::size_t samples = 0;
  json to_json() const { return {{"p50", p50}, {"p99", p99}, {"samples", samples}}; }
};

Quantiles quantiles(std::vector<double> values) {
  if (values.empty()) die("nothing was measured: the long prompt is too short for this device");
  std::ranges::sort(values);
  return {values[values.size() / 2], values[(values.size() * 99 - 1) / 100], values.size()};
}

struct Figures {
  Quantiles solo, beside, tpot_alone, tpot_beside;  // ms
  double long_alone_s = 0, long_beside_s = 0;
};

Figures measure(Backend& backend, const Options& options) {
  Client client(backend);
  Figures f;
  client.ttft_ms(options.lengthy);  // warms up: the cost of a step is learned
  f.long_alone_s = client.ttft_ms(options.lengthy) / 1e3;
  if (options.rounds == 0) return f;
  std::vector<double> solo, beside, lengths;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    for (int i = 0; i < kSolo; ++i) solo.push_back(client.ttft_ms(options.brief));
    f.solo = quantiles(solo);
    const Running running = client.start(options.lengthy);
    while (true) {
      client.pause(f.solo.p50);
      if (running.waiter->over()) break;
      const double t = client.ttft_ms(options.brief);
      if (running.waiter->over()) break;
      beside.push_back(t);
    }
    lengths.push_back(running.waiter->wait_ttft_ms() / 1e3);
  }
  f.beside = quantiles(beside);
  f.long_beside_s = quantiles(lengths).p50;

  const Running stream = client.start(kStreamPrompt, options.lengthy);
  stream.waiter->wait_tokens(1);
  const auto begin = Clock::now();
  stream.waiter->wait_tokens(33);
  const auto middle = Clock::now();
  const Running running = client.start(options.lengthy);
  running.waiter->wait_ttft_ms();
  const auto end = Clock::now();
  f.tpot_alone = quantiles(stream.waiter->gaps_ms(begin, middle));
  f.tpot_beside = quantiles(stream.waiter->gaps_ms(middle, end));
  return f;
}

void print(const Figures& f, const Options& options) {
  if (options.rounds == 0) {
    std::printf(
        options.as_json ? "{\"long_alone_s\":%.3f}\n" : "first token of the long request, alone: %.2f s\n",
        f.long_alone_s);
    return;
  }
  if (options.as_json) {
    std::printf("%s\n", json{{"backend", options.engine.backend},
                             {"short_tokens", options.brief},
                             {"long_tokens", options.lengthy},
                             {"ttft_solo_ms", f.solo.to_json()},
                             {"ttft_beside_ms", f.beside.to_json()},
                             {"ttft_p99_ratio", f.beside.p99 / f.solo.p99},
                             {"ttft_p99_over_solo_p50", f.beside.p99 / f.solo.p50},
                             {"tpot_alone_ms", f.tpot_alone.to_json()},
                             {"tpot_beside_ms", f.tpot_beside.to_json()},
                             {"long_alone_s", f.long_alone_s},
                             {"long_beside_s", f.long_beside_s}}
                            .dump()
                            .c_str());
    return;
  }
  const auto row = [](const char* what, const Quantiles& q) {
    std::printf("%-46s p50 %8.1f ms   p99 %8.1f ms   (%zu)\n", what, q.p50, q.p99, q.samples);
  };
  row("first token of a short request, alone", f.solo);
  row("first token of a short request, beside", f.beside);
  std::printf("%-46s %.2f of p99 alone, %.2f of p50 alone\n", "  its p99", f.beside.p99 / f.solo.p99,
              f.beside.p99 / f.solo.p50);
  row("between two tokens of a stream, alone", f.tpot_alone);
  row("between two tokens of a stream, beside", f.tpot_beside);
  std::printf("%-46s %.2f s alone, %.2f s beside short ones\n", "first token of the long request",
              f.long_alone_s, f.long_beside_s);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.engine.model_id = "bench";
  options.engine.max_sequences = 4;
  CLI::App app("Time to first token of a short request beside a long prompt", "ttft_bench");
  app.add_option("model", options.engine.path, "GGUF file; flyball make-model writes one")->required();
  app.add_option("--backend", options.engine.backend, "cpu or opencl")->capture_default_str();
  app.add_option("--device", options.engine.opencl.name, "opencl: part of the device's or its driver's name");
  app.add_option("--threads", options.engine.threads, "cpu: threads; 0 is one per core");
  app.add_option("--slots", options.engine.max_sequences, "sequences at once")->capture_default_str();
  app.add_option("--step-tokens", options.engine.step_tokens, "most tokens of a step")->capture_default_str();
  app.add_option("--short", options.brief, "tokens of the short prompts")->capture_default_str();
  app.add_option("--long", options.lengthy, "tokens of the long prompts")->capture_default_str();
  app.add_option("--rounds", options.rounds,
                 "long prompts computed beside short ones; 0: the long one alone, nothing else")
      ->capture_default_str();
  app.add_flag("--json", options.as_json, "one JSON object");
  CLI11_PARSE(app, argc, argv);
  options.engine.context = options.lengthy + kStreamPrompt + 16;
  auto backend = engine::make_local_backend(options.engine);
  if (!backend) die(backend.error().message);
  print(measure(**backend, options), options);
  return 0;
}
