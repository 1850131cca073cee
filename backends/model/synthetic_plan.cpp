// The arithmetic of synthetic weights. Each value is a function of (seed, tensor, row, column) alone.
#include "backends/model/synthetic_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numbers>
#include <numeric>

namespace flyball::model {
namespace {

// The likely successor's logit stands this far above the likeliest of the others, in units of their spread,
// and the second successor this far below the first.
constexpr double kLead = 3.5, kSecond = 3.0;
// What all layers add to the stream, over what the embedding has. Engines round activations to 8 bits, each
// in its own blocks, and so agree on the layers' part to some hundredths only: at this share that moves a
// logit by about 1e-2 and seldom turns a choice, while a wrong layer moves it by 0.1. A tied table has no
// successors to lean on, only its layers.
constexpr double kLayerShare = 0.15, kTiedLayerShare = 1.5;
// Beside q, k and v, whose values are of deviation one.
constexpr double kBias = 0.5;
// Deviation of a router's logits: one or two experts have most of the weight, as in a trained mixture.
constexpr double kRouterSpread = 2.0;
// Gemma's files have norms behind blocks, and the embedding table as output, which scores a token by itself
// first, and its neighbours alike in both directions. So here the feed-forwards carry each value of the
// stream shift() places on (the gates are opened by the first value, which is the same for every token), the
// signs of the output norm keep a token from scoring itself, and a row leans to where its two predecessors
// are carried. A row is made of so much of its own, and of each predecessor:
constexpr double kOwn = 0.7, kLeans[] = {0.6, 0.35};
constexpr double kFirstValue = 4.0;  // of the scaled embedding, whose other values are of deviation one
constexpr double kGate = 0.75, kGateSpread = 0.5, kUp = 3.0,
                 kDown = 2.0;  // the carrying weights, besides noise
// What all attention layers, and all feed-forwards, add to the stream, over what the embedding has.
constexpr double kAttentionShare = 0.3, kCarryShare = 2.0;
// Deviation of the logits of what is no successor: with it the rounding of activations, through feed-forwards
// that decide more than elsewhere, moves a logit by about 1e-2 here, too.
constexpr double kLogitSpread = 0.7;
// Scales of files that have them: Granite 3's. The weights make up for the scales, so that the stream and the
// logits are as elsewhere.
constexpr float kEmbeddingScale = 12.0F, kResidualScale = 0.22F, kLogitScale = 8.0F;
constexpr float kQueryShare = 0.5F;  // of what queries are scaled by elsewhere
constexpr float kTemperature = 0.25F;
// So near to what scores and logits are that they bend.
constexpr float kAttentionCap = 4.0F, kLogitCap = 8.0F;
// How much further than its training a file with RoPE scaling claims to reach.
constexpr float kRopeFactor = 4.0F;

// A well-mixed 64-bit hash of a counter: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014.
constexpr std::uint64_t kGolden = 0x9E37'79B9'7F4A'7C15ULL;
std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBULL;
  return x ^ (x >> 31);
}

// values[i] += scale * g(key, first + i), first even, where g is nearly normal: the sum of four bytes,
// centred, over its deviation.
void add_gaussian(std::uint64_t key, double scale, std::span<float> values, std::size_t first = 0) noexcept {
  constexpr float kMean = 510.0F;
  const auto step = static_cast<float>(scale / 147.80054);  // sqrt(4 * (256^2 - 1) / 12)
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const std::uint64_t h = mix(key + ((first + i) / 2 + 1) * kGolden);
    // Bytes added pairwise, then pairs, inside two 32-bit halves.
    const std::uint64_t pairs = (h & 0x00FF'00FF'00FF'00FFULL) + ((h >> 8) & 0x00FF'00FF'00FF'00FFULL);
    const std::uint64_t sums =
        (pairs & 0x0000'FFFF'0000'FFFFULL) + ((pairs >> 16) & 0x0000'FFFF'0000'FFFFULL);
    values[i] += step * (static_cast<float>(sums & 0xFFFF'FFFFU) - kMean);
    if (i + 1 < values.size()) values[i + 1] += step * (static_cast<float>(sums >> 32) - kMean);
  }
}

}  // namespace

SyntheticPlan::SyntheticPlan(const SyntheticSpec& spec)
    : spec_(spec),
      family_(*find_family(spec.architecture)),
      vocab_(make_synthetic_vocab(spec.vocab, spec.infill)),
      head_dim_(spec.head_dim != 0 ? spec.head_dim : spec.dim / spec.heads) {
  spec_.tied = spec.tied || family_.post_norms;
  const auto has = [](InFiles files, bool asked) {
    return files == InFiles::all || (files == InFiles::some && asked);
  };
  shape_.dim = spec.dim;
  shape_.ffn_dim = spec.ffn;
  shape_.n_heads = spec.heads;
  shape_.n_kv_heads = spec.kv_heads;
  shape_.head_dim = head_dim_;
  shape_.vocab_size = spec.vocab;
  shape_.n_experts = spec.experts;
  shape_.expert_ffn_dim = spec.expert_ffn;
  shape_.tied_embeddings = spec_.tied;
  shape_.qkv_bias = has(family_.qkv_bias, spec.biases == 1 || spec.biases == 3);
  shape_.o_bias = has(family_.o_bias, spec.biases == 1 || spec.biases == 2);
  shape_.qk_norm = family_.qk_norm;
  shape_.post_norms = family_.post_norms;
  shape_.fused_matrices = family_.fused_matrices;
  first_step_ = coprime_step(1);
  second_step_ = coprime_step(2);
  write_metadata();
  add_tensors();
  header_ = writer_.header();
  for (auto& tensor : tensors_) tensor.offset += header_.size();
}

void SyntheticPlan::fill_row(std::size_t index, std::uint64_t row, std::span<float> values) const noexcept {
  const auto& tensor = tensors_[index];
  const auto n = static_cast<double>(tensor.cols);
  const bool scaled = tensor.role == Role::output_norm && family_.file_scales;
  const bool norm = tensor.role == Role::norm || tensor.role == Role::output_norm;
  std::ranges::fill(values, scaled ? kLogitScale : norm ? 1.0F : 0.0F);
  const auto norm_of = [&](double share) {
    std::ranges::fill(values, static_cast<float>(share));
    add_gaussian(row_key(index, row), 0.1 * share, values);
  };
  switch (tensor.role) {
    case Role::norm:
      return add_gaussian(row_key(index, row), 0.1, values);
    case Role::output_norm:
      return add_gaussian(row_key(index, row), scaled ? 0.1 * double{kLogitScale} : 0.1, values);
    // A tied table's rows are also the output's: of length one, so that no token merely repeats itself.
    case Role::embedding:
      return add_gaussian(row_key(index, row), spec_.tied ? 1.0 / std::sqrt(n) : 1.0 / embedding_scale(),
                          values);
    case Role::reads:
      return add_gaussian(row_key(index, row), 1.0 / std::sqrt(n), values);
    case Role::adds:
      return add_gaussian(row_key(index, row), layer_share() * std::sqrt(2.0 / (spec_.layers * n)), values);
    case Role::bias:
      return add_gaussian(row_key(index, row), kBias, values);
    case Role::output_bias:
      return add_gaussian(row_key(index, row),
                          layer_share() * std::sqrt(1.0 / (2.0 * static_cast<double>(spec_.layers))), values);
    case Role::router:
      return add_gaussian(row_key(index, row), kRouterSpread / std::sqrt(n), values);
    case Role::output:
      return fill_output_row(index, row, values);
    case Role::leaning_table:
      return fill_leaning_row(index, row, values);
    case Role::carry_gate:
      add_gaussian(row_key(index, row), kGateSpread / std::sqrt(n), values);
      values[0] += static_cast<float>(kGate);
      return;
    case Role::carry_up:
      add_gaussian(row_key(index, row), 1.0 / std::sqrt(n), values);
      values[row % values.size()] += static_cast<float>(kUp);
      return;
    case Role::carry_down: {
      add_gaussian(row_key(index, row), 1.0 / std::sqrt(n), values);
      const std::size_t rounds = std::max<std::size_t>(1, values.size() / spec_.dim);
      for (std::size_t c = (row + shift()) % spec_.dim; c < values.size(); c += spec_.dim)
        values[c] += static_cast<float>(kDown / static_cast<double>(rounds));
      return;
    }
    case Role::attn_post_norm:
      return norm_of(kAttentionShare / std::sqrt(static_cast<double>(spec_.layers)));
    case Role::ffn_post_norm:
      return norm_of(kCarryShare / spec_.layers);
    case Role::signed_norm:
      norm_of(kLogitSpread);
      return flip_signs(values);
    case Role::rope_factors:
      return fill_rope_factors(values);
    case Role::short_factors:
    case Role::long_factors:
      return fill_longrope_factors(tensor.role == Role::long_factors, values);
  }
}

double SyntheticPlan::embedding_scale() const noexcept {
  return family_.file_scales ? double{kEmbeddingScale} : 1.0;
}

double SyntheticPlan::layer_share() const noexcept {
  const double share = spec_.tied ? kTiedLayerShare * embedding_scale() : kLayerShare;
  return family_.file_scales ? share / double{kResidualScale} : share;
}

std::uint64_t SyntheticPlan::row_key(std::size_t tensor, std::uint64_t row) const noexcept {
  return mix(mix(spec_.seed * kGolden + tensor + 1) + row * kGolden);
}

// The successor of a token stands this many further on: so every token is the successor of exactly one.
std::uint64_t SyntheticPlan::coprime_step(std::uint64_t salt) const noexcept {
  std::uint64_t step = mix(spec_.seed + salt * kGolden) % spec_.vocab;
  while (step < 2 || std::gcd(step, std::uint64_t{spec_.vocab}) != 1 || (salt != 1 && step == first_step_)) {
    step = (step + 1) % spec_.vocab;
  }
  return step;
}

void SyntheticPlan::fill_output_row(std::size_t index, std::uint64_t token,
                                    std::span<float> values) const noexcept {
  // A row of zeros: its logit is 0, far below the successors'.
  if (vocab_.types[token] != SyntheticVocab::kNormal) return;
  const auto n = static_cast<double>(values.size());
  add_gaussian(row_key(index, token), 1.0 / std::sqrt(n), values);
  // The normed stream is sqrt(n) long and nearly the embedding of the token before.
  const double lead = std::sqrt(2.0 * std::log(static_cast<double>(spec_.vocab))) + kLead;
  const auto lean = [&](std::uint64_t step, double logit) {
    const auto predecessor = (token + spec_.vocab - step) % spec_.vocab;
    add_gaussian(row_key(0, predecessor), logit / n, values);
  };
  lean(first_step_, lead);
  lean(second_step_, lead - kSecond);
}

void SyntheticPlan::flip_signs(std::span<float> values) const noexcept {
  for (std::size_t i = 0; i < values.size(); ++i)
    if ((mix(spec_.seed + i * kGolden) & 1U) != 0) values[i] = -values[i];
}

void SyntheticPlan::fill_leaning_row(std::size_t index, std::uint64_t token,
                                     std::span<float> values) const noexcept {
  const double length = 1.0 / std::sqrt(static_cast<double>(values.size()));
  const std::size_t cut = values.size() - shift();
  const std::uint64_t steps[] = {first_step_, second_step_};
  for (std::size_t i = 0; i < std::size(steps); ++i) {
    const std::uint64_t key = row_key(index, (token + spec_.vocab - steps[i]) % spec_.vocab);
    add_gaussian(key, kLeans[i] * length, values.first(cut), shift());
    add_gaussian(key, kLeans[i] * length, values.subspan(cut));
  }
  flip_signs(values);
  add_gaussian(row_key(index, token), kOwn * length, values);
  values[0] = static_cast<float>(kFirstValue * length);
}

// Llama 3.1's divisors, as its converter writes them: 1 for frequencies that turn more than 4 times over the
// original context, the factor for those that turn less than once, a blend between.
void SyntheticPlan::fill_rope_factors(std::span<float> values) const noexcept {
  constexpr double kFactor = 8.0, kLow = 1.0, kHigh = 4.0;
  const double original = original_context();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double frequency =
        std::pow(static_cast<double>(spec_.rope_base), -2.0 * static_cast<double>(i) / rope_dim());
    const double turns = original * frequency / (2.0 * std::numbers::pi);
    const double blend = std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
    values[i] = static_cast<float>(1.0 / ((1.0 - blend) / kFactor + blend));
  }
}

