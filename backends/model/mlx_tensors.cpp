// Modules' names: mlx-lm, models/llama.py, qwen2.py, qwen3.py, qwen3_moe.py and mixtral.py.
#include "backends/model/mlx_tensors.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <map>

#include "backends/model/invalid.hpp"
#include "backends/model/model_config.hpp"
#include "backends/model/weight_roles.hpp"
#include "kernels/formats/dequantize.hpp"

namespace flyball::model {
namespace {

using kernels::DType;
constexpr std::string_view kLayers = "model.layers.";
constexpr std::string_view kHead = facts_of(WeightRole::output).module;
constexpr std::string_view kMixture = "block_sparse_moe.";     // Mixtral's name for mlp.
constexpr std::string_view kIgnored = ".rotary_emb.inv_freq";  // in older files, and computed anyway
constexpr std::uint64_t kMaxVector = kMaxFfnDim;               // values of a norm or a bias

// The part of a tensor's name behind its last dot.
std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

// The GGUF name of a module's weight or bias; "" where there is none.
std::string gguf_name(std::string_view module, std::string_view what) {
  const auto find = [&](std::string_view name, bool of_layer) {
    const auto* row = std::ranges::find_if(kWeightRoles, [&](const RoleFacts& facts) {
      return facts.of_layer == of_layer && !name.empty() && facts.module == name &&
             last_part(facts.name) == what;
    });
    return row == std::end(kWeightRoles) ? std::string_view() : row->name;
  };
  if (!module.starts_with(kLayers)) return std::string(find(module, false));
  module.remove_prefix(kLayers.size());
  std::uint32_t index = 0;
  const auto [end, error] = std::from_chars(module.data(), module.data() + module.size(), index);
  if (error != std::errc() || end == module.data() + module.size() || *end != '.') return {};
  if (index >= kMaxLayers || (end - module.data() > 1 && module.front() == '0')) return {};
  module.remove_prefix(static_cast<std::size_t>(end - module.data()) + 1);
  const bool mixture = module.starts_with(kMixture);
  const auto name =
      mixture ? find("mlp." + std::string(module.substr(kMixture.size())), true) : find(module, true);
  return name.empty() ? std::string() : layer_tensor_name(index, name);
}

std::unexpected<Error> refuse_tensor(std::string_view name, const std::string& what) {
  return invalid("the tensor " + printable(name) + " " + what, printable(name));
}

// What a module has, by the last part of the tensors' names.
struct Module {
  const SafeTensor *weight = nullptr, *scales = nullptr, *biases = nullptr, *bias = nullptr;
};

std::optional<DType> float_type(std::string_view dtype) {
  if (dtype == "F32") return DType::f32;
  if (dtype == "F16") return DType::f16;
  if (dtype == "BF16") return DType::bf16;
  return std::nullopt;
}

// Row-major shapes, the contiguous dimension last, as GGUF has them: first.
void set_dims(GgufTensor& out, const std::vector<std::uint64_t>& shape, std::uint64_t columns) {
  out.n_dims = static_cast<std::uint32_t>(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) out.dims[d] = shape[shape.size() - 1 - d];
  out.dims[0] = columns;
}

class Translator {
 public:
  Translator(const MlxConfig& config, MlxTensorStorage& storage) : config_(config), storage_(storage) {}

  // A matrix as it lies, or a norm or bias widened.
  Result<GgufTensor> plain(const SafeTensor& tensor, std::string name) {
    const auto type = float_type(tensor.dtype);
    if (!type)
      return refuse_tensor(tensor.name,
                           "is " + printable(tensor.dtype) + "; without scales it must be F32, F16 or BF16");
    if (tensor.shape.empty()) return refuse_tensor(tensor.name, "is a single value");
    GgufTensor out = named(std::move(name));
    out.type = *type;
    out.data = tensor.data;
    set_dims(out, tensor.shape, tensor.shape.back());
    if (tensor.shape.size() > 1) return out;
    if (out.dims[0] > kMaxVector)
      return refuse_tensor(tensor.name, "has " + std::to_string(out.dims[0]) + " values, the limit is " +
                                            std::to_string(kMaxVector));
    auto& values = storage_.vectors.emplace_back(out.dims[0]);
    kernels::dequantize_row(*type, tensor.data.data(), values.size(), values.data());
    out.type = DType::f32;
    out.data = std::as_bytes(std::span(values));
    return out;
  }

