// What a long prompt costs those beside it: the time to first token of a short request alone and while long
// prompts of others are being computed, and the time between two tokens of a stream likewise. Random tokens,
// so that nothing is cached; times to first token are the engine's own, from arrival. --trace tells what the
// engine did while one came late; --help lists the options, --json prints one object.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/local/local_backend.hpp"
#include "tests/bench/client.hpp"

namespace {

using namespace flyball;
using bench::Clock, bench::Client, bench::Gap, bench::Quantiles, bench::Running, bench::in_seconds, bench::ms,
    bench::quantiles, bench::ttft_ms;
using nlohmann::json;

constexpr std::uint32_t kStreamPrompt = 32;
constexpr std::uint32_t kWarmUp = 1024;  // tokens, by which the cost of a step is learned
struct Options {
  local::LocalBackendOptions engine;
  std::uint32_t brief = 64, lengthy = 4096, long_alone = 1;
  double seconds = 60, stream_seconds = 20, longest_pause = 32, trace = 0;
  bool as_json = false;
};

// The engine's steps and the processor time they got, for --trace.
class Recorder {
 public:
  engine::StepObserver observer() {
    return [this](const engine::StepTrace& step) {
      const Cpu now{cpu_ms(CLOCK_THREAD_CPUTIME_ID), cpu_ms(CLOCK_PROCESS_CPUTIME_ID)};
      const std::scoped_lock lock(mutex_);
      steps_.push_back({step, {now.thread - before_.thread, now.process - before_.process}});
      before_ = now;
    };
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    steps_.clear();
  }
  // Those that ended between the two times; times are told from the first of them.
  void print(Clock::time_point from, Clock::time_point to) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [step, cpu] : steps_)
      if (step.end >= from && step.begin <= to)
        std::fprintf(
            stderr,
            "  %8.1f .. %8.1f: %3u tokens, %7llu pairs, took %6.1f, expected %6.1f; the engine's thread "
            "ran for %6.1f, all for %6.1f%s\n",
            ms(step.begin - from), ms(step.end - from), step.work.tokens,
            static_cast<unsigned long long>(step.work.pairs), ms(step.end - step.begin), 1e3 * step.expected,
            cpu.thread, cpu.process,
            step.stopped    ? ", stopped"
            : step.may_stop ? ", might be stopped"
                            : "");
  }

 private:
  struct Cpu {  // milliseconds since the step before ended
    double thread = 0, process = 0;
  };
  struct Step {
    engine::StepTrace step;
    Cpu cpu;
  };
  static double cpu_ms(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
  }

  std::mutex mutex_;
  Cpu before_;  // since the process, or its thread, began
  std::vector<Step> steps_;
};

struct Figures {
  Quantiles solo, beside, tpot_alone, tpot_beside;  // ms
  double long_alone_s = 0;                          // medians; 0: none
};

// Short requests alone and beside a long prompt, by turns, because a shared machine's speed drifts. The long
// one is taken away meanwhile; when it comes again, what was computed of it is there, and it goes on.
void measure_short(Client& client, Recorder& recorder, const Options& options, Figures& f) {
  const Clock::time_point end = in_seconds(options.seconds);
  std::vector<double> solo, beside;
  std::vector<Token> long_prompt;
  while (Clock::now() < end) {
    solo.push_back(client.ttft(options.brief));
    f.solo = quantiles(solo);
    if (long_prompt.empty()) long_prompt = client.prompt(options.lengthy);
    Running long_one = client.start(long_prompt);
    client.pause(f.solo.p50, options.longest_pause);
    recorder.forget();
    const Running brief = client.start(client.prompt(options.brief));
    const Timings timings = brief.waiter->wait_timings();
    if (long_one.waiter->over()) {  // perhaps before the short one came
      long_prompt.clear();
      continue;
    }
    beside.push_back(ttft_ms(timings));
    long_one.ticket.cancel();
    client.wait_idle();
    if (options.trace == 0 || beside.back() < options.trace * f.solo.p50) continue;
    std::fprintf(stderr, "first token after %.1f ms, alone %.1f: first step after %.1f\n", beside.back(),
                 f.solo.p50, static_cast<double>(timings.queue_us) / 1e3);
    recorder.print(brief.start,
                   brief.start + std::chrono::microseconds(timings.queue_us + timings.prefill_us));
  }
  f.beside = quantiles(beside);
}

// A stream alone, and beside one long prompt.
void measure_stream(Client& client, Recorder& recorder, const Options& options, Figures& f) {
  const Running stream = client.start(client.prompt(kStreamPrompt), options.lengthy);
  stream.waiter->wait_tokens(1);
  const auto begin = Clock::now();
  stream.waiter->wait_tokens(33);
  const auto middle = Clock::now();
  recorder.forget();
  const Running long_one = client.start(client.prompt(options.lengthy));
  long_one.waiter->wait_end(in_seconds(options.stream_seconds));
  const std::vector<Gap> alone = stream.waiter->gaps(begin, middle);
  const std::vector<Gap> beside = stream.waiter->gaps(middle, Clock::now());
  const auto times = [](const std::vector<Gap>& gaps) {
    std::vector<double> values;
    for (const Gap& gap : gaps) values.push_back(ms(gap.to - gap.from));
    return quantiles(values);
  };
  f.tpot_alone = times(alone);
  f.tpot_beside = times(beside);
  for (const Gap& gap : beside) {
    const double time = ms(gap.to - gap.from);
    if (options.trace == 0 || time < options.trace * f.tpot_beside.p50) continue;
    std::fprintf(stderr, "between two tokens %.1f ms, mostly %.1f\n", time, f.tpot_beside.p50);
    recorder.print(gap.from, gap.to);
  }
}