// Growing towards slow frequencies, for long contexts more: so LongRoPE's search has found them for Phi-3.
void SyntheticPlan::fill_longrope_factors(bool of_long, std::span<float> values) const noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double at = static_cast<double>(i) / static_cast<double>(values.size());
    values[i] = static_cast<float>(of_long ? 1.0 + 2.0 * kRopeFactor * at : 1.0 + 0.25 * at);
  }
}

std::uint32_t SyntheticPlan::original_context() const noexcept {
  return static_cast<std::uint32_t>(static_cast<float>(spec_.context) / kRopeFactor);
}

void SyntheticPlan::write_rope() {
  const auto key = [&](std::string_view name) { return spec_.architecture + "." + std::string(name); };
  writer_.set_u32(key("rope.dimension_count"), rope_dim());
  writer_.set_f32(key("rope.freq_base"), spec_.rope_base);
  if (spec_.rope == RopeScaling::linear || spec_.rope == RopeScaling::yarn) {
    writer_.set_string(key("rope.scaling.type"), spec_.rope == RopeScaling::yarn ? "yarn" : "linear");
    writer_.set_f32(key("rope.scaling.factor"), kRopeFactor);
  }
  if (family_.yarn_log_multiplier && spec_.rope == RopeScaling::yarn)
    writer_.set_f32(key("rope.scaling.yarn_log_multiplier"), 1.0F);
  if (spec_.rope == RopeScaling::longrope) {  // as Phi-3's converter has it
    const double original = original_context();
    const double factor = std::sqrt(1.0 + std::log(static_cast<double>(kRopeFactor)) / std::log(original));
    writer_.set_f32(key("rope.scaling.attn_factor"), static_cast<float>(factor));
  }
  if (spec_.rope != RopeScaling::none && spec_.rope != RopeScaling::llama3)
    writer_.set_u32(key("rope.scaling.original_context_length"), original_context());
}