  Result<GgufTensor> quantized(std::string_view module, const Module& m, std::string name) {
    const SafeTensor& codes = *m.weight;
    if (m.biases == nullptr)
      return refuse_tensor(codes.name, "has scales and no biases: not MLX's affine groups");
    auto type = config_.quantized;
    if (const auto it = config_.quantized_otherwise.find(module); it != config_.quantized_otherwise.end())
      type = it->second;
    if (!type)
      return refuse_tensor(codes.name, "has scales, but config.json does not say how it is quantized");
    const kernels::Affine affine = *kernels::affine_of(*type);
    if (codes.dtype != "U32")
      return refuse_tensor(codes.name, "has scales and is " + codes.dtype + ", not U32");
    const auto scale_type = float_type(m.scales->dtype);
    if (!scale_type || m.biases->dtype != m.scales->dtype)
      return refuse_tensor(m.scales->name, "is " + m.scales->dtype + " and the biases " + m.biases->dtype +
                                               "; both must be one of F32, F16 and BF16");
    // Rows of words against rows of groups. Both are below a file's size: no product here overflows.
    const auto& shape = codes.shape;
    const auto& groups = m.scales->shape;
    const bool alike = shape.size() >= 2 && shape.size() == groups.size() && groups == m.biases->shape &&
                       std::equal(shape.begin(), shape.end() - 1, groups.begin());
    if (!alike) return refuse_tensor(codes.name, "has not the rows of its scales and biases");
    const std::uint64_t columns = groups.back() * affine.group;
    if (shape.back() * 32 != columns * affine.bits)
      return refuse_tensor(codes.name, "has rows of " + std::to_string(shape.back()) + " words and " +
                                           std::to_string(groups.back()) + " groups, which " +
                                           std::string(to_string(*type)) + " has not");
    GgufTensor out = named(std::move(name));
    out.type = *type;
    set_dims(out, shape, columns);
    out.data = codes.data;
    out.scales = m.scales->data;
    out.biases = m.biases->data;
    out.scale_type = *scale_type;
    return out;
  }

 private:
  GgufTensor named(std::string name) {
    GgufTensor out;
    out.name = storage_.names.emplace_back(std::move(name));
    return out;
  }

  const MlxConfig& config_;
  MlxTensorStorage& storage_;
};

Result<std::map<std::string_view, Module>> by_module(const std::vector<SafeTensor>& tensors) {
  std::map<std::string_view, Module> modules;
  for (const SafeTensor& tensor : tensors) {
    const std::string_view name = tensor.name;
    if (name.ends_with(kIgnored)) continue;
    const std::size_t dot = name.rfind('.');
    const auto what = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
    Module& module = modules[name.substr(0, dot)];
    const SafeTensor*& slot = what == "weight"   ? module.weight
                              : what == "scales" ? module.scales
                              : what == "biases" ? module.biases
                                                 : module.bias;
    if (slot != nullptr) return refuse_tensor(name, "appears twice");
    if (&slot == &module.bias && what != "bias") return refuse_tensor(name, "is none that this build knows");
    slot = &tensor;
  }
  return modules;
}

}  // namespace

Result<std::vector<GgufTensor>> translate_mlx_tensors(const std::vector<SafeTensor>& tensors,
                                                      const MlxConfig& config, MlxTensorStorage& storage) {
  auto modules = by_module(tensors);
  if (!modules) return pass(modules);
  if (config.tied.value_or(false)) modules->erase(kHead);  // kept by some converters, and not used
  if (config.tied == false && !modules->contains(kHead))
    return invalid("config.json: tie_word_embeddings is false, but the tensor lm_head.weight is missing",
                   "lm_head.weight");
  Translator translate(config, storage);
  std::vector<GgufTensor> out;
  for (const auto& [name, module] : *modules) {
    const SafeTensor* any = module.weight ? module.weight : module.bias ? module.bias : module.scales;
    if (any == nullptr) any = module.biases;
    auto weight_name = gguf_name(name, "weight");
    if (weight_name.empty()) return refuse_tensor(any->name, "is none that this build knows");
    if (module.weight == nullptr) return refuse_tensor(any->name, "has no weight beside it");
    if (module.scales == nullptr && module.biases != nullptr)
      return refuse_tensor(module.biases->name, "has no scales beside it");
    auto weight = module.scales != nullptr ? translate.quantized(name, module, std::move(weight_name))
                                           : translate.plain(*module.weight, std::move(weight_name));
    if (!weight) return pass(weight);
    out.push_back(*weight);
    if (module.bias == nullptr) continue;
    auto bias_name = gguf_name(name, "bias");
    if (bias_name.empty()) return refuse_tensor(module.bias->name, "is none that this build knows");
    auto bias = translate.plain(*module.bias, std::move(bias_name));
    if (!bias) return pass(bias);
    out.push_back(*bias);
  }
  return out;
}

std::string mlx_tensor_name(std::string_view gguf_name) {
  std::string prefix;
  std::string_view name = gguf_name;
  constexpr std::string_view kBlock = "blk.";
  if (const auto dot = name.find('.', kBlock.size());
      name.starts_with(kBlock) && dot != std::string_view::npos) {
    prefix = std::string(kLayers) + std::string(name.substr(kBlock.size(), dot - kBlock.size())) + ".";
    name.remove_prefix(dot + 1);
  }
  for (const RoleFacts& facts : kWeightRoles)
    if (facts.name == name && facts.of_layer == !prefix.empty() && !facts.module.empty())
      return prefix + std::string(facts.module) + "." + std::string(last_part(name));
  return {};
}

}  // namespace flyball::model