Figures measure(Backend& backend, Recorder& recorder, const Options& options) {
  Client client(backend);
  Figures f;
  client.ttft(std::min(options.lengthy, kWarmUp));
  std::vector<double> lengths;
  for (std::uint32_t i = 0; i < options.long_alone; ++i)
    lengths.push_back(client.ttft(options.lengthy) / 1e3);
  if (!lengths.empty()) f.long_alone_s = quantiles(lengths).p50;
  if (options.seconds > 0) measure_short(client, recorder, options, f);
  if (options.stream_seconds > 0) measure_stream(client, recorder, options, f);
  return f;
}

void print(const Figures& f, const Options& options) {
  if (options.as_json) {
    json out{{"backend", options.engine.backend},
             {"short_tokens", options.brief},
             {"long_tokens", options.lengthy},
             {"long_alone_s", f.long_alone_s}};
    if (options.seconds > 0)
      out.update({{"ttft_solo_ms", f.solo.to_json()},
                  {"ttft_beside_ms", f.beside.to_json()},
                  {"ttft_p99_ratio", f.beside.p99 / f.solo.p99},
                  {"ttft_p99_over_solo_p50", f.beside.p99 / f.solo.p50}});
    if (options.stream_seconds > 0)
      out.update({{"tpot_alone_ms", f.tpot_alone.to_json()}, {"tpot_beside_ms", f.tpot_beside.to_json()}});
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  const auto row = [](const char* what, const Quantiles& q) {
    std::printf("%-46s p50 %8.1f ms   p90 %8.1f ms   p99 %8.1f ms   most %8.1f ms   (%zu)\n", what, q.p50,
                q.p90, q.p99, q.most, q.samples);
  };
  if (options.seconds > 0) {
    row("first token of a short request, alone", f.solo);
    row("first token of a short request, beside", f.beside);
    std::printf("%-46s %.2f of p99 alone, %.2f of p50 alone\n", "  its p99", f.beside.p99 / f.solo.p99,
                f.beside.p99 / f.solo.p50);
  }
  if (options.stream_seconds > 0) {
    row("between two tokens of a stream, alone", f.tpot_alone);
    row("between two tokens of a stream, beside", f.tpot_beside);
  }
  if (f.long_alone_s > 0)
    std::printf("%-46s     %8.2f s\n", "first token of the long request, alone", f.long_alone_s);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.engine.model_id = "bench";
  options.engine.max_sequences = 4;
  CLI::App app("Time to first token of a short request beside a long prompt", "ttft_bench");
  app.add_option("model", options.engine.path, "GGUF file; flyball make-model writes one")->required();
  app.add_option("--backend", options.engine.backend, "cpu, vulkan or opencl")->capture_default_str();
  app.add_option("--device", options.engine.opencl[0].name,
                 "opencl: part of the device's or its driver's name");
  app.add_option("--threads", options.engine.threads, "cpu: threads; 0 is one per core");
  app.add_option("--slots", options.engine.max_sequences, "sequences at once")->capture_default_str();
  app.add_option("--step-tokens", options.engine.step_tokens, "most tokens of a step")->capture_default_str();
  app.add_option("--short", options.brief, "tokens of the short prompts")->capture_default_str();
  app.add_option("--long", options.lengthy, "tokens of the long prompts")->capture_default_str();
  app.add_option("--long-alone", options.long_alone, "how many long prompts are computed alone")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds,
                 "how long short requests are sent, alone and beside; 0: none are")
      ->capture_default_str();
  app.add_option("--stream-seconds", options.stream_seconds,
                 "how long a stream is watched beside a long prompt; 0: none is")
      ->capture_default_str();
  app.add_option("--pause", options.longest_pause,
                 "longest time between short requests, in times of one alone; the shortest is 0.5")
      ->check(CLI::Range(1.0, 1000.0))
      ->capture_default_str();
  app.add_option("--trace", options.trace,
                 "print the engine's steps while a first token took so many times what is usual alone, or a "
                 "stream's token so many times what is usual beside; 0: nothing")
      ->capture_default_str();
  app.add_flag("--json", options.as_json, "one JSON object");
  CLI11_PARSE(app, argc, argv);
  options.engine.context = options.lengthy + kStreamPrompt + 16;
  Recorder recorder;  // outlives the engine's thread
  if (options.trace > 0) options.engine.observer = recorder.observer();
  const auto backend = bench::expect(local::make_local_backend(options.engine));
  print(measure(*backend, recorder, options), options);
  return 0;
}
