// What our reader and engines make of a model, for mlx_test.py and mlx_engine_test.py to compare:
//   flyball_model MODEL weights DIR     each tensor as float32 in DIR/NAME
//   flyball_model MODEL logits          for each list of tokens of a JSON list on standard input, the last
//                                       one's logits by each instruction set that this machine has
//   flyball_model MODEL opencl ROWS     those by that engine, in steps of so many rows, also vulkan; exit 77:
//                                       there is no such device
//   flyball_model MODEL encode          for each text of such a list, its tokens and their text
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/model/model_file.hpp"
#include "backends/opencl/opencl_device.hpp"
#include "backends/text/tokenizer.hpp"
#include "backends/vulkan/vulkan_device.hpp"
#include "kernels/formats/dequantize.hpp"

namespace {

using nlohmann::json;
using namespace flyball;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "flyball_model: %s\n", what.c_str());
  std::exit(1);
}
template <class T>
T take(Result<T> result) {
  if (!result) die(result.error().message + " (" + result.error().where + ")");
  return std::move(*result);
}

constexpr std::uint32_t kBlocks = 16;
constexpr int kSkipped = 77;

void write_weights(const model::ModelFile& file, const std::string& directory) {
  for (const model::GgufTensor& tensor : file.gguf().tensors()) {
    std::ofstream out(directory + "/" + std::string(tensor.name), std::ios::binary);
    const kernels::SourceRows rows(tensor.data.data(), tensor.scales.data(), tensor.biases.data(),
                                   tensor.scale_type);
    std::vector<float> values(tensor.dims[0]);
    for (std::uint64_t r = 0; r < tensor.rows(); ++r) {
      kernels::dequantize_row(tensor.type, rows.after(tensor.type, r, values.size()), values.size(),
                              values.data());
      out.write(reinterpret_cast<const char*>(values.data()),
                static_cast<std::streamsize>(values.size() * sizeof(float)));
    }
    if (!out) die("cannot write " + std::string(tensor.name));
  }
}

constexpr std::uint32_t kStepTokens = 64;

// The last token's, in steps of `rows`.
json last_logits(device::Executor& executor, const std::vector<Token>& tokens, std::uint32_t rows) {
  std::vector<std::uint32_t> blocks(kBlocks);
  std::iota(blocks.begin(), blocks.end(), 0U);
  std::vector<float> out;
  for (std::uint32_t at = 0; at < tokens.size(); at += rows) {
    const auto n = std::min(rows, static_cast<std::uint32_t>(tokens.size()) - at);
    const device::StepSequence sequence{0, n, at, blocks, true};
    const auto step = take(executor.submit({std::span(tokens).subspan(at, n), {&sequence, 1}}, {}));
    const auto row = take(executor.wait(step)).logits;
    out.assign(row.begin(), row.end());
  }
  return out;
}

template <class Executor>
std::unique_ptr<Executor> with_kv(const model::ModelFile& file, std::unique_ptr<Executor> executor) {
  if (auto ok = executor->reserve_kv(graph::kv_layout(file.config(), kernels::DType::f16), kBlocks); !ok)
    die(ok.error().message);
  return executor;
}

json logits(const model::ModelFile& file, kernels::cpu::Isa isa, const std::vector<Token>& tokens) {
  cpu::CpuDeviceOptions options;
  options.isa = isa;
  options.threads = 2;
  options.max_step_tokens = kStepTokens;
  return last_logits(*with_kv(file, take(cpu::make_cpu_executor(file, options))), tokens, kStepTokens);
}

template <class Made>
auto device_with_kv(const model::ModelFile& file, Made made) {
  if (!made && made.error().code == ErrorCode::model_unavailable) std::exit(kSkipped);
  return with_kv(file, take(std::move(made)));
}

template <class Options>
Options step_options(std::uint32_t rows) {
  Options options;
  options.max_step_tokens = rows;
  options.max_logit_rows = 1;
  return options;
}

std::unique_ptr<device::Executor> device_executor(const model::ModelFile& file, const std::string& engine,
                                                  std::uint32_t rows) {
  const char* folder = std::getenv("FLYBALL_BINARY_DIR");
  const std::string kept = folder != nullptr ? std::string(folder) + "/test-kernels/" : std::string();  // as kernel_caches.hpp
  constexpr auto kPatience = std::chrono::minutes(10);  // drivers compile at the first launch
  if (engine == "vulkan") {
    auto options = step_options<vulkan::VulkanDeviceOptions>(rows);
    options.pipeline_cache = kept + "vulkan";
    options.device.allow_processor = true;
    options.device.fence_deadline = kPatience;
    return device_with_kv(file, vulkan::make_vulkan_executor(file, options));
  }
  auto options = step_options<opencl::OpenClDeviceOptions>(rows);
  options.program_cache = kept + "opencl";
  options.devices[0].allow_processor = true;
  options.devices[0].fence_deadline = kPatience;
  return device_with_kv(file, opencl::make_opencl_executor(file, options));
}

json answer(const model::ModelFile& file, const json& asked) {
  json out = json::object();
  for (const kernels::cpu::Isa isa : kernels::cpu::built_isas())
    if (kernels::cpu::supported(isa))
      out[kernels::cpu::to_string(isa)] = logits(file, isa, asked.get<std::vector<Token>>());
  return out;
}

json encode(const model::ModelFile& file, const json& text) {
  const auto tokenizer = take(text::Tokenizer::load(file.gguf()));
  const auto tokens =
      tokenizer->encode(text.get<std::string>(), {.add_special = true, .parse_special = true});
  std::string back;
  for (const Token token : tokens) back += tokenizer->bytes(token, true);
  return {{"tokens", tokens}, {"text", back}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) die("MODEL weights DIR | MODEL logits | MODEL opencl|vulkan ROWS | MODEL encode");
  const auto file = take(model::ModelFile::open(argv[1]));
  const std::string command = argv[2];
  if (command == "weights" && argc == 4) return write_weights(*file, argv[3]), 0;
  json out = json::array();
  std::unique_ptr<device::Executor> device;
  const std::uint32_t rows = argc == 4 ? static_cast<std::uint32_t>(std::stoul(argv[3])) : 0;
  if (rows > 0) device = device_executor(*file, command, rows);
  for (const json& asked : json::parse(std::cin))
    out.push_back(device                ? last_logits(*device, asked.get<std::vector<Token>>(), rows)
                  : command == "encode" ? encode(*file, asked)
                                        : answer(*file, asked));
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