void SyntheticPlan::write_metadata() {
  const auto key = [&](std::string_view name) { return spec_.architecture + "." + std::string(name); };
  writer_.set_string("general.architecture", spec_.architecture);
  // Phi-3's name would say that special tokens swallow white space, which this vocabulary's do not.
  const bool phi3 = spec_.name.find("phi3") != std::string::npos;
  writer_.set_string("general.name", phi3 ? "synthetic" : "synthetic " + spec_.name);
  writer_.set_u32("general.file_type", kernels::row_of(spec_.type).file_type);
  writer_.set_u32("general.quantization_version", 2);
  writer_.set_u32(key("block_count"), spec_.layers);
  writer_.set_u32(key("context_length"), spec_.context);
  writer_.set_u32(key("embedding_length"), spec_.dim);
  // Experts of a family that is dense, too, have no length of their own: Mixtral's.
  const bool mixtral = spec_.experts > 0 && family_.experts == InFiles::some;
  writer_.set_u32(key("feed_forward_length"), mixtral ? spec_.expert_ffn : spec_.ffn);
  writer_.set_u32(key("attention.head_count"), spec_.heads);
  writer_.set_u32(key("attention.head_count_kv"), spec_.kv_heads);
  writer_.set_u32(key("attention.key_length"), head_dim_);
  writer_.set_u32(key("attention.value_length"), head_dim_);
  writer_.set_f32(key("attention.layer_norm_rms_epsilon"), 1e-5F);
  if (family_.file_scales) {
    writer_.set_f32(key("embedding_scale"), kEmbeddingScale);
    writer_.set_f32(key("residual_scale"), kResidualScale);
    writer_.set_f32(key("logit_scale"), kLogitScale);
    writer_.set_f32(key("attention.scale"), kQueryShare / std::sqrt(static_cast<float>(head_dim_)));
  }
  if (family_.query_temperature) writer_.set_f32(key("attention.temperature_scale"), kTemperature);
  if (family_.attention_cap.value_or(0.0F) != 0.0F)
    writer_.set_f32(key("attn_logit_softcapping"), kAttentionCap);
  if (family_.logit_cap.value_or(0.0F) != 0.0F) writer_.set_f32(key("final_logit_softcapping"), kLogitCap);
  if (spec_.window != 0) writer_.set_u32(key("attention.sliding_window"), spec_.window);
  writer_.set_u32(key("vocab_size"), spec_.vocab);
  if (spec_.experts > 0) {
    writer_.set_u32(key("expert_count"), spec_.experts);
    writer_.set_u32(key("expert_used_count"), spec_.experts_used);
    if (!mixtral) writer_.set_u32(key("expert_feed_forward_length"), spec_.expert_ffn);
  }
  write_rope();
  write_vocab(vocab_, spec_.chat_template, writer_);
}

