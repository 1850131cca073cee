// The in-process engine as a program that another drives, request by request, so that two engines can take
// turns.
//   engine_bench MODEL THREADS CONTEXT [NAME]      NAME: a part of a Vulkan device's name; without it the CPU
// First a line about itself: {"isa","weight_bytes_per_token"}. Then per line in, a line out:
//   {"probe":true}: {"bandwidth_gbps"}, measured with as many threads as asked for (one, or all)
//   {"tokens":[...],"generate":n}: {"prompt_tokens","prefill_s","tokens","decode_s"} from the engine's own
//   clock: prefill ends with the first token, decode runs from there to the last
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "backends/cpu/probe.hpp"
#include "backends/local/local_backend.hpp"
#include "backends/model/model_file.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;
using bench::die;
using nlohmann::json;

class Waiter final : public EventSink {
 public:
  bool push(Event event) noexcept override {
    if (std::holds_alternative<Delta>(event)) return true;
    const std::scoped_lock lock(mutex_);
    end_ = std::move(event);
    ended_.notify_one();
    return true;
  }
  Done wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return end_.has_value(); });
    if (const auto* error = std::get_if<Error>(&*end_)) die(error->message);
    return std::get<Done>(*end_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Event> end_;
};

std::uint64_t bytes_read_per_token(const char* path) {
  const auto file = model::ModelFile::open(path);
  if (!file) die(file.error().message);
  return (*file)->token_weight_bytes();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) die("usage: engine_bench MODEL THREADS CONTEXT [VULKAN DEVICE]");
  local::LocalBackendOptions options;
  options.model_id = "bench";
  options.path = argv[1];
  options.threads = static_cast<std::uint32_t>(std::atoi(argv[2]));
  options.context = static_cast<std::uint32_t>(std::atoi(argv[3]));
  options.max_sequences = 1;
  if (argc == 5) {
    options.backend = "vulkan";
    options.vulkan.name = argv[4];
  }
  const auto weight_bytes = bytes_read_per_token(argv[1]);
  auto backend = local::make_local_backend(options);
  if (!backend) die(backend.error().message);
  std::cout << json{{"isa", cpu::probe_cpu().isa}, {"weight_bytes_per_token", weight_bytes}} << std::endl;
  std::uint64_t n = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const auto wanted = json::parse(line);
    if (wanted.contains("probe")) {
      const auto probe = cpu::probe_cpu();
      std::cout << json{{"bandwidth_gbps", options.threads == 1 ? probe.bandwidth_1t : probe.bandwidth}}
                << std::endl;
      continue;
    }
    CompletionRequest request;
    request.id = "bench-" + std::to_string(n++);
    request.prompt = TokenPrompt{wanted["tokens"].get<std::vector<Token>>()};
    request.max_tokens = wanted["generate"].get<std::uint32_t>();
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    const auto sink = std::make_shared<Waiter>();
    auto ticket = (*backend)->start(std::move(request), sink);
    if (!ticket) die(ticket.error().message);
    const auto done = sink->wait();
    std::cout << json{{"prompt_tokens", done.usage.prompt_tokens - done.usage.cached_tokens},
                      {"prefill_s", static_cast<double>(done.timings.prefill_us) / 1e6},
                      {"tokens", done.usage.completion_tokens},
                      {"decode_s", static_cast<double>(done.timings.decode_us) / 1e6}}
              << std::endl;
  }
  return 0;
}
