// `flyball profile`: where a prefill and a decode step of a model spend their time, by kind of kernel, on any
// of the engines. GPUs' kernels are timed by the device's own clock, the CPU's by the wall clock.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "backends/decode/sampler.hpp"
#include "backends/graph/kernel_times.hpp"
#include "backends/local/local_executor.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

using nlohmann::ordered_json;
using std::chrono::steady_clock;

struct ProfileOptions {
  local::LocalBackendOptions engine;
  std::string path;
  std::uint32_t prompt_tokens = 512, streams = 1, steps = 16;
  bool json = false;
};

// Of one kind of step.
struct Profile {
  std::string name;
  std::uint32_t steps = 0;
  double wall = 0;  // seconds, all steps
  graph::KernelTimes times;
};

double since(steady_clock::time_point began) {
  return std::chrono::duration<double>(steady_clock::now() - began).count();
}

// Drives the executor as the scheduler does, and chooses tokens as a greedy request does.
class Steps {
 public:
  Steps(local::LocalExecutor& local, graph::KernelTimes& times)
      : local_(local), times_(times), sampler_(greedy(), local.model->config().vocab_size) {
    if (local.executor->max_candidates() > 0) candidates_ = sampler_.candidates();
  }

  // One step of sequences that go on at `position` by `n` tokens each.
  Result<void> run(std::uint32_t sequences, std::uint32_t position, std::uint32_t n, bool wanted) {
    const std::uint32_t blocks = local_.kv_blocks / std::max(1U, sequences);
    tables_.resize(sequences);
    std::vector<device::StepSequence> batch;
    std::vector<Token> tokens(std::size_t{sequences} * n);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<Token>((position + i * 7919) % local_.model->config().vocab_size);
    for (std::uint32_t s = 0; s < sequences; ++s) {
      const std::uint32_t used = (position + n + local_.layout.block_size - 1) / local_.layout.block_size;
      tables_[s].resize(used);
      for (std::uint32_t b = 0; b < used; ++b) tables_[s][b] = s * blocks + b;
      batch.push_back({s * n, n, position, tables_[s], wanted, candidates_, false});
    }
    const auto step = local_.executor->submit({tokens, batch, 0, nullptr}, {});
    if (!step) return pass(step);
    const auto output = local_.executor->wait(*step);
    if (!output) return pass(output);
    if (wanted) choose(*output, sequences);
    return {};
  }

 private:
  static SamplingParams greedy() {
    SamplingParams params;
    params.temperature = 0;
    return params;
  }
  void choose(const device::StepOutput& output, std::uint32_t rows) {
    const auto began = steady_clock::now();
    const std::size_t vocab = local_.model->config().vocab_size;
    for (std::uint32_t i = 0; i < rows; ++i)
      (void)(candidates_ > 0 ? sampler_.sample(output.candidates[i], scratch_)
                             : sampler_.sample(output.logits.subspan(i * vocab, vocab), scratch_));
    times_.add("sample", since(began));
  }

  local::LocalExecutor& local_;
  graph::KernelTimes& times_;
  decode::Sampler sampler_;
  decode::SamplerScratch scratch_;
  std::uint32_t candidates_ = 0;
  std::vector<std::vector<device::BlockId>> tables_;
};

Result<Profile> prefill(Steps& steps, const ProfileOptions& o, std::uint32_t step_tokens,
                        graph::KernelTimes& times) {
  Profile profile;
  profile.name = "prefill of " + std::to_string(o.prompt_tokens) + " tokens";
  for (int round = 0; round < 2; ++round) {  // the first one warms up
    times.clear();
    profile.steps = 0;
    const auto began = steady_clock::now();
    for (std::uint32_t at = 0; at < o.prompt_tokens; at += step_tokens, ++profile.steps) {
      const std::uint32_t n = std::min(step_tokens, o.prompt_tokens - at);
      if (auto ok = steps.run(1, at, n, at + n == o.prompt_tokens); !ok) return pass(ok);
    }
    profile.wall = since(began);
  }
  profile.times = times;
  return profile;
}

Result<Profile> decode(Steps& steps, const ProfileOptions& o, graph::KernelTimes& times) {
  Profile profile;
  profile.name = "decode of " + std::to_string(o.streams) + (o.streams == 1 ? " stream" : " streams") +
                 " after " + std::to_string(o.prompt_tokens) + " tokens";
  if (auto ok = steps.run(o.streams, o.prompt_tokens, 1, true); !ok) return pass(ok);
  times.clear();
  const auto began = steady_clock::now();
  for (; profile.steps < o.steps; ++profile.steps)
    if (auto ok = steps.run(o.streams, o.prompt_tokens + 1 + profile.steps, 1, true); !ok) return pass(ok);
  profile.wall = since(began);
  profile.times = times;
  return profile;
}