void SyntheticPlan::add(std::string_view name, Role role, kernels::DType type,
                        std::span<const std::uint64_t> dims) {
  std::uint64_t rows = 1;
  for (const std::uint64_t dim : dims.subspan(1)) rows *= dim;
  const auto index = writer_.add_tensor(name, type, dims);
  tensors_.push_back({role, type, rows, dims[0], writer_.tensor_offset(index)});
}

void SyntheticPlan::add_vector(std::string_view name, Role role, std::uint64_t size) {
  add(name, role, kernels::DType::f32, {&size, 1});
}

SyntheticPlan::Role SyntheticPlan::role_of(WeightRole weight) const noexcept {
  switch (weight) {
    case WeightRole::token_embedding:
      return carries() ? Role::leaning_table : Role::embedding;
    case WeightRole::output:
      return Role::output;
    case WeightRole::output_norm:
      return carries() ? Role::signed_norm : Role::output_norm;
    case WeightRole::attn_post_norm:
      return Role::attn_post_norm;
    case WeightRole::ffn_post_norm:
      return Role::ffn_post_norm;
    case WeightRole::attn_norm:
    case WeightRole::ffn_norm:
    case WeightRole::q_norm:
    case WeightRole::k_norm:
      return Role::norm;
    case WeightRole::q_bias:
    case WeightRole::k_bias:
    case WeightRole::v_bias:
      return Role::bias;
    case WeightRole::o_bias:
      return Role::output_bias;
    case WeightRole::router:
      return Role::router;
    case WeightRole::gate:
      return carries() ? Role::carry_gate : Role::reads;
    case WeightRole::up:
      return carries() ? Role::carry_up : Role::reads;
    case WeightRole::down:
      return carries() ? Role::carry_down : Role::adds;
    case WeightRole::o:
    case WeightRole::expert_down:
      return Role::adds;
    case WeightRole::q:
    case WeightRole::k:
    case WeightRole::v:
    case WeightRole::expert_gate:
    case WeightRole::expert_up:
    case WeightRole::count:
      return Role::reads;
  }
  return Role::reads;
}

