#include "backends/model/rope_config.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "backends/model/invalid.hpp"
#include "backends/model/model_config.hpp"
#include "backends/model/weight_roles.hpp"

namespace flyball::model {
namespace {

// A divisor for each frequency. Absent: empty.
Result<std::vector<float>> read_factors(const Gguf& file, std::string_view tensor_name, std::uint32_t dim) {
  std::vector<float> factors;
  const auto* tensor = file.tensor(tensor_name);
  if (tensor == nullptr) return factors;
  const std::string name(tensor_name);
  if (tensor->type != kernels::DType::f32 || tensor->dims[0] != dim / 2 || tensor->rows() != 1)
    return invalid("the tensor " + name + " must be F32 of " + std::to_string(dim / 2) + " values", name);
  factors.resize(tensor->dims[0]);
  std::memcpy(factors.data(), tensor->data.data(), tensor->data.size());
  for (const float factor : factors)
    if (!std::isfinite(factor) || factor <= 0.0F)
      return invalid("the tensor " + name + " has a factor that is not positive", name);
  return factors;
}

Result<void> read_frequency_factors(const Gguf& file, KeyReader& keys, const std::string& type,
                                    RopeConfig& rope) {
  const auto take = [&](std::string_view name, std::vector<float>& to) -> Result<void> {
    auto factors = read_factors(file, name, rope.dim);
    if (!factors) return pass(factors);
    to = std::move(*factors);
    return {};
  };
  std::vector<float> shorter;
  if (auto ok = take(kRopeFrequencies, rope.frequency_factors); !ok) return pass(ok);
  if (auto ok = take(kRopeFactorsShort, shorter); !ok) return pass(ok);
  if (auto ok = take(kRopeFactorsLong, rope.long_factors); !ok) return pass(ok);
  const bool llama3 = !rope.frequency_factors.empty(), longrope = !shorter.empty();
  if (longrope != !rope.long_factors.empty() || (type == "longrope" && !longrope))
    return invalid("RoPE scaling by LongRoPE needs both of the tensors " + std::string(kRopeFactorsLong) +
                       " and " + std::string(kRopeFactorsShort),
                   keys.key("rope.scaling.type"));
  if (longrope && (llama3 || rope.scaling != RopeScaling::none))
    return invalid("LongRoPE's factors beside another RoPE scaling, which this build does not read",
                   keys.key("rope.scaling.type"));
  if (longrope) {
    rope.frequency_factors = std::move(shorter);
    rope.scaling = RopeScaling::longrope;
  } else if (llama3 && rope.scaling == RopeScaling::none) {
    rope.scaling = RopeScaling::llama3;
  }
  return {};
}

}  // namespace

Result<RopeConfig> read_rope(const Gguf& file, KeyReader& keys, std::uint32_t head_dim,
                             std::uint32_t context_length) {
  RopeConfig rope;
  rope.dim = keys.count("rope.dimension_count", head_dim, head_dim);
  // Some converters of Gemma 3, Ollama's among them, name the bases of global and local layers apart.
  rope.base = keys.number("rope.freq_base", 2.0F, 1e12F,
                          keys.number("rope.global.freq_base", 2.0F, 1e12F, 10'000.0F));
  const auto type = keys.text("rope.scaling.type");
  // rope.scale_linear is the older spelling of the factor.
  const bool legacy = !keys.has("rope.scaling.factor");
  float factor = keys.number_or_off(legacy ? "rope.scale_linear" : "rope.scaling.factor", 1e-3F, 1e6F, 1.0F);
  if (factor == 0.0F) factor = 1.0F;
  rope.attn_factor = keys.number("rope.scaling.attn_factor", 1e-3F, 1e3F, 1.0F);
  rope.original_context = keys.count("rope.scaling.original_context_length", kMaxContext, context_length);
  rope.beta_fast = keys.number("rope.scaling.yarn_beta_fast", 1e-3F, 1e6F, rope.beta_fast);
  rope.beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1e-3F, 1e6F, rope.beta_slow);
  if (keys.error()) return std::unexpected(*keys.error());
  if (rope.dim % 2 != 0) {
    return invalid("rope.dimension_count is " + std::to_string(rope.dim) + "; it must be even",
                   keys.key("rope.dimension_count"));
  }
  if (factor != 1.0F && (type.empty() || type == "linear" || type == "longrope")) {
    rope.scaling = RopeScaling::linear;
    rope.factor = factor;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.factor = factor;
  } else if (!type.empty() && type != "none" && type != "linear" && type != "longrope") {
    return invalid(
        "the RoPE scaling type " + printable(type) + " is not one of none, linear, yarn and longrope",
        keys.key("rope.scaling.type"));
  }
  if (auto ok = read_frequency_factors(file, keys, type, rope); !ok) return pass(ok);
  return rope;
}

}  // namespace flyball::model
