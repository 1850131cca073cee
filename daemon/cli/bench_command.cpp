// `flyball bench`: how fast one model prefills and decodes on one backend, at given threads and streams.
// With --backends on several, one after the other.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "daemon/cli/bench_engines.hpp"
#include "daemon/cli/bench_runs.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

using nlohmann::json;
struct BenchOptions {
  local::LocalBackendOptions engine;
  std::string path;
  BenchLoad load;
  std::vector<std::uint32_t> streams;  // --backends: 1, 8 and 32 unless given; else one number
  std::vector<std::string> backends;   // of --backends
  std::string svg;
  std::uint32_t repeat = 3;
  bool json = false;
};

int compare(const BenchOptions& o) {
  EnginesBench all{o.engine,        o.backends, o.streams, o.load.prompt_tokens,
                   o.load.generate, o.repeat,   o.svg,     o.json};
  if (std::ranges::find(all.backends, kAllEngines) != all.backends.end()) all.backends = config::engine_ids();
  if (all.streams.empty()) all.streams = {1, 8, 32};
  return bench_engines(std::move(all));
}

int bench(BenchOptions& o) {
  o.engine.path = o.path;
  o.engine.model_id = o.path.empty() ? "demo" : o.path;
  o.engine.cache_dir = settings::default_cache_dir();
  if (!o.backends.empty()) return compare(o);
  o.load.streams = o.streams.empty() ? 1 : o.streams.front();
  o.engine.max_sequences = o.load.streams;
  if (o.engine.context == 0) o.engine.context = bench_context(o.load) + 16;
  settle_threads(o.engine);
  auto backend = load_with_progress(o.engine, o.json);
  if (!backend) return report(backend.error());
  const BackendInfo& info = (*backend)->info();
  std::uint32_t n = 0;
  const auto figures = bench_rounds(**backend, o.load, o.repeat, [&](const BenchRound& round) {
    if (o.json) return;
    std::printf("round %u: prefill %.1f tok/s, decode %.2f tok/s, first token %.1f ms\n", ++n, round.prefill,
                round.decode, round.ttft_ms);
    std::fflush(stdout);
  });
  if (!figures) return report(figures.error());
  const auto& [rounds, median, weight_rate] = *figures;
  if (!o.json) {
    std::printf(
        "median of %u: prefill %.1f tok/s, decode %.2f tok/s (%.2f GB/s of weights), first token %.1f ms\n",
        o.repeat, median.prefill, median.decode, weight_rate, median.ttft_ms);
    return kOk;
  }
  json prefill = json::array(), decode = json::array();
  for (const BenchRound& round : rounds) {
    prefill.push_back(round.prefill);
    decode.push_back(round.decode);
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
                    {"streams", o.load.streams},
                    {"prompt_tokens", o.load.prompt_tokens},
                    {"generated_tokens", o.load.generate},
                    {"repeat", o.repeat},
                    {"prefill_tokens_per_second", median.prefill},
                    {"decode_tokens_per_second", median.decode},
                    {"prefill_rounds", prefill},
                    {"decode_rounds", decode},
                    {"ttft_ms", median.ttft_ms},
                    {"weight_gigabytes_per_second", weight_rate}};
  std::printf("%s\n", result.dump(2, ' ', false, json::error_handler_t::replace).c_str());
  return kOk;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<BenchOptions>();
  CLI::App* c = app.add_subcommand("bench", "Prefill and decode tokens per second of a model on a backend");
  c->add_option("model,-m,--model", o->path, "GGUF file or MLX directory; absent: the embedded demo model");
  add_backend_option(*c, o->engine);
  add_device_option(*c, o->engine);
  add_threads_option(*c, o->engine);
  CLI::Option* streams = c->add_option("-s,--streams", o->streams,
                                       "Requests at once (1); with --backends several numbers (1,8,32)")
                             ->check(whole_number(1, 256))
                             ->delimiter(',')
                             ->expected(1, 16)
                             ->allow_extra_args(false);
  CLI::Option* backends =
      c->add_option(
           "--backends", o->backends,
           "These engines one after the other on the same hardware: names with commas, or all. Software "
           "devices only where there is no GPU")
          ->check(engine_or_all())
          ->delimiter(',')
          ->allow_extra_args(false);
  c->add_option("--svg", o->svg, "Draw what --backends measures to this file, bars to scale")
      ->needs(backends);
  c->add_option("-p,--prompt-tokens", o->load.prompt_tokens, "Prefilled per request")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  c->add_option("-n,--generate", o->load.generate, "Decoded per request")
      ->check(whole_number(2, 1 << 20))
      ->capture_default_str();
  c->add_option("-r,--repeat", o->repeat, "Rounds; the median counts")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  add_kv_option(*c, o->engine);
  c->add_flag("--json", o->json, "As JSON");
  c->footer(
      "Examples:\n"
      "  flyball bench tiny.gguf --threads 2\n"
      "  flyball bench tiny.gguf --streams 8 --json\n"
      "  flyball bench tiny.gguf --backends all --svg engines.svg");
  c->callback([o, streams, backends, &exit_code] {
    if (backends->count() == 0 && o->streams.size() > 1)
      throw CLI::ValidationError(streams->get_name(), "several numbers go with --backends");
    exit_code = bench(*o);
  });
}

}  // namespace flyball::cli
