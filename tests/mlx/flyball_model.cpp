// What our reader and CPU engine make of a model, for mlx_test.py to compare:
//   flyball_model MODEL weights DIR     each tensor as float32 in DIR/NAME
//   flyball_model MODEL logits          for each list of tokens of a JSON list on standard input, the last
//   one's logits
//                                       by each instruction set that this machine has
//   flyball_model MODEL encode          for each text of such a list, its tokens and their text
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/model/model_file.hpp"
#include "backends/text/tokenizer.hpp"
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

json logits(const model::ModelFile& file, kernels::cpu::Isa isa, const std::vector<Token>& tokens) {
  constexpr std::uint32_t kBlocks = 16;
  cpu::CpuDeviceOptions options;
  options.isa = isa;
  options.threads = 2;
  options.max_step_tokens = 64;
  const auto executor = take(cpu::make_cpu_executor(file, options));
  if (auto ok = executor->reserve_kv(graph::kv_layout(file.config(), kernels::DType::f16), kBlocks); !ok)
    die(ok.error().message);
  std::vector<std::uint32_t> blocks(kBlocks);
  std::iota(blocks.begin(), blocks.end(), 0U);
  const engine::StepSequence sequence{0, static_cast<std::uint32_t>(tokens.size()), 0, blocks, true};
  const auto step = take(executor->submit({tokens, {&sequence, 1}}, {}));
  const auto row = take(executor->wait(step)).logits;
  return std::vector<float>(row.begin(), row.end());
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
  if (argc < 3) die("MODEL weights DIR | MODEL logits | MODEL encode");
  const auto file = take(model::ModelFile::open(argv[1]));
  const std::string command = argv[2];
  if (command == "weights" && argc == 4) return write_weights(*file, argv[3]), 0;
  json out = json::array();
  for (const json& asked : json::parse(std::cin))
    out.push_back(command == "encode" ? encode(*file, asked) : answer(*file, asked));
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
