// Decode of one stream at a long context with the KV cache as f16 and as q8_0, in turns in one run on one
// engine.
//   kv_decode cpu|opencl [SHAPE [POSITIONS [SECONDS]]]
// One line of JSON: {"backend","shape","positions","f16":{"tokens_per_s","kv_bytes"},"q8_0":{...},"ratio"},
// the medians. Weights are Q8_0. Exit 77 where there is no OpenCL device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>

#include "backends/cpu/cpu_device.hpp"
#include "backends/model/synthetic.hpp"
#include "backends/opencl/opencl_device.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;
using namespace flyball::bench;

constexpr std::uint32_t kPromptTokens = 256;

std::unique_ptr<device::Executor> open(const std::string& backend, const model::ModelFile& model) {
  if (backend == "cpu") {
    cpu::CpuDeviceOptions options;
    options.max_step_tokens = kPromptTokens;
    options.max_logit_rows = 1;
    return expect(cpu::make_cpu_executor(model, options));
  }
  opencl::OpenClDeviceOptions options;
  options.devices[0].allow_processor = true;
  options.max_step_tokens = kPromptTokens;
  options.max_logit_rows = 1;
  auto made = opencl::make_opencl_executor(model, options);
  if (!made) die(made.error().message, kSkipped);
  return std::move(*made);
}

// One stream with `positions` positions in its cache.
class Stream {
 public:
  Stream(const std::string& backend, const model::ModelFile& model, kernels::DType kv_type,
         std::uint32_t positions)
      : executor_(open(backend, model)), positions_(positions) {
    const auto layout = graph::kv_layout(model.config(), kv_type);
    const auto blocks = static_cast<std::uint32_t>(kv_blocks(layout, positions + 1));
    expect(executor_->reserve_kv(layout, blocks));
    table_.resize(blocks);
    std::iota(table_.begin(), table_.end(), 0U);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(2));
    // What stands in the cache matters little to the time: the beginning, over and over.
    std::mt19937 random(1);
    std::vector<Token> prompt(std::min(kPromptTokens, positions));
    for (Token& t : prompt) t = static_cast<Token>(random() % model.config().vocab_size);
    step(prompt, 0, {});
    const std::size_t filled = prompt.size() / layout.block_size;
    std::vector<device::BlockCopy> copies;
    for (std::size_t b = filled; b < table_.size() && filled > 0; ++b)
      copies.push_back({table_[b % filled], table_[b]});
    step({prompt.data(), 1}, positions_, copies);
  }
  double decode() {
    const Token token = 7;
    const double begin = seconds();
    step({&token, 1}, positions_, {});
    times_.push_back(seconds() - begin);
    return times_.back();
  }
  nlohmann::ordered_json report() {
    std::ranges::sort(times_);
    return {{"tokens_per_s", 1 / times_[times_.size() / 2]}, {"kv_bytes", executor_->memory().kv_bytes}};
  }
  void forget_times() { times_.clear(); }

 private:
  void step(std::span<const Token> tokens, std::uint32_t at, std::span<const device::BlockCopy> copies) {
    const device::StepSequence sequence{0, static_cast<std::uint32_t>(tokens.size()), at, table_, true};
    (void)expect(executor_->wait(expect(executor_->submit({tokens, {&sequence, 1}}, copies))));
  }

  std::unique_ptr<device::Executor> executor_;
  std::uint32_t positions_;
  std::vector<device::BlockId> table_;
  std::vector<double> times_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "";
  const std::string shape = argc > 2 ? argv[2] : "135m";
  const int positions = argc > 3 ? std::atoi(argv[3]) : 4096;
  const double seconds = argc > 4 ? std::atof(argv[4]) : 10;
  if ((backend != "cpu" && backend != "opencl") || positions < 1)
    die("usage: kv_decode cpu|opencl [SHAPE [POSITIONS [SECONDS]]]", 2);
  auto spec = expect(model::parse_synthetic_shape(shape + ",context=" + std::to_string(positions + 1)));
  spec.type = kernels::DType::q8_0;
  const auto bytes = expect(model::synthetic_bytes(spec));
  const auto model = expect(model::ModelFile::from_bytes(bytes));
  const auto at = static_cast<std::uint32_t>(positions);
  Stream f16(backend, *model, kernels::DType::f16, at), q8_0(backend, *model, kernels::DType::q8_0, at);
  for (int i = 0; i < 2; ++i) f16.decode(), q8_0.decode();  // warm
  f16.forget_times(), q8_0.forget_times();
  for (double spent = 0; spent < seconds;) spent += f16.decode() + q8_0.decode();
  nlohmann::ordered_json out = {{"backend", backend},
                                {"shape", shape},
                                {"positions", positions},
                                {"f16", f16.report()},
                                {"q8_0", q8_0.report()}};
  out["ratio"] = out["q8_0"]["tokens_per_s"].get<double>() / out["f16"]["tokens_per_s"].get<double>();
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
