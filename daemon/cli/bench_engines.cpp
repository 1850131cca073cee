#include "daemon/cli/bench_engines.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/cli/bench_chart.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/terminal.hpp"

namespace flyball::cli {
namespace {

using nlohmann::ordered_json;

struct Row {
  BenchResult result;
  BenchFigures figures;
};
struct Engine {
  std::string name, device;
  std::optional<Error> refused;
  std::vector<Row> rows;
};

std::string device_of(const BackendInfo& info, std::uint32_t threads) {
  if (info.devices.empty())
    return "this processor, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  std::string all;
  for (const DeviceShare& share : info.devices) all += (all.empty() ? "" : " + ") + share.device;
  return all;
}

// The model's own facts are the same by every engine; the last one that started tells them.
Result<void> run(EnginesBench& o, Engine& engine, BackendInfo& model) {
  o.engine.backend = engine.name;
  settle_threads(o.engine);
  auto backend = load_with_progress(o.engine, o.json);
  if (!backend) return pass(backend);
  model = (*backend)->info();
  engine.device = device_of(model, o.engine.threads);
  if (!o.json) std::printf("%s on %s\n", engine.name.c_str(), engine.device.c_str());
  for (const std::uint32_t streams : o.streams) {
    auto figures = bench_rounds(**backend, {o.prompt_tokens, o.generate, streams}, o.repeat);
    if (!figures) return pass(figures);
    const BenchRound& m = figures->median;
    if (!o.json) {
      std::printf("  %3u stream%s prefill %8.1f tok/s, decode %8.1f tok/s, first token %8.1f ms\n", streams,
                  streams == 1 ? ": " : "s:", m.prefill, m.decode, m.ttft_ms);
      std::fflush(stdout);
    }
    engine.rows.push_back({{engine.name, streams, m.prefill, m.decode}, std::move(*figures)});
  }
  return {};
}

void print_json(const EnginesBench& o, const std::vector<Engine>& engines, const BackendInfo& model) {
  ordered_json out{{"model", model.model_name},       {"quantization", model.quantization},
                   {"parameters", model.parameters},  {"token_weight_bytes", model.token_weight_bytes},
                   {"kv_type", model.kv_type},        {"prompt_tokens", o.prompt_tokens},
                   {"generated_tokens", o.generate},  {"repeat", o.repeat},
                   {"engines", ordered_json::array()}};
  for (const Engine& engine : engines) {
    ordered_json one{{"backend", engine.name}, {"device", engine.device}};
    if (engine.refused)
      one["error"] = {{"code", to_string(engine.refused->code)}, {"message", engine.refused->message}};
    one["results"] = ordered_json::array();
    for (const Row& row : engine.rows)
      one["results"].push_back({{"streams", row.result.streams},
                                {"prefill_tokens_per_second", row.figures.median.prefill},
                                {"decode_tokens_per_second", row.figures.median.decode},
                                {"ttft_ms", row.figures.median.ttft_ms},
                                {"weight_gigabytes_per_second", row.figures.weight_rate}});
    out["engines"].push_back(std::move(one));
  }
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

// Bars as wide as the longest of the same figure at the same number of streams.
void print_bars(const std::vector<BenchResult>& results) {
  constexpr int kLongest = 40;
  const auto draw = [&](const char* name, double BenchResult::*figure) {
    double longest = 0;
    for (const BenchResult& r : results) longest = std::max(longest, r.*figure);
    std::printf("\n%s, tokens per second\n", name);
    for (const BenchResult& r : results) {
      const int n = longest > 0 ? static_cast<int>(kLongest * (r.*figure) / longest + 0.5) : 0;
      std::printf("  %3u %-7s %-*s %.1f\n", r.streams, r.engine.c_str(), kLongest,
                  std::string(n, '#').c_str(), r.*figure);
    }
  };
  draw("decode", &BenchResult::decode);
  draw("prefill", &BenchResult::prefill);
}

Result<void> write_svg(const EnginesBench& o, const std::vector<Engine>& engines, const BackendInfo& model,
                       const std::vector<BenchResult>& results) {
  std::vector<std::string> devices;
  for (const Engine& e : engines)
    if (!e.rows.empty()) devices.push_back(e.name + ": " + e.device);
  errno = 0;
  std::ofstream file(o.svg);
  file << bench_svg(
      model.model_name + " " + model.quantization + ", " + short_count(model.parameters) + " parameters",
      devices, results);
  if (file.close(); !file)
    return fail(ErrorCode::io_error,
                "The chart cannot be written to " + o.svg.string() + ": " +
                    std::generic_category().message(errno) +
                    ": name a file in a directory that you may write to.",
                "svg");
  return {};
}

}  // namespace

int bench_engines(EnginesBench o) {
  BenchLoad longest{o.prompt_tokens, o.generate, 1};
  if (o.engine.context == 0) o.engine.context = bench_context(longest) + 16;
  o.engine.max_sequences = *std::ranges::max_element(o.streams);
  o.engine.vulkan.allow_processor = true;
  for (opencl::DeviceOptions& device : o.engine.opencl) device.allow_processor = true;
  const std::uint32_t threads = o.engine.threads;
  std::vector<Engine> engines;
  BackendInfo model;
  for (const std::string& name : o.backends) {
    Engine& engine = engines.emplace_back(Engine{name, {}, {}, {}});
    o.engine.threads = threads;
    if (auto ok = run(o, engine, model); !ok) {
      report(ok.error());
      engine.refused = std::move(ok.error());
    }
  }
  std::vector<BenchResult> results;
  for (const std::uint32_t streams : o.streams)
    for (const Engine& engine : engines)
      for (const Row& row : engine.rows)
        if (row.result.streams == streams) results.push_back(row.result);
  if (results.empty()) return exit_code_for(*engines.front().refused);
  if (o.json)
    print_json(o, engines, model);
  else
    print_bars(results);
  if (!o.svg.empty())
    if (auto ok = write_svg(o, engines, model, results); !ok) return report(ok.error());
  return kOk;
}

}  // namespace flyball::cli
