// What request settings change on one engine: the time between two tokens of a stream beside long prompts of
// another app, with the settings of a profile `latency` and without any; and the tokens per second of a batch, with the
// settings of a profile `throughput` and without any. Both by turns on one loaded engine, because a shared machine's
// speed drifts. Random tokens, so that nothing is cached. --help lists the options, --json prints one object.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backends/local/local_backend.hpp"
#include "tests/bench/client.hpp"

namespace {

using namespace flyball;
using bench::Clock, bench::Client, bench::Quantiles, bench::Running;
using config::QueuePlace;
using config::RequestSettings;
using nlohmann::json;

constexpr std::uint32_t kStreamPrompt = 32;
constexpr std::uint32_t kWarmUp = 1024;  // tokens, by which the cost of a step is learned

struct Options {
  local::LocalBackendOptions engine;
  std::uint32_t turns = 4;
  double seconds = 10;
  std::uint32_t beside = 3, beside_prompt = 1024, beside_answer = 16;
  std::uint32_t batch = 24, batch_prompt = 512, batch_answer = 48;
  std::uint32_t latency_ms = 20, throughput_ms = 300;
  bool as_json = false;
};

// Of one way to serve, over all turns.
struct Arm {
  RequestSettings settings;
  std::vector<double> gaps_ms;      // of the stream
  std::uint64_t beside_tokens = 0;  // of the requests beside it that ended
  std::vector<double> batch_rates;  // tokens a second, one a turn
};

// A stream beside requests of another app that has always as many there.
void measure_stream(Client& client, const Options& o, Arm& arm) {
  const auto answer = static_cast<std::uint32_t>(o.engine.context) - kStreamPrompt;
  const Running stream = client.start(client.prompt(kStreamPrompt), answer, "chat", arm.settings);
  stream.waiter->wait_tokens(1);
  const auto begin = Clock::now(), end = bench::in_seconds(o.seconds);
  std::vector<Running> beside(o.beside);
  for (bool first = true; Clock::now() < end && !stream.waiter->over(); first = false) {
    for (Running& running : beside) {
      if (!first && !running.waiter->over()) continue;
      if (!first) {
        running.waiter->wait_timings();  // dies of an error
        arm.beside_tokens += o.beside_prompt + o.beside_answer;
      }
      running = client.start(client.prompt(o.beside_prompt), o.beside_answer, "batch");
    }
    std::this_thread::sleep_for(bench::kPoll);
  }
  for (const bench::Gap& gap : stream.waiter->gaps(begin, end))
    arm.gaps_ms.push_back(bench::ms(gap.to - gap.from));
}

// All of a batch at once.
void measure_batch(Client& client, const Options& o, Arm& arm) {
  const auto begin = Clock::now();
  std::vector<Running> batch;
  for (std::uint32_t i = 0; i < o.batch; ++i)
    batch.push_back(client.start(client.prompt(o.batch_prompt), o.batch_answer, "batch", arm.settings));
  for (const Running& running : batch) running.waiter->wait_timings();
  const double seconds = bench::ms(Clock::now() - begin) / 1e3;
  arm.batch_rates.push_back(o.batch * (o.batch_prompt + o.batch_answer) / seconds);
}

// Each turn has both ways, in the other order than the turn before.
template <class Measure>
void by_turns(Client& client, const Options& o, Arm& plain, Arm& set, Measure measure) {
  for (std::uint32_t turn = 0; turn < o.turns; ++turn) {
    for (const bool first : {true, false}) {
      measure(client, o, first == (turn % 2 == 0) ? plain : set);
      client.wait_idle();
    }
  }
}

void print(const Options& o, const Arm& plain_stream, const Arm& latency, const Arm& plain_batch,
           const Arm& throughput) {
  const auto gaps = [](const Arm& arm) { return bench::quantiles(arm.gaps_ms); };
  const auto median = [](const Arm& arm) { return bench::quantiles(arm.batch_rates).p50; };
  const auto beside_rate = [&](const Arm& arm) {
    return static_cast<double>(arm.beside_tokens) / (o.seconds * o.turns);
  };
  if (o.as_json) {
    json out;
    for (const auto& [name, arm] : {std::pair("none", &plain_stream), {"latency", &latency}})
      out["tpot_ms"][name] = gaps(*arm).to_json(), out["beside_tokens_s"][name] = beside_rate(*arm);
    for (const auto& [name, arm] : {std::pair("none", &plain_batch), {"throughput", &throughput}})
      out["batch_tokens_s"][name] = arm->batch_rates;
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  const auto row = [&](const char* what, const Arm& arm) {
    const Quantiles q = gaps(arm);
    std::printf(
        "%-46s p50 %7.1f ms   p90 %7.1f ms   p99 %7.1f ms   most %7.1f ms   (%zu); beside %.0f tokens/s\n",
        what, q.p50, q.p90, q.p99, q.most, q.samples, beside_rate(arm));
  };
  row("between two tokens of a stream, no settings", plain_stream);
  row("between two tokens of a stream, latency", latency);
  std::printf("%-46s %.2f\n", "  p99 over p99", gaps(latency).p99 / gaps(plain_stream).p99);
  const auto rates = [&](const char* what, const Arm& arm) {
    std::printf("%-46s %.0f tokens/s:", what, median(arm));
    for (const double rate : arm.batch_rates) std::printf(" %.0f", rate);
    std::printf("\n");
  };
  rates("batch, no settings", plain_batch);
  rates("batch, throughput", throughput);
  std::printf("%-46s %.2f\n", "  median over median", median(throughput) / median(plain_batch));
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  o.engine.model_id = "bench";
  o.engine.threads = 2;
  o.engine.max_sequences = 8;
  CLI::App app("Request settings of profiles beside none", "profiles_bench");
  app.add_option("model", o.engine.path, "GGUF file; flyball make-model writes one")->required();
  app.add_option("--backend", o.engine.backend, "cpu, vulkan or opencl")->capture_default_str();
  app.add_option("--threads", o.engine.threads, "cpu: threads; 0 is one per core")->capture_default_str();
  app.add_option("--slots", o.engine.max_sequences, "sequences at once")->capture_default_str();
  app.add_option("--turns", o.turns, "turns of each part, with both ways in each")->capture_default_str();
  app.add_option("--seconds", o.seconds, "how long a stream is watched in a turn")->capture_default_str();
  app.add_option("--beside", o.beside, "requests beside the stream")->capture_default_str();
  app.add_option("--beside-prompt", o.beside_prompt, "tokens of their prompts")->capture_default_str();
  app.add_option("--beside-answer", o.beside_answer, "tokens of their answers")->capture_default_str();
  app.add_option("--batch", o.batch, "requests of the batch")->capture_default_str();
  app.add_option("--batch-prompt", o.batch_prompt, "tokens of their prompts")->capture_default_str();
  app.add_option("--batch-answer", o.batch_answer, "tokens of their answers")->capture_default_str();
  app.add_option("--latency-budget", o.latency_ms, "step budget of latency, in milliseconds")
      ->capture_default_str();
  app.add_option("--throughput-budget", o.throughput_ms, "step budget of throughput, in milliseconds")
      ->capture_default_str();
  app.add_flag("--json", o.as_json, "one JSON object");
  CLI11_PARSE(app, argc, argv);
  o.engine.context = 8192;
  const auto backend = bench::expect(local::make_local_backend(o.engine));
  Client client(*backend);
  client.ttft(kWarmUp);
  Arm plain_stream, plain_batch;
  Arm latency{
      .settings = {.step_budget = std::chrono::milliseconds(o.latency_ms), .place = QueuePlace::ahead},
      .gaps_ms = {},
      .batch_rates = {}};
  Arm throughput{
      .settings = {.step_budget = std::chrono::milliseconds(o.throughput_ms), .place = QueuePlace::behind},
      .gaps_ms = {},
      .batch_rates = {}};
  by_turns(client, o, plain_stream, latency, measure_stream);
  by_turns(client, o, plain_batch, throughput, measure_batch);
  print(o, plain_stream, latency, plain_batch, throughput);
  return 0;
}
