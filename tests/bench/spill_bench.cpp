// A session that returns when its engine has ended and started again: time to first token computed, and with
// its KV back from the disk, with the files in the page cache and without; and what it costs to put it there.
// Greedy answers must be equal. Random tokens; times are the engine's own, from arrival. --json prints one
// object.
#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/local/local_backend.hpp"
#include "config/descriptor.hpp"
#include "tests/bench/client.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;

constexpr std::uint32_t kAnswer = 16;  // tokens that must be equal
constexpr std::chrono::minutes kDrain{10};

bench::Turn ask(Backend& backend, const std::vector<Token>& prompt) {
  CompletionRequest request;
  request.owner = "bench";
  request.prompt = TokenPrompt{prompt};
  request.max_tokens = kAnswer;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return bench::run(backend, std::move(request));
}

void drop_from_page_cache(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const Descriptor file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || ::fsync(file.get()) != 0 || ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) != 0)
      bench::die("the page cache cannot be emptied of " + entry.path().string());
  }
}

}  // namespace

int main(int argc, char** argv) {
  local::LocalBackendOptions options;
  options.model_id = "bench";
  options.max_sequences = 1;
  std::uint32_t tokens = 8192;
  std::string directory = (std::filesystem::temp_directory_path() / "flyball_spill_bench").string();
  bool as_json = false;
  CLI::App app("Time to first token of a session that returns, computed and restored", "spill_bench");
  app.add_option("model", options.path, "GGUF file; flyball make-model writes one")->required();
  app.add_option("--backend", options.backend, "cpu, vulkan or opencl")->capture_default_str();
  app.add_option("--device", options.opencl[0].name, "opencl: part of the device's or its driver's name");
  app.add_option("--vulkan-device", options.vulkan.name, "vulkan: likewise");
  app.add_option("--threads", options.threads, "cpu: threads; 0 is one per core");
  app.add_option("--kv", options.kv_type, "f16 or q8_0")->capture_default_str();
  app.add_option("--tokens", tokens, "of the session's prompt")->capture_default_str();
  app.add_option("--directory", directory, "for the KV; emptied first")->capture_default_str();
  app.add_flag("--json", as_json, "one JSON object");
  CLI11_PARSE(app, argc, argv);

  options.context = tokens + kAnswer;
  options.spill.directory = std::filesystem::path(directory) / "kv";
  options.spill.max_bytes = 16ULL << 30U;
  options.warn = [](const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); };
  std::filesystem::remove_all(options.spill.directory);
  const auto start = [&] { return bench::expect(local::make_local_backend(options)); };

  auto backend = start();
  std::mt19937 random(1);
  std::vector<Token> prompt(tokens);
  for (Token& token : prompt) token = static_cast<Token>(random() % backend->info().vocab_size);
  const bench::Turn computed = ask(*backend, prompt);
  const double before = bench::seconds();
  backend->drain(std::chrono::steady_clock::now() + kDrain);
  const double spill_ms = 1e3 * (bench::seconds() - before);
  const std::uint64_t bytes = backend->load().spilled_bytes;
  backend.reset();

  backend = start();
  const bench::Turn restored = ask(*backend, prompt);
  backend.reset();
  drop_from_page_cache(options.spill.directory);
  backend = start();
  const bench::Turn from_disk = ask(*backend, prompt);
  backend.reset();
  std::filesystem::remove_all(options.spill.directory);

  if (restored.tokens != computed.tokens || from_disk.tokens != computed.tokens)
    bench::die("the answers differ");
  const auto share = [&](const bench::Turn& turn) { return 100 * turn.ttft_ms / computed.ttft_ms; };
  if (as_json) {
    std::printf("%s\n", nlohmann::json{{"tokens", tokens},
                                       {"kv", options.kv_type},
                                       {"backend", options.backend},
                                       {"bytes", bytes},
                                       {"spill_ms", spill_ms},
                                       {"ttft_computed_ms", computed.ttft_ms},
                                       {"ttft_restored_ms", restored.ttft_ms},
                                       {"ttft_from_disk_ms", from_disk.ttft_ms},
                                       {"cached", restored.cached}}
                            .dump(2)
                            .c_str());
    return 0;
  }
  std::printf("%u tokens, %.1f MiB of %s KV, spilled in %.0f ms\n", tokens,
              static_cast<double>(bytes) / (1U << 20U), options.kv_type.c_str(), spill_ms);
  std::printf("time to first token: computed %.0f ms\n", computed.ttft_ms);
  std::printf("  restored from the page cache %.1f ms, %.2f %% (%u tokens)\n", restored.ttft_ms,
              share(restored), restored.cached);
  std::printf("  restored from the disk       %.1f ms, %.2f %% (%u tokens)\n", from_disk.ttft_ms,
              share(from_disk), from_disk.cached);
  return 0;
}
