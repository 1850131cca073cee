// `flyball measure`: one model on one engine of this machine, or what the engine's devices can do, measured
// in this process and printed as JSON. calibrate::measure_in_child starts it and reads it.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "daemon/cli/bench_runs.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/device_ceilings.hpp"
#include "daemon/cli/engine_options.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/measure/figures.hpp"
#include "daemon/measure/power.hpp"
#include "daemon/measure/subject.hpp"

namespace flyball::cli {
namespace {

using measure::Figure;
using measure::Kind;
using Json = nlohmann::json;

struct Effort {
  std::vector<std::uint32_t> prompts, streams;
  std::uint32_t generate, repeat;
};
const Effort kThorough{{128, 512, 2048}, {1, 8, 32}, 64, 3};
const Effort kQuick{{128, 512}, {1, 8}, 16, 1};

std::string dump(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json error_json(const Error& error) {
  return {{"error", {{"code", to_string(error.code)}, {"message", error.message}, {"where", error.where}}}};
}

void say(const Json& line) {
  std::printf("%s\n", dump(line).c_str());
  std::fflush(stdout);
}

// Before anything of the model is loaded. Who does not get it is killed, or reads the end.
std::uint64_t ask_for_memory(const MemoryNeed& need) {
  say({{"needs",
        {{"weight_bytes", need.weight_bytes},
         {"scratch_bytes", need.scratch_bytes},
         {"kv_bytes", need.kv_bytes},
         {"least_kv_bytes", need.least_kv_bytes}}}});
  std::string answer;
  std::getline(std::cin, answer);
  const Json said = Json::parse(answer, nullptr, false);
  if (!said.is_object() || !said.value("kv_bytes", Json()).is_number_unsigned()) _exit(kOk);
  return said["kv_bytes"].get<std::uint64_t>();
}

Result<std::vector<Figure>> measure_ceilings_of(const local::LocalBackendOptions& options) {
  const auto ceilings = measure_ceilings(options);
  if (!ceilings) return pass(ceilings);
  return std::vector<Figure>{{Kind::read_gbps, 0, ceilings->read_gbps, ceilings->measured_at},
                             {Kind::float_gops, 0, ceilings->float_gops, ceilings->measured_at}};
}

Result<std::vector<Figure>> measure_model(const local::LocalBackendOptions& options, const Effort& effort,
                                          bool tell) {
  const auto began = std::chrono::steady_clock::now();
  auto backend = load_with_progress(options, true);
  if (!backend) return pass(backend);
  const std::chrono::duration<double, std::milli> loaded = std::chrono::steady_clock::now() - began;
  const BackendInfo& info = (*backend)->info();
  if (tell) say({{"holds", info.weight_bytes + info.kv_bytes + info.scratch_bytes}});
  std::vector<Figure> figures;
  const auto add = [&](Kind kind, std::uint32_t at, double value) {
    figures.push_back({kind, at, value, 0});
  };
  add(Kind::load_ms, 0, loaded.count());
  add(Kind::weight_bytes, 0, static_cast<double>(info.weight_bytes));
  add(Kind::kv_bytes, 0, static_cast<double>(info.kv_bytes));
  add(Kind::scratch_bytes, 0, static_cast<double>(info.scratch_bytes));
  // A short context is measured by as long a prompt as it takes.
  std::vector<std::uint32_t> prompts;
  for (const std::uint32_t tokens : effort.prompts)
    if (const std::uint32_t n = std::min(tokens, info.context_length - std::min(info.context_length, 4U));
        n > 0 && std::ranges::find(prompts, n) == prompts.end())
      prompts.push_back(n);
  for (const std::uint32_t tokens : prompts) {
    const auto got = bench_rounds(**backend, {tokens, 2, 1}, effort.repeat);
    if (!got) return pass(got);
    add(Kind::prefill_tps, tokens, got->median.prefill);
    add(Kind::ttft_ms, tokens, got->median.ttft_ms);
  }
  const std::uint32_t generate = std::clamp(info.context_length / 2, 2U, effort.generate);
  std::optional<double> watts;
  for (const std::uint32_t streams : effort.streams) {
    if (streams > info.max_sequences) continue;
    const auto energy = measure::read_energy();
    const auto got = bench_rounds(**backend, {std::min(16U, generate), generate, streams}, effort.repeat);
    if (!got) return pass(got);
    add(Kind::decode_tps, streams, got->median.decode);
    watts = measure::watts_since(energy);
  }
  if (watts) add(Kind::watts, 0, *watts);
  return figures;
}

config::ModelEntry entry_of(const local::LocalBackendOptions& options) {
  config::ModelEntry entry;
  entry.path = options.path;
  entry.embedded = options.path.empty();
  return entry;
}

// Who asked holds the other end of its stdin: gone before a signal could tell, it does not any more.
bool nobody_asks() {
  pollfd in{STDIN_FILENO, POLLRDHUP, 0};
  return poll(&in, 1, 0) == 1 && (in.revents & POLLRDHUP) != 0;
}

struct MeasureOptions {
  EngineOptions engine;
  bool quick = false, beside_others = false;
};

Result<Json> measured(const MeasureOptions& m) {
  local::LocalBackendOptions options = settled(m.engine);
  Json out{{"digest", ""}, {"figures", Json::array()}};
  Result<std::vector<Figure>> figures;
  if (options.model_id.empty()) {
    if (options.backend == config::kCpu.id)
      return fail(ErrorCode::invalid_value, "The processor's rates are the probe's.", "backend");
    figures = measure_ceilings_of(options);
  } else {
    out["digest"] = measure::model_digest(entry_of(options));
    if (m.beside_others) options.ask_memory = ask_for_memory;
    figures = measure_model(options, m.quick ? kQuick : kThorough, m.beside_others);
  }
  if (!figures) return pass(figures);
  for (const Figure& f : *figures) out["figures"].push_back({to_string(f.kind), f.at, f.value});
  return out;
}

}  // namespace

void add_measure_command(CLI::App& app, int& exit_code) {
  auto m = std::make_shared<MeasureOptions>();
  CLI::App* c = app.add_subcommand("measure", "How calibrate runs itself: prints figures as JSON")->group("");
  add_engine_options(*c, m->engine);
  c->add_flag("--quick", m->quick, "Fewer lengths and streams, each once");
  c->add_flag("--beside-others", m->beside_others, "Asks for memory, as JSON; the answer is read from stdin");
  c->callback([m, &exit_code] {
    exit_code = kOk;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would read what it measures
    if (nobody_asks()) return;
    const auto out = measured(*m);
    say(out ? *out : error_json(out.error()));
  });
}

}  // namespace flyball::cli