void SyntheticPlan::add_weight(WeightRole weight, std::uint32_t layer) {
  const RoleFacts& facts = facts_of(weight);
  const FusedRoles* fused = fused_with(shape_, weight);
  if (!has_weight(shape_, weight) || (fused != nullptr && fused->parts[0] != weight)) return;
  std::uint64_t rows = size_of(shape_, facts.rows);
  for (std::size_t i = 1; fused != nullptr && i < fused->n; ++i)
    rows += size_of(shape_, facts_of(fused->parts[i]).rows);
  const std::string_view name = fused != nullptr ? fused->name : facts.name;
  const std::string full = facts.of_layer ? layer_tensor_name(layer, name) : std::string(name);
  const std::uint64_t cols = size_of(shape_, facts.cols);
  if (facts.kind == WeightKind::vector) return add_vector(full, role_of(weight), cols);
  const std::uint64_t dims[] = {cols, rows, spec_.experts};
  const auto type = weight == WeightRole::router ? kernels::DType::f32 : spec_.type;
  add(full, role_of(weight), type, std::span(dims).first(facts.kind == WeightKind::experts ? 3 : 2));
}

void SyntheticPlan::add_tensors() {
  add_weight(WeightRole::token_embedding, 0);  // first: fill_output_row counts on it
  for (std::uint32_t layer = 0; layer < spec_.layers; ++layer)
    for (const RoleFacts& facts : kWeightRoles)
      if (facts.of_layer) add_weight(facts.role, layer);
  add_weight(WeightRole::output_norm, 0);
  add_weight(WeightRole::output, 0);
  if (spec_.rope == RopeScaling::llama3) add_vector(kRopeFrequencies, Role::rope_factors, rope_dim() / 2);
  if (spec_.rope == RopeScaling::longrope) {
    add_vector(kRopeFactorsLong, Role::long_factors, rope_dim() / 2);
    add_vector(kRopeFactorsShort, Role::short_factors, rope_dim() / 2);
  }
}

}  // namespace flyball::model
