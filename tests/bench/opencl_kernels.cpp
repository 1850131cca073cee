// The OpenCL matmul kernels against what their device can do: first its ceilings, measured by plain kernels
// (reading memory; multiplying and adding f32), then each matmul's rate as a fraction of the ceiling that
// limits it, and whole models' worth of matrices: decode of one token, of 32, and prefill. Usage:
// opencl_kernels_bench [--only NAME] [--json]. Exit 77 where there is no device.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

#include "kernels/formats/quantize.hpp"
#include "tests/bench/program.hpp"
#include "tests/kernels/opencl/harness.hpp"

namespace {

using namespace flyball::kernels;
using namespace flyball::opencl;
using flyball::bench::seconds;
using test::Harness;

constexpr std::size_t kMegabyte = std::size_t{1} << 20;
// Beyond any cache, like the weights of a 1.1B model.
constexpr std::size_t kReadBytes = 512 * kMegabyte;

struct Bench {
  Harness& device;
  bool json;
  std::string only;
  double read = 0, multiply_add = 0;  // bytes/s, operations/s
  cl::Buffer read_from{}, read_to{};

  // Shortest of the runs that fit into the budget: other processes only ever make a run longer. Several are
  // run in turns, because what a shared machine gives drifts by a third within a minute.
  template <std::size_t kCount>
  std::array<double, kCount> best_in_turns(const std::array<std::function<void()>, kCount>& enqueue,
                                           double budget) const {
    std::array<double, kCount> best;
    best.fill(1e9);
    const double end = seconds() + budget * kCount;
    for (int n = -1; n < 3 || seconds() < end; ++n) {  // -1: not counted, compiles and warms
      for (std::size_t i = 0; i < kCount; ++i) {
        const double start = seconds();
        enqueue[i]();
        device.queue().finish();
        if (n >= 0) best[i] = std::min(best[i], seconds() - start);
      }
    }
    return best;
  }
  double best_seconds(const std::function<void()>& enqueue, double budget = 0.6) const {
    return best_in_turns(std::array{enqueue}, budget)[0];
  }
  bool wants(const std::string& name) const { return only.empty() || name.find(only) != std::string::npos; }
  void line(const std::string& name, double value, const char* unit, double ceiling, const char* of) const {
    const double share = ceiling > 0 ? value / ceiling : 0;
    if (json) {
      std::printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"%s\"", name.c_str(), value / 1e9, unit);
      if (ceiling > 0) std::printf(",\"fraction\":%.4f,\"of\":\"%s\"", share, of);
      std::printf("}\n");
    } else if (ceiling > 0) {
      std::printf("%-44s %9.2f %-6s %5.1f%% of %s\n", name.c_str(), value / 1e9, unit, 100 * share, of);
    } else {
      std::printf("%-44s %9.2f %s\n", name.c_str(), value / 1e9, unit);
    }
    std::fflush(stdout);
  }

  cl::Buffer buffer(std::size_t bytes) const {
    cl::Buffer b(device.context(), CL_MEM_READ_WRITE, bytes);
    device.queue().enqueueFillBuffer(b, std::uint32_t{0x3C003C00}, 0, bytes / 4 * 4);
    device.queue().finish();
    return b;
  }

  // Vectors as wide as a processor's registers, a run per work-item; on GPUs 16 bytes, neighbours side by
  // side.
  void read_all() const {
    const bool processor = device.facts().processor;
    const std::uint32_t width = processor ? 16 : 4;
    MatmulPlan plan;
    plan.files = {"read_bandwidth"};
    plan.kernel = "read_bandwidth";
    plan.options = "-D WIDTH=" + std::to_string(width) + " -D CHUNKED=" + (processor ? "1" : "0");
    plan.local = {processor ? 1U : 256U, 1};
    plan.global = {processor ? 512U : std::size_t{256} * 16 * device.compute_units(), 1};
    device.run(plan, read_from, read_to, static_cast<cl_uint>(kReadBytes / width / 4));
  }
  void measure_multiply_add() {
    const bool processor = device.facts().processor;
    MatmulPlan plan;
    plan.files = {"multiply_add"};
    plan.kernel = "multiply_add";
    const std::uint32_t floats = processor ? device.facts().vector_floats : 1, chains = 12, rounds = 20000;
    plan.options = "-D WIDTH=" + std::to_string(floats) + " -D CHAINS=" + std::to_string(chains);
    plan.local = {processor ? 1U : 256U, 1};
    plan.global = {processor ? 64U : std::size_t{256} * 16 * device.compute_units(), 1};
    const cl::Buffer in = buffer(2 * sizeof(float)), out = buffer(plan.global[0] * floats * sizeof(float));
    const float factors[] = {0.5F, 0.25F};
    device.queue().enqueueWriteBuffer(in, CL_TRUE, 0, sizeof factors, factors);
    multiply_add = 2.0 * floats * chains * rounds * static_cast<double>(plan.global[0]) /
                   best_seconds([&] { device.run(plan, in, out, cl_uint{rounds}); }, 1.0);
  }
  void measure_ceilings() {
    read_from = buffer(kReadBytes);
    read_to = buffer(32 * kMegabyte);
    read = kReadBytes / best_seconds([&] { read_all(); }, 1.0);
    measure_multiply_add();
    line("read ceiling", read, "GB/s", 0, "");
    line("multiply-add ceiling", multiply_add, "GOP/s", 0, "");
  }

