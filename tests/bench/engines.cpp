// Whole engines against what their device can do at best, and against each other, in turns in one run: for
// each shape and format, prefill of 256 tokens and decode of some streams. What a step is held against is
// what plain kernels of the same device reach right before and right after it: a machine that others share
// changes its speed from second to second, and the best moment of a plain kernel would be held against
// seconds of a prompt. Tokens/s: the best of all turns; shares: their median. Run by tests/bench/engines;
// exit 77 where the backend asked for has no device.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "backends/cpu/cpu_device.hpp"
#include "backends/model/synthetic.hpp"
#include "backends/opencl/ceilings.hpp"
#include "backends/opencl/opencl_device.hpp"
#include "backends/vulkan/ceilings.hpp"
#include "backends/vulkan/vulkan_device.hpp"
#include "tests/bench/cpu_ceilings.hpp"
#include "tests/bench/engine_steps.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;
using namespace flyball::bench;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: engines [--backend cpu|opencl|vulkan|all] [--device NAME] [--shapes 135M,1.1B] [--formats "
    "F16,Q8_0]\n"
    "               [--streams 1,32] [--seconds 20] [--keep DIR] [--json]\n"
    "  --seconds  of measuring for each shape and format\n"
    "  --keep     where models and compiled kernels stay for the next run; else they go to a temporary\n"
    "             folder that is removed\n";

struct Options {
  bool cpu = true, opencl = true, vulkan = true, json = false;
  std::string device;
  std::vector<std::string> shapes{"135M", "1.1B"};
  std::vector<kernels::DType> formats{kernels::DType::f16, kernels::DType::q8_0};
  std::vector<std::uint32_t> streams{1, 32};
  double seconds = 20;
  fs::path keep;
};

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) out.push_back(part);
  return out;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      o.json = true;
      continue;
    }
    if (i + 1 == argc) die(kUsage, 2);
    const std::string value = argv[++i];
    if (name == "--backend") {
      const bool all = value == "all";
      o.cpu = all || value == "cpu";
      o.opencl = all || value == "opencl";
      o.vulkan = all || value == "vulkan";
      if (!o.cpu && !o.opencl && !o.vulkan) die(kUsage, 2);
    } else if (name == "--device") {
      o.device = value;
    } else if (name == "--shapes") {
      o.shapes = parts(value);
    } else if (name == "--formats") {
      o.formats.clear();
      for (const std::string& part : parts(value)) {
        const auto type = std::ranges::find(kernels::kAllDTypes, part, [](auto t) { return to_string(t); });
        if (type == std::end(kernels::kAllDTypes)) die("no format is called " + part, 2);
        o.formats.push_back(*type);
      }
    } else if (name == "--streams") {
      o.streams.clear();
      for (const std::string& part : parts(value)) {
        const int n = std::atoi(part.c_str());
        if (n < 1 || n > static_cast<int>(kPromptTokens)) die("--streams takes 1 to 256", 2);
        o.streams.push_back(static_cast<std::uint32_t>(n));
      }
    } else if (name == "--seconds") {
      o.seconds = std::atof(value.c_str());
    } else if (name == "--keep") {
      o.keep = value;
    } else {
      die(kUsage, 2);
    }
  }
  if (o.shapes.empty() || o.formats.empty() || o.streams.empty()) die(kUsage, 2);
  return o;
}

