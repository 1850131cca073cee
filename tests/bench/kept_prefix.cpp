// A prefix that an app keeps: time to first token of a prompt that begins with it, computed, kept beside
// other apps that fill the KV, and after a restart, before anything else was asked. Greedy answers must be
// equal. Random tokens; times are the engine's own, from arrival; medians. --json prints one object.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "backends/local/local_backend.hpp"
#include "tests/bench/client.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;

constexpr std::uint32_t kAnswer = 16;  // tokens that must be equal
constexpr std::chrono::minutes kDrain{10};

// Text of random words: prefixes are texts. Its tokens are counted by the engine.
std::string text_of(std::uint32_t seed, std::size_t words) {
  std::mt19937 random(seed);
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    for (std::uint32_t n = 1 + random() % 6; n > 0; --n) text += static_cast<char>('a' + random() % 26);
    text += ' ';
  }
  return text;
}

CompletionRequest question(const std::string& prefix, std::uint32_t seed, const std::string& owner) {
  CompletionRequest request;
  request.owner = owner;
  request.prompt = TextPrompt{prefix + text_of(seed, 7)};
  request.max_tokens = kAnswer;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

CompletionRequest keep(const std::string& prefix) {
  CompletionRequest request;
  request.owner = "app";
  request.prompt = TextPrompt{prefix};
  request.wanted = Wanted::kept_prefix;
  request.kept = "rules";
  request.settings.place = config::QueuePlace::behind;
  return request;
}

std::uint32_t tokens_of(Backend& backend, const std::string& text) {
  CompletionRequest request;
  request.prompt = TextPrompt{text};
  request.wanted = Wanted::prompt_tokens;
  const auto waiter = std::make_shared<bench::Waiter>();
  const auto ticket = bench::expect(backend.start(std::move(request), waiter));
  return waiter->wait_done().usage.prompt_tokens;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  local::LocalBackendOptions options;
  options.model_id = "bench";
  options.max_sequences = 2;
  std::uint32_t tokens = 4096;
  int repetitions = 5;
  std::string directory = (std::filesystem::temp_directory_path() / "flyball_kept_prefix").string();
  bool as_json = false;
  CLI::App app("Time to first token behind a kept prefix: computed, kept, and restored", "kept_prefix_bench");
  app.add_option("model", options.path, "GGUF file; flyball make-model writes one")->required();
  app.add_option("--backend", options.backend, "cpu, vulkan or opencl")->capture_default_str();
  app.add_option("--threads", options.threads, "cpu: threads; 0 is one per core");
  app.add_option("--tokens", tokens, "of the prefix, at least")->capture_default_str();
  app.add_option("--repetitions", repetitions, "of each")->capture_default_str();
  app.add_option("--directory", directory, "for the KV; emptied first")->capture_default_str();
  app.add_flag("--json", as_json, "one JSON object");
  CLI11_PARSE(app, argc, argv);

  options.context = 2 * tokens;
  options.spill.directory = std::filesystem::path(directory) / "kv";
  options.spill.max_bytes = 16ULL << 30U;
  options.warn = [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); };
  std::filesystem::remove_all(options.spill.directory);
  const auto start = [&] { return bench::expect(local::make_local_backend(options)); };

  auto backend = start();
  std::size_t words = tokens / 8;
  while (tokens_of(*backend, text_of(1, words)) < tokens) words += words / 16 + 1;
  const std::string prefix = text_of(1, words);
  const std::uint32_t prefix_tokens = tokens_of(*backend, prefix);

  std::vector<double> computed, kept, restored;
  std::vector<std::vector<Token>> answers;
  for (int i = 0; i < 2 * repetitions; ++i) {  // each as another app, which has no KV yet
    const auto seed = static_cast<std::uint32_t>(100 + i);
    const bench::Turn turn = bench::run(*backend, question(prefix, seed, "stranger" + std::to_string(i)));
    computed.push_back(turn.ttft_ms);
    answers.push_back(turn.tokens);
  }
  const double before = bench::seconds();
  bench::run(*backend, keep(prefix));
  const double keep_ms = 1e3 * (bench::seconds() - before);
  const auto check = [&](const bench::Turn& turn, int i) {
    if (turn.kept + 32 < prefix_tokens) bench::die("the prefix was computed again");
    if (turn.tokens != answers[static_cast<std::size_t>(i)]) bench::die("the answers differ");
  };
  for (int i = 0; i < repetitions; ++i) {
    // Another app fills all KV that is not kept.
    for (std::uint32_t n = 0; n < 4; ++n)
      bench::run(*backend,
                 question(text_of(1000 + 10 * static_cast<std::uint32_t>(i) + n, words), 1, "others"));
    const bench::Turn turn =
        bench::run(*backend, question(prefix, static_cast<std::uint32_t>(100 + i), "app"));
    check(turn, i);
    kept.push_back(turn.ttft_ms);
  }
  for (int i = 0; i < repetitions; ++i) {
    backend->drain(std::chrono::steady_clock::now() + kDrain);
    backend.reset();
    backend = start();
    // The daemon asks for the prefix when the engine is ready; the request comes at once.
    const auto keeper = std::make_shared<bench::Waiter>();
    const auto ticket = bench::expect(backend->start(keep(prefix), keeper));
    const int next = repetitions + i;  // nobody has asked it of this app
    const bench::Turn turn =
        bench::run(*backend, question(prefix, static_cast<std::uint32_t>(100 + next), "app"));
    check(turn, next);
    restored.push_back(turn.ttft_ms);
    keeper->wait_done();
  }
  backend.reset();
  std::filesystem::remove_all(options.spill.directory);

  const double cold = median(computed), warm = median(kept), back = median(restored);
  if (as_json) {
    std::printf("%s\n", nlohmann::json{{"prefix_tokens", prefix_tokens},
                                       {"backend", options.backend},
                                       {"repetitions", repetitions},
                                       {"keep_ms", keep_ms},
                                       {"ttft_computed_ms", cold},
                                       {"ttft_kept_ms", warm},
                                       {"ttft_after_restart_ms", back}}
                            .dump(2)
                            .c_str());
    return 0;
  }
  std::printf("a prefix of %u tokens, kept in %.0f ms; medians of %d\n", prefix_tokens, keep_ms, repetitions);
  std::printf("time to first token: computed        %.0f ms\n", cold);
  std::printf("  kept, beside apps that fill the KV %.1f ms, %.2f %%\n", warm, 100 * warm / cold);
  std::printf("  after a restart                    %.1f ms, %.2f %%\n", back, 100 * back / cold);
  return 0;
}