  // Random rows in the file's format, a few of them repeated, in row groups.
  std::vector<std::uint8_t> weights(DType type, std::uint32_t rows, std::uint32_t cols) const {
    const std::size_t row = row_bytes(type, cols);
    std::vector<std::uint8_t> file(rows * row);
    std::mt19937 generator(1);
    std::normal_distribution<float> normal(0.0F, 0.05F);
    std::vector<float> values(cols);
    for (std::uint32_t r = 0; r < std::min(rows, 16U); ++r) {
      for (float& v : values) v = normal(generator);
      quantize_row(type, values.data(), cols, file.data() + r * row);
    }
    for (std::uint32_t r = 16; r < rows; ++r) std::memcpy(&file[r * row], &file[r % 16 * row], row);
    return test::grouped(type, rows, cols, file.data());
  }
};

struct Matrices {
  std::vector<std::uint32_t> rows;  // multiplied by one dispatch
  std::uint32_t cols;
};
// LLaMA 1.1B: dim 2048, ffn 5632, 32 heads and 4 kv heads of 64, 22 layers.
const std::vector<Matrices> kLayer = {
    {{2048, 256, 256}, 2048}, {{2048}, 2048}, {{5632, 5632}, 2048}, {{2048}, 5632}};
constexpr std::uint32_t kVocabulary = 32000, kDim = 2048, kFfn = 5632;

// One dispatch after the other over `layers` layers whose weights are read from one buffer, each its own.
struct Model {
  struct Dispatch {
    std::vector<std::uint32_t> rows;
    std::uint32_t cols;
    std::vector<cl::Buffer> weights;
  };
  std::vector<Dispatch> dispatches;
  double bytes = 0, products = 0;
};

Model make_model(const Bench& b, DType type, std::uint32_t layers, bool output) {
  Model model;
  const auto add = [&](const Matrices& m) {
    Model::Dispatch d{m.rows, m.cols, {}};
    for (const std::uint32_t rows : m.rows) {
      auto bytes = b.weights(type, rows, m.cols);
      d.weights.emplace_back(b.device.context(), CL_MEM_READ_WRITE, bytes.size());
      b.device.queue().enqueueWriteBuffer(d.weights.back(), CL_TRUE, 0, bytes.size(), bytes.data());
      model.bytes += static_cast<double>(bytes.size());
      model.products += static_cast<double>(rows) * m.cols;
    }
    model.dispatches.push_back(std::move(d));
  };
  for (std::uint32_t i = 0; i < layers; ++i)
    for (const Matrices& m : kLayer) add(m);
  if (output) add({{kVocabulary}, kDim});
  return model;
}

void run_model(const Bench& b, const MatmulTuning& tuning, DType type, const Model& model,
               std::uint32_t tokens, const cl::Buffer& x, const std::array<cl::Buffer, 3>& y) {
  for (const auto& d : model.dispatches) {
    const MatmulPlan plan = plan_matmul(b.device.facts(), tuning, type, d.rows, tokens, false);
    const auto w = [&](std::size_t i) { return i < d.weights.size() ? d.weights[i] : d.weights[0]; };
    const auto rows = [&](std::size_t i) { return cl_uint{i < d.rows.size() ? d.rows[i] : 0}; };
    b.device.run(plan, x, cl_uint{tokens}, cl_uint{d.cols}, w(0), y[0], rows(0), w(1), y[1], rows(1), w(2),
                 y[2], rows(2));
  }
}

void bench_format(Bench& b, const MatmulTuning& tuning, DType type) {
  const std::string name(to_string(type));
  const auto case_name = [&](std::uint32_t tokens) {
    return "1.1B " + name + " n=" + std::to_string(tokens);
  };
  const std::uint32_t counts[] = {1, 2, 4, 8, 16, 32, 256};
  if (std::none_of(std::begin(counts), std::end(counts), [&](auto n) { return b.wants(case_name(n)); }))
    return;
  // Layers enough to leave the caches; prefill of the output row alone does not matter.
  const Model model = make_model(b, type, 6, true);
  const cl::Buffer x = b.buffer(std::size_t{256} * kFfn * 4);
  const std::array<cl::Buffer, 3> y = {b.buffer(std::size_t{256} * kVocabulary * 4),
                                       b.buffer(std::size_t{256} * kFfn * 4),
                                       b.buffer(std::size_t{256} * kFfn * 4)};
  for (const std::uint32_t n : counts) {
    if (!b.wants(case_name(n))) continue;
    const auto [time, read] = b.best_in_turns<2>(
        {[&] { run_model(b, tuning, type, model, n, x, y); }, [&] { b.read_all(); }}, n == 1 ? 1.0 : 0.4);
    b.read = kReadBytes / read;
    char of[64];
    std::snprintf(of, sizeof of, "read ceiling %.1f", b.read / 1e9);
    b.line(case_name(n) + " weights", model.bytes / time, "GB/s", b.read, of);
    if (n > 1)
      b.line(case_name(n) + " arithmetic", 2 * n * model.products / time, "GOP/s", b.multiply_add,
             "multiply-add ceiling");
  }
}

int run(int argc, char** argv) {
  bool json = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--json") {
      json = true;
    } else if (arg == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else {
      std::fprintf(stderr, "usage: opencl_kernels_bench [--only NAME] [--json]\n");
      return 2;
    }
  }
  const auto device = Harness::open();
  if (!device) {
    std::fprintf(stderr, "no OpenCL device\n");
    return flyball::bench::kSkipped;
  }
  if (!json) std::printf("%s\n", device->name().c_str());
  Bench bench{.device = *device, .json = json, .only = only};
  bench.measure_ceilings();
  const MatmulTuning tuning = default_tuning(device->facts());
  for (const DType type : kAllDTypes)
    if (type != DType::f32) bench_format(bench, tuning, type);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "opencl_kernels_bench: %s\n", error.what());
    return 1;
  }
}
