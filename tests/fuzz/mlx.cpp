// Any bytes as the files of an MLX directory, in parts that each end with the line "----": config.json,
// tokenizer.json, tokenizer_config.json, then safetensors files. What is accepted is dequantized, and
// tokenizes.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "backends/model/model_file.hpp"
#include "backends/text/tokenizer.hpp"
#include "kernels/formats/dequantize.hpp"

namespace {

volatile float sink = 0;

void touch(const flyball::model::ModelFile& file) {
  for (const auto& tensor : file.gguf().tensors()) {
    const flyball::kernels::SourceRows rows(tensor.data.data(), tensor.scales.data(), tensor.biases.data(),
                                            tensor.scale_type);
    std::vector<float> values(tensor.dims[0]);
    for (std::uint64_t r = 0; r < tensor.rows(); ++r) {
      flyball::kernels::dequantize_row(tensor.type, rows.after(tensor.type, r, values.size()), values.size(),
                                       values.data());
      sink = sink + values.back();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kEnd = "\n----\n";
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::vector<char>> parts;  // each exactly of its size
  while (true) {
    const std::size_t end = text.find(kEnd);
    const auto part = text.substr(0, end);
    parts.emplace_back(part.begin(), part.end());
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + kEnd.size());
  }
  parts.resize(std::max<std::size_t>(parts.size(), 4));
  const auto view = [&](std::size_t i) { return std::string_view(parts[i].data(), parts[i].size()); };
  flyball::model::MlxFiles files;
  files.config = view(0);
  files.tokenizer = view(1);
  files.tokenizer_config = view(2);
  (void)flyball::model::read_mlx_index(view(0));
  for (std::size_t i = 3; i < parts.size(); ++i)
    files.shards.push_back({"part", std::as_bytes(std::span(parts[i]))});
  const auto file = flyball::model::ModelFile::from_mlx(files);
  if (!file) {
    if (file.error().message.empty()) std::abort();
    return 0;
  }
  touch(**file);
  if (const auto tokenizer = flyball::text::Tokenizer::load((*file)->gguf()); tokenizer)
    for (const auto token : (*tokenizer)->encode("the thing </s> \xE6\x97\xA5", {}))
      sink = sink + static_cast<float>(token);
  return 0;
}