// Where models and kernels lie during a run.
class Folder {
 public:
  explicit Folder(const fs::path& keep) : path_(keep), temporary_(keep.empty()) {
    if (temporary_) {
      std::string name = (fs::temp_directory_path() / "flyball-engines-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) die("no folder " + name);
      path_ = name;
    }
    fs::create_directories(path_ / "programs");
    setenv("POCL_CACHE_DIR", (path_ / "pocl").c_str(), 1);  // nothing compiled elsewhere counts
    fs::create_directories(path_ / "pocl");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (temporary_) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool temporary_;
};

class SyntheticModel {
 public:
  SyntheticModel(const Folder& folder, const std::string& shape, kernels::DType type, bool keep)
      : keep_(keep) {
    std::string name = shape;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    auto spec = expect(model::parse_synthetic_shape(name));
    spec.type = type;
    path_ = folder.path() / (spec.name + "-" + std::string(to_string(type)) + ".gguf");
    if (!fs::exists(path_)) expect(model::write_synthetic_file(spec, path_));
    file_ = expect(model::ModelFile::open(path_));
  }
  SyntheticModel(const SyntheticModel&) = delete;
  SyntheticModel& operator=(const SyntheticModel&) = delete;
  ~SyntheticModel() {
    std::error_code ignored;
    if (!keep_) fs::remove(path_, ignored);
  }
  const model::ModelFile& file() const { return *file_; }

 private:
  bool keep_;
  fs::path path_;
  std::unique_ptr<model::ModelFile> file_;
};

struct Ceilings {
  double read = 0;        // bytes/s
  double arithmetic = 0;  // operations/s of the kind that the format is multiplied in
};

// A kind of step, over all turns.
struct Figure {
  double best = 1e9, last = 0;        // seconds; last: of the turn before, the one that warms too
  std::vector<double> reads, shares;  // of each turn: the read ceiling around it, bytes/s; of what is nearer
  std::vector<double> arithmetics;
};

// One engine on one model.
struct Engine {
  std::string name;
  std::unique_ptr<EngineSteps> steps;
  std::function<Ceilings()> pass;  // what one pass of the plain kernels reaches
  Figure prefill{};
  std::map<std::uint32_t, Figure> decode{};  // by streams
  bool by_itself = false;                    // the device works while the host does
  std::vector<double> host{};                // seconds of the host's work for a replayed token
  ordered_json start = ordered_json::object();
};

// Of an even number the mean of the two in the middle.
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

std::uint32_t most(const std::vector<std::uint32_t>& streams) {
  return *std::ranges::max_element(streams);
}

Engine cpu_engine(const model::ModelFile& model, kernels::DType type, const Options& o,
                  CpuCeilings& ceilings) {
  cpu::CpuDeviceOptions options;
  options.max_step_tokens = kPromptTokens;
  options.max_logit_rows = most(o.streams);
  const bool quantized = kernels::block_shape(type).values > 1;
  return {"cpu",
          expect(EngineSteps::over(expect(cpu::make_cpu_executor(model, options)), model, most(o.streams))),
          [&ceilings, quantized] {
            return Ceilings{ceilings.read(), quantized ? ceilings.int8() : ceilings.f32()};
          }};
}

template <class DeviceOptions>
DeviceOptions device_options(const Options& o) {
  DeviceOptions options;
  options.name = o.device;
  options.allow_processor = true;
  return options;
}

Engine opencl_engine(const model::ModelFile& model, const Options& o, const Folder& folder,
                     opencl::DeviceCeilings& ceilings) {
  opencl::OpenClDeviceOptions options;
  options.devices = {device_options<opencl::DeviceOptions>(o)};
  options.program_cache = folder.path() / "programs";
  options.max_step_tokens = kPromptTokens;
  options.max_logit_rows = most(o.streams);
  Engine engine;
  engine.name = "opencl";
  engine.pass = [&ceilings] { return Ceilings{expect(ceilings.read()), expect(ceilings.multiply_add())}; };
  for (const char* start : {"first_start", "second_start"}) {
    engine.steps.reset();
    const double begin = seconds();
    auto executor = expect(opencl::make_opencl_executor(model, options));
    const opencl::OpenClExecutor& seen = *executor;
    engine.steps = expect(EngineSteps::over(std::move(executor), model, most(o.streams)));
    const double ready = seconds() - begin;
    const double first_step = expect(engine.steps->prefill());
    const auto statistics = seen.statistics();
    engine.start[start] = {{"seconds", ready},
                           {"first_step_seconds", first_step},
                           {"compiled", statistics.programs_compiled},
                           {"from_cache", statistics.programs_from_cache}};
  }
  return engine;
}

Engine vulkan_engine(const model::ModelFile& model, const Options& o, const Folder& folder,
                     vulkan::DeviceCeilings& ceilings) {
  vulkan::VulkanDeviceOptions options;
  options.device = device_options<vulkan::DeviceOptions>(o);
  options.device.fence_deadline = std::chrono::minutes(10);  // it is measured, however slow
  options.pipeline_cache = folder.path() / "programs";
  options.max_step_tokens = kPromptTokens;
  options.max_logit_rows = most(o.streams);
  Engine engine;
  engine.name = "vulkan";
  engine.by_itself = true;
  engine.pass = [&ceilings] { return Ceilings{expect(ceilings.read()), expect(ceilings.multiply_add())}; };
  engine.steps =
      expect(EngineSteps::over(expect(vulkan::make_vulkan_executor(model, options)), model, most(o.streams)));
  return engine;
}

// What plain kernels reach for so long: all their work by all its time, as a step is held against it. A mean
// of passes' rates would count the slow ones, which take longer, too little.
Ceilings reached(const Engine& e, double span) {
  Ceilings inverse;
  int passes = 0;
  for (const double end = seconds() + span; passes == 0 || seconds() < end; ++passes) {
    const Ceilings c = e.pass();
    inverse.read += 1 / c.read;
    inverse.arithmetic += 1 / c.arithmetic;
  }
  return {passes / inverse.read, passes / inverse.arithmetic};
}

// The least time that a step's work takes at these ceilings, and which of them it is.
std::pair<double, const char*> least(const StepWork& work, double read, double arithmetic) {
  const double reading = work.weight_bytes / read, computing = work.operations / arithmetic;
  return reading > computing ? std::pair(reading, "read") : std::pair(computing, "arithmetic");
}

template <class Step>
void take_turn(const Engine& e, Figure& figure, const StepWork& work, bool counts, int times, Step step) {
  // As long as a part of the step, so that a long one is not held against a moment.
  const double span = std::clamp(figure.last / 4, 0.05, 1.0);
  const Ceilings before = reached(e, span);
  double took = 0;
  for (int i = 0; i < times; ++i) took += step() / times;
  figure.last = took;
  const Ceilings after = reached(e, span);
  if (!counts) return;
  figure.best = std::min(figure.best, took);
  const auto both = [](double a, double b) { return 2 / (1 / a + 1 / b); };  // as in reached()
  figure.reads.push_back(both(before.read, after.read));
  figure.arithmetics.push_back(both(before.arithmetic, after.arithmetic));
  figure.shares.push_back(least(work, figure.reads.back(), figure.arithmetics.back()).first / took);
}

void take_turns(std::vector<Engine>& engines, const model::ModelFile& model, const Options& o) {
  constexpr int kAtLeast = 3;  // turns
  const double end = seconds() + o.seconds;
  for (int turn = -1; turn < kAtLeast || seconds() < end; ++turn) {  // -1: not counted, warms
    for (Engine& e : engines) {
      take_turn(e, e.prefill, prefill_work(model, kPromptTokens), turn >= 0, 1,
                [&] { return expect(e.steps->prefill()); });
      for (int i = 0; e.by_itself && i < 4; ++i) {
        const double host = expect(e.steps->host());
        if (turn >= 0) e.host.push_back(host);
      }
      for (const std::uint32_t n : o.streams)
        take_turn(e, e.decode[n], decode_work(model, n), turn >= 0, n == 1 ? 4 : 1,
                  [&] { return expect(e.steps->decode(n)); });
    }
  }
}

ordered_json report_figure(const Figure& figure, const StepWork& work, double tokens) {
  const auto [low, high] = std::ranges::minmax(figure.shares);
  return {{"tokens_per_s", tokens / figure.best},
          {"gbps", work.weight_bytes / figure.best / 1e9},
          {"gops", work.operations / figure.best / 1e9},
          {"share", median(figure.shares)},
          {"share_lowest", low},
          {"share_highest", high},
          {"turns", figure.shares.size()},
          {"of", least(work, median(figure.reads), median(figure.arithmetics)).second}};
}

ordered_json report(const Engine& e, const model::ModelFile& model) {
  const double read = median(e.prefill.reads), arithmetic = median(e.prefill.arithmetics);
  ordered_json out = {
      {"backend", e.name}, {"read_ceiling_gbps", read / 1e9}, {"arithmetic_ceiling_gops", arithmetic / 1e9}};
  out["prefill"] = report_figure(e.prefill, prefill_work(model, kPromptTokens), kPromptTokens);
  for (const auto& [streams, figure] : e.decode) {
    const StepWork work = decode_work(model, streams);
    ordered_json& d = out["decode"][std::to_string(streams)];
    d = report_figure(figure, work, streams);
    if (streams == 1 || !e.decode.contains(1)) continue;
    d["times_one_stream"] = streams * e.decode.at(1).best / figure.best;
    d["ceiling_times_one_stream"] =
        streams * least(decode_work(model, 1), read, arithmetic).first / least(work, read, arithmetic).first;
  }
  if (!e.host.empty())
    out["host_us"] = {{"median", 1e6 * median(e.host)}, {"best", 1e6 * std::ranges::min(e.host)}};
  for (const auto& [key, value] : e.start.items()) out[key] = value;
  return out;
}

void print(const ordered_json& line, bool json) {
  if (json) {
    std::printf("%s\n", line.dump().c_str());
  } else {
    const auto rate = [](const char* name, const ordered_json& r) {
      std::printf("  %-12s %9.1f tokens/s  %5.1f%% of %s (%.1f to %.1f in %d turns)", name,
                  r["tokens_per_s"].get<double>(), 100 * r["share"].get<double>(),
                  r["of"].get_ref<const std::string&>().c_str(), 100 * r["share_lowest"].get<double>(),
                  100 * r["share_highest"].get<double>(), r["turns"].get<int>());
      if (r.contains("times_one_stream"))
        std::printf("  %.1fx one stream (at most %.1fx)", r["times_one_stream"].get<double>(),
                    r["ceiling_times_one_stream"].get<double>());
      if (r.contains("times_cpu")) std::printf("  %.2fx the CPU engine", r["times_cpu"].get<double>());
      std::printf("\n");
    };
    std::printf("%s %s on %s: ceilings %.1f GB/s, %.0f GOP/s\n", line["shape"].get<std::string>().c_str(),
                line["format"].get<std::string>().c_str(), line["backend"].get<std::string>().c_str(),
                line["read_ceiling_gbps"].get<double>(), line["arithmetic_ceiling_gops"].get<double>());
    rate("prefill 256", line["prefill"]);
    for (const auto& [streams, r] : line["decode"].items()) rate(("decode x" + streams).c_str(), r);
    if (line.contains("host_us"))
      std::printf("  %-12s %9.1f us of the host's own work for a replayed token (median)\n", "host",
                  line["host_us"]["median"].get<double>());
    for (const char* start : {"first_start", "second_start"})
      if (line.contains(start))
        std::printf("  %-12s %9.2f s, %d programs compiled, %d from the cache; first step %.2f s\n", start,
                    line[start]["seconds"].get<double>(), line[start]["compiled"].get<int>(),
                    line[start]["from_cache"].get<int>(), line[start]["first_step_seconds"].get<double>());
  }
  std::fflush(stdout);
}

void compare(ordered_json& ours, const ordered_json& cpu) {
  const auto ratio = [](ordered_json& a, const ordered_json& b) {
    a["times_cpu"] = a["tokens_per_s"].get<double>() / b["tokens_per_s"].get<double>();
  };
  ratio(ours["prefill"], cpu["prefill"]);
  for (auto& [streams, decode] : ours["decode"].items()) ratio(decode, cpu["decode"][streams]);
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  const Folder folder(o.keep);
  std::unique_ptr<opencl::DeviceCeilings> opencl_ceilings;
  std::unique_ptr<CpuCeilings> cpu_ceilings;
  std::unique_ptr<vulkan::DeviceCeilings> vulkan_ceilings;
  const auto open = [](auto& to, auto made) {
    if (made)
      to = std::move(*made);
    else
      std::fprintf(stderr, "engines: %s\n", made.error().message.c_str());
    return made.has_value();
  };
  if (o.opencl &&
      !open(opencl_ceilings, opencl::DeviceCeilings::open(device_options<opencl::DeviceOptions>(o))))
    return kSkipped;
  if (o.vulkan &&
      !open(vulkan_ceilings, vulkan::DeviceCeilings::open(device_options<vulkan::DeviceOptions>(o))))
    return kSkipped;
  if (o.cpu) cpu_ceilings = expect(CpuCeilings::open(device::usable_processors()));
  for (const std::string& shape : o.shapes) {
    for (const kernels::DType type : o.formats) {
      const SyntheticModel model(folder, shape, type, !o.keep.empty());
      std::vector<Engine> engines;
      if (o.cpu) engines.push_back(cpu_engine(model.file(), type, o, *cpu_ceilings));
      if (o.opencl) engines.push_back(opencl_engine(model.file(), o, folder, *opencl_ceilings));
      if (o.vulkan) engines.push_back(vulkan_engine(model.file(), o, folder, *vulkan_ceilings));
      take_turns(engines, model.file(), o);
      ordered_json cpu;
      for (const Engine& e : engines) {
        ordered_json line = {{"shape", shape}, {"format", to_string(type)}};
        line.update(report(e, model.file()));
        if (e.name == "cpu") {
          cpu = line;
        } else if (!cpu.is_null()) {
          compare(line, cpu);
        }
        print(line, o.json);
      }
    }
  }
  return 0;
}
