// Any bytes as a model file: parsed, bound to roles and planned; then everything that was accepted is
// touched.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "backends/graph/memory_plan.hpp"
#include "backends/model/gguf_outline.hpp"
#include "backends/model/model_file.hpp"

namespace {

volatile std::uint64_t sink = 0;

void touch(std::span<const std::byte> bytes) {
  if (!bytes.empty())
    sink = sink + static_cast<std::uint64_t>(bytes.front()) + static_cast<std::uint64_t>(bytes.back());
}

void touch(const flyball::model::Gguf& file) {
  for (const auto& tensor : file.tensors()) {
    touch(tensor.data);
    if (file.tensor(tensor.name) != &tensor) std::abort();
  }
  for (const auto& [key, value] : file.metadata()) {
    const auto* array = std::get_if<flyball::model::GgufArray>(&value);
    if (array == nullptr) continue;
    touch(array->raw);
    std::size_t i = 0;
    for (const auto string : array->strings) {
      if (array->strings[i++] != string) std::abort();
    }
    if (i != array->strings.size()) std::abort();
    if (array->type == flyball::model::GgufType::string) continue;
    for (std::uint64_t n = 0; n < array->count; ++n)
      sink = sink + static_cast<std::uint64_t>(array->int_at(n));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size, aligned as files are.
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> bytes(begin, begin + size);
  if (const auto gguf = flyball::model::Gguf::parse(bytes)) touch(*gguf);
  if (const auto outline = flyball::model::outline_gguf(bytes)) sink = sink + outline->types.size();
  const auto file = flyball::model::ModelFile::from_bytes(bytes);
  if (!file) {
    if (file.error().message.empty()) std::abort();
    return 0;
  }
  const auto& config = (*file)->config();
  if (config.n_layers != (*file)->weights().n_layers() || config.n_heads % config.n_kv_heads != 0)
    std::abort();
  const auto plan = flyball::graph::plan_memory(config, (*file)->weight_bytes(), {});
  sink = sink + plan.total() + (*file)->main_quantization().size();
  return 0;
}
