// `flyball bench`: how fast one model prefills and decodes on one backend, at given threads and streams.
// Prompts are random tokens, new for each repetition, so that no cached prefix flatters the figures.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "daemon/cli/commands.hpp"
#include "daemon/cli/config_files.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/terminal.hpp"

namespace flyball::cli {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr std::uint32_t kDecodePromptTokens = 16;  // short: decode is measured, not its prefill

struct BenchOptions {
  engine::LocalBackendOptions engine;
  std::string path;
  std::uint32_t prompt_tokens = 512, generate = 128, streams = 1, repeat = 3;
  bool json = false;
};

struct Round {
  double prefill = 0, decode = 0, ttft_ms = 0;  // tokens per second over all streams; of the slowest stream
};

struct Outcome {
  std::vector<Done> done;
  double wall_s = 0;
};

// `streams` requests at once, until all are done.
Result<Outcome> run_streams(Backend& backend, const BenchOptions& o, std::uint32_t n_prompt,
                            std::uint32_t n_generate, std::mt19937& random) {
  struct Stream {
    std::shared_ptr<EventQueue> queue = std::make_shared<EventQueue>();
    Ticket ticket;
  };
  std::uniform_int_distribution<Token> token(0, static_cast<Token>(backend.info().vocab_size) - 1);
  std::vector<CompletionRequest> requests(o.streams);
  for (std::uint32_t i = 0; i < o.streams; ++i) {
    TokenPrompt prompt;
    for (std::uint32_t k = 0; k < n_prompt; ++k) prompt.tokens.push_back(token(random));
    requests[i].id = "bench-" + std::to_string(i);
    requests[i].prompt = std::move(prompt);
    requests[i].sampling.temperature = 0.0F;
    requests[i].max_tokens = n_generate;
    requests[i].ignore_eos = true;
  }
  std::vector<Stream> streams(o.streams);
  const auto began = steady_clock::now();
  for (std::uint32_t i = 0; i < o.streams; ++i) {
    auto ticket = backend.start(std::move(requests[i]), streams[i].queue);
    if (!ticket) return std::unexpected(std::move(ticket.error()));
    streams[i].ticket = std::move(*ticket);
  }
  Outcome outcome;
  for (Stream& s : streams) {
    while (true) {
      auto event = s.queue->next(s.ticket, std::chrono::milliseconds(1000));
      if (!event) continue;
      if (auto* error = std::get_if<Error>(&*event)) return std::unexpected(std::move(*error));
      if (auto* done = std::get_if<Done>(&*event)) {
        outcome.done.push_back(std::move(*done));
        break;
      }
    }
  }
  outcome.wall_s = std::chrono::duration<double>(steady_clock::now() - began).count();
  return outcome;
}

Result<Round> measure(Backend& backend, const BenchOptions& o, std::mt19937& random) {
  Round round;
  auto prefill = run_streams(backend, o, o.prompt_tokens, 1, random);
  if (!prefill) return std::unexpected(std::move(prefill.error()));
  std::uint64_t prompt_tokens = 0;
  for (const Done& d : prefill->done) {
    prompt_tokens += d.usage.prompt_tokens - d.usage.cached_tokens;
    round.ttft_ms =
        std::max(round.ttft_ms, static_cast<double>(d.timings.queue_us + d.timings.prefill_us) / 1000.0);
  }
  round.prefill = static_cast<double>(prompt_tokens) / prefill->wall_s;
  auto decode = run_streams(backend, o, std::min(kDecodePromptTokens, o.prompt_tokens), o.generate, random);
  if (!decode) return std::unexpected(std::move(decode.error()));
  // From the first token of each stream to its last; streams overlap, so the slowest one's time counts.
  std::uint64_t tokens = 0;
  std::uint64_t slowest_us = 1;
  for (const Done& d : decode->done) {
    tokens += d.usage.completion_tokens - std::min(1U, d.usage.completion_tokens);
    slowest_us = std::max(slowest_us, d.timings.decode_us);
  }
  round.decode = static_cast<double>(tokens) * 1e6 / static_cast<double>(slowest_us);
  return round;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int bench(BenchOptions& o) {
  o.engine.path = o.path;
  o.engine.model_id = o.path.empty() ? "demo" : o.path;
  o.engine.max_sequences = std::max(1U, o.streams);
  if (o.engine.context == 0)
    o.engine.context = std::max(o.prompt_tokens + 1, kDecodePromptTokens + o.generate) + 16;
  o.engine.cache_dir = default_cache_dir();
  settle_threads(o.engine);
  auto backend = load_with_progress(o.engine, o.json);
  if (!backend) return report(backend.error());
  const BackendInfo& info = (*backend)->info();
  const std::uint32_t needed =
      std::max(o.prompt_tokens + 1, std::min(kDecodePromptTokens, o.prompt_tokens) + o.generate);
  if (needed > info.context_length) {
    return report(Error{ErrorCode::context_length_exceeded,
                        "The bench needs " + std::to_string(needed) + " tokens of context, the model has " +
                            std::to_string(info.context_length) + ": lower --prompt-tokens or --generate.",
                        "", ""});
  }
  std::mt19937 random(1);
  BenchOptions warm = o;
  warm.generate = std::min(o.generate, 4U);
  if (auto first = measure(**backend, warm, random); !first) return report(first.error());
  std::vector<double> prefill, decode, ttft;
  for (std::uint32_t i = 0; i < o.repeat; ++i) {
    auto round = measure(**backend, o, random);
    if (!round) return report(round.error());
    prefill.push_back(round->prefill);
    decode.push_back(round->decode);
    ttft.push_back(round->ttft_ms);
    if (!o.json) {
      std::printf("round %u: prefill %.1f tok/s, decode %.2f tok/s, first token %.1f ms\n", i + 1,
                  round->prefill, round->decode, round->ttft_ms);
      std::fflush(stdout);
    }
  }
  // Streams share the read, but for experts: there it is a lower bound.
  const double weight_rate = median(decode) / o.streams * static_cast<double>(info.token_weight_bytes) / 1e9;
  if (!o.json) {
    std::printf(
        "median of %u: prefill %.1f tok/s, decode %.2f tok/s (%.2f GB/s of weights), first token %.1f ms\n",
        o.repeat, median(prefill), median(decode), weight_rate, median(ttft));
    return kOk;
  }
  json devices = json::array();
  for (const DeviceShare& share : info.devices)
    devices.push_back({{"device", share.device},
                       {"first_layer", share.first_layer},
                       {"layers", share.n_layers},
                       {"weight_bytes", share.weight_bytes},
                       {"kv_bytes", share.kv_bytes},
                       {"scratch_bytes", share.scratch_bytes},
                       {"weights", share.weights}});
  const json result{{"model", info.model_name},
                    {"path", o.path},
                    {"backend", info.backend},
                    {"devices", devices},
                    {"quantization", info.quantization},
                    {"parameters", info.parameters},
                    {"weight_bytes", info.weight_bytes},
                    {"token_weight_bytes", info.token_weight_bytes},
                    {"kv_type", info.kv_type},
                    {"kv_bytes", info.kv_bytes},
                    {"threads", o.engine.threads},
                    {"streams", o.streams},
                    {"prompt_tokens", o.prompt_tokens},
                    {"generated_tokens", o.generate},
                    {"repeat", o.repeat},
                    {"prefill_tokens_per_second", median(prefill)},
                    {"decode_tokens_per_second", median(decode)},
                    {"prefill_rounds", prefill},
                    {"decode_rounds", decode},
                    {"ttft_ms", median(ttft)},
                    {"weight_gigabytes_per_second", weight_rate}};
  std::printf("%s\n", result.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  return kOk;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* c = app.add_subcommand("bench", "Prefill and decode tokens per second of a model on a backend");
  c->add_option("model,-m,--model", o->path, "GGUF file or MLX directory; absent: the embedded demo model")
      ->check(CLI::ExistingPath);
  c->add_option("--backend", o->engine.backend, "Engine: cpu, vulkan or opencl")->capture_default_str();
  add_device_option(*c, o->engine);
  add_threads_option(*c, o->engine);
  c->add_option("-s,--streams", o->streams, "Requests at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  c->add_option("-p,--prompt-tokens", o->prompt_tokens, "Prefilled per request")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  c->add_option("-n,--generate", o->generate, "Decoded per request")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  c->add_option("-r,--repeat", o->repeat, "Rounds; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  c->add_option("--kv", o->engine.kv_type, "What the KV cache is kept as: f16, or q8_0 in half the memory")
      ->capture_default_str();
  c->add_flag("--json", o->json, "As JSON");
  c->footer(
      "Examples:\n"
      "  flyball bench tiny.gguf --threads 2\n"
      "  flyball bench tiny.gguf --streams 8 --json");
  c->callback([o, &exit_code] { exit_code = bench(*o); });
}

}  // namespace flyball::cli