void print(const Profile& p) {
  const double per_step = 1000.0 / p.steps;
  const auto line = [&](std::string_view name, double seconds, double launches) {
    std::printf("  %-16.*s %10.3f ms %6.1f %%", static_cast<int>(name.size()), name.data(),
                seconds * per_step, 100 * seconds / p.wall);
    if (launches >= 0) std::printf(" %8.1f launches", launches / p.steps);
    std::printf("\n");
  };
  std::printf("\n%s: %u step%s, %.3f ms each\n", p.name.c_str(), p.steps, p.steps == 1 ? "" : "s",
              p.wall * per_step);
  const auto kinds = p.times.by_kind();
  for (std::size_t i = 0; i < kinds.size(); ++i)
    line(to_string(static_cast<graph::KernelKind>(i)), kinds[i].seconds,
         static_cast<double>(kinds[i].launches));
  line("host, waiting", std::max(0.0, p.wall - p.times.seconds()), -1);
}

ordered_json json_of(const Profile& p) {
  ordered_json kinds = ordered_json::object(), kernels = ordered_json::object();
  const auto of = [&](const graph::KernelTime& t) {
    return ordered_json{{"ms_per_step", 1000 * t.seconds / p.steps},
                        {"share", t.seconds / p.wall},
                        {"launches_per_step", static_cast<double>(t.launches) / p.steps}};
  };
  const auto by_kind = p.times.by_kind();
  for (std::size_t i = 0; i < by_kind.size(); ++i)
    kinds[std::string(to_string(static_cast<graph::KernelKind>(i)))] = of(by_kind[i]);
  for (const auto& [name, time] : p.times.kernels()) kernels[name] = of(time);
  return {{"step", p.name},
          {"steps", p.steps},
          {"ms_per_step", 1000 * p.wall / p.steps},
          {"host_ms_per_step", 1000 * std::max(0.0, p.wall - p.times.seconds()) / p.steps},
          {"kinds", kinds},
          {"kernels", kernels}};
}

int profile(ProfileOptions& o) {
  graph::KernelTimes times;  // outlives the executor
  o.engine.path = o.path;
  o.engine.max_sequences = o.streams;
  o.engine.context = o.prompt_tokens + o.steps + 2;
  o.engine.cache_dir = settings::default_cache_dir();
  o.engine.kernel_times = &times;
  o.engine.warn = [](const std::string& warning) { std::fprintf(stderr, "flyball: %s\n", warning.c_str()); };
  settle_threads(o.engine);
  auto model = local::open_local_model(o.engine);
  if (!model) return report(model.error());
  auto local = local::open_local_executor(o.engine, std::move(*model));
  if (!local) return report(local.error());
  const std::uint64_t needed = o.streams * graph::kv_blocks(local->layout, o.engine.context);
  if (local->kv_blocks < needed)
    return report({ErrorCode::insufficient_memory,
                   "The KV of " + std::to_string(o.streams) + " streams of " +
                       std::to_string(o.engine.context) + " tokens takes " + std::to_string(needed) +
                       " blocks, and there is memory for " + std::to_string(local->kv_blocks) + ".",
                   "streams",
                   {}});
  Steps steps(*local, times);
  const auto first = prefill(steps, o, local->step_tokens, times);
  if (!first) return report(first.error());
  const auto then = decode(steps, o, times);
  if (!then) return report(then.error());
  if (o.json) {
    std::vector<std::string> devices;
    for (const DeviceShare& share : local->executor->shares()) devices.push_back(share.device);
    const ordered_json out{{"model", local->model->config().name},
                           {"quantization", local->model->main_quantization()},
                           {"backend", o.engine.backend},
                           {"devices", devices},
                           {"profiles", {json_of(*first), json_of(*then)}}};
    std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
    return kOk;
  }
  std::string on = "this processor";
  for (const DeviceShare& share : local->executor->shares())
    on = (on == "this processor" ? "" : on + " + ") + share.device;
  std::printf("%s %s by %s on %s\n", local->model->config().name.c_str(),
              std::string(local->model->main_quantization()).c_str(), o.engine.backend.c_str(), on.c_str());
  print(*first);
  print(*then);
  return kOk;
}

}  // namespace

void add_profile_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<ProfileOptions>();
  CLI::App* c =
      app.add_subcommand("profile", "Where prefill and decode steps spend their time, by kind of kernel");
  c->add_option("model,-m,--model", o->path, "GGUF file or MLX directory; absent: the embedded demo model");
  add_backend_option(*c, o->engine);
  add_device_option(*c, o->engine);
  add_threads_option(*c, o->engine);
  c->add_option("-p,--prompt-tokens", o->prompt_tokens, "Prefilled, and there when decoding begins")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  c->add_option("-s,--streams", o->streams, "That decode at once")
      ->check(whole_number(1, 256))
      ->capture_default_str();
  c->add_option("-n,--steps", o->steps, "Decode steps, of which the mean is shown")
      ->check(whole_number(1, 10000))
      ->capture_default_str();
  add_kv_option(*c, o->engine);
  c->add_flag("--json", o->json, "As JSON, with every kernel");
  c->footer(
      "Examples:\n"
      "  flyball profile tiny.gguf\n"
      "  flyball profile tiny.gguf --backend vulkan --streams 8 --json");
  c->callback([o, &exit_code] { exit_code = profile(*o); });
}

}  // namespace flyball::cli
