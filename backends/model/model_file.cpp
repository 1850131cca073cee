// Binding a file's tensors to their roles. Every tensor of the file has to be understood: one that is not (a
// bias, an adapter) would change what the model computes, so it is refused by name rather than passed over.
#include "backends/model/model_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <new>
#include <system_error>
#include <unordered_set>

#include "backends/model/mlx_directory.hpp"
#include "backends/model/pin.hpp"
#include "backends/model/split.hpp"

namespace flyball::model {
namespace {

std::string shape_text(std::uint64_t experts, std::uint64_t rows, std::uint64_t cols) {
  return "[" + (experts == 1 ? "" : std::to_string(experts) + ", ") + std::to_string(rows) + ", " +
         std::to_string(cols) + "]";
}

// Finds tensors by name and checks their shapes; remembers which were asked for, and the first thing wrong.
class Binder {
 public:
  explicit Binder(const Gguf& file) : file_(&file) {}

  Weight weight(const ModelConfig& config, WeightRef ref) {
    const RoleFacts& facts = facts_of(ref.role);
    const std::string name =
        facts.of_layer ? layer_tensor_name(ref.layer, facts.name) : std::string(facts.name);
    const std::uint32_t experts = facts.kind == WeightKind::experts ? config.n_experts : 1;
    const Weight out = bind(name, experts, size_of(config, facts.rows), size_of(config, facts.cols));
    // Norms and biases enter the arithmetic as they are, so they are F32, as every converter writes them.
    if (facts.kind == WeightKind::vector && out.data != nullptr && out.type != kernels::DType::f32)
      return refuse(
          "the tensor " + name + " is " + std::string(to_string(out.type)) + "; a norm or a bias must be F32",
          name);
    return out;
  }
  // Rows of one tensor as a matrix for each of its roles.
  void split(const ModelConfig& config, const FusedRoles& fused, std::uint32_t layer, ModelWeights& to) {
    const auto rows_of = [&](std::size_t i) { return size_of(config, facts_of(fused.parts[i]).rows); };
    std::uint32_t rows = 0;
    for (std::size_t i = 0; i < fused.n; ++i) rows += rows_of(i);  // counts of model_config: no overflow
    const std::uint32_t cols = size_of(config, facts_of(fused.parts[0]).cols);
    const Weight whole = bind(layer_tensor_name(layer, fused.name), 1, rows, cols);
    if (whole.data == nullptr) return;
    std::uint32_t at = 0;
    for (std::size_t i = 0; i < fused.n; ++i) {
      Weight& part = to[{fused.parts[i], layer}];
      part = whole;
      part.rows = rows_of(i);
      const kernels::SourceRows source = whole.source().after(whole.type, at, cols);
      part.data = source.data;
      part.scales = source.scales;
      part.biases = source.biases;
      at += part.rows;
    }
  }

  // Each expert by itself, as files of Mixtral's first months have them.
  void refuse_separate_experts(std::uint32_t layer) {
    const auto first = layer_tensor_name(layer, "ffn_gate.0.weight");
    if (file_->tensor(first) == nullptr) return;
    refuse("the file has each expert in a tensor of its own (" + first +
               "), an old layout that this build does not read; convert the model again",
           first);
  }

  Result<void> finish(const ModelConfig& config) {
    if (error_) return std::unexpected(*error_);
    for (const std::string_view read : {kRopeFrequencies, kRopeFactorsShort, kRopeFactorsLong})
      bound_.insert(read);  // by read_model_config
    for (const auto& tensor : file_->tensors()) {
      if (!bound_.contains(tensor.name)) {
        return fail(ErrorCode::model_invalid,
                    "the tensor " + printable(tensor.name) + " is none that a " + config.architecture +
                        " model of this shape has",
                    {}, printable(tensor.name));
      }
    }
    return {};
  }
  bool failed() const noexcept { return error_.has_value(); }

 private:
  Weight bind(std::string_view name, std::uint32_t experts, std::uint32_t rows, std::uint32_t cols) {
    const auto* tensor = file_->tensor(name);
    if (tensor == nullptr) return refuse("the tensor " + std::string(name) + " is missing", name);
    bound_.insert(tensor->name);
    const auto* dims = tensor->dims;
    if (dims[0] != cols || dims[1] != rows || dims[2] != experts || dims[3] != 1) {
      return refuse("the tensor " + std::string(name) + " has the shape " +
                        shape_text(dims[2] * dims[3], dims[1], dims[0]) + " where the metadata asks for " +
                        shape_text(experts, rows, cols),
                    name);
    }
    return {.type = tensor->type,
            .rows = rows,
            .cols = cols,
            .data = tensor->data.data(),
            .experts = experts,
            .scales = tensor->scales.data(),
            .biases = tensor->biases.data(),
            .scale_type = tensor->scale_type};
  }

  Weight refuse(std::string message, std::string_view name) {
    if (!error_) error_ = Error{ErrorCode::model_invalid, std::move(message), {}, std::string(name)};
    return {};
  }

  const Gguf* file_;
  std::unordered_set<std::string_view> bound_;
  std::optional<Error> error_;
};

Result<ModelWeights> bind_weights(const Gguf& file, const ModelConfig& config) {
  Binder bind(file);
  ModelWeights weights(config.n_layers);
  for (const RoleFacts& facts : kWeightRoles)
    if (!facts.of_layer && has_weight(config, facts.role))
      weights[{facts.role}] = bind.weight(config, {facts.role});
  if (config.tied_embeddings) weights[{WeightRole::output}] = weights[{WeightRole::token_embedding}];
  for (std::uint32_t layer = 0; layer < config.n_layers && !bind.failed(); ++layer) {
    if (config.n_experts > 0) bind.refuse_separate_experts(layer);
    for (const RoleFacts& facts : kWeightRoles) {
      if (!facts.of_layer || !has_weight(config, facts.role)) continue;
      const FusedRoles* fused = fused_with(config, facts.role);
      if (fused == nullptr)
        weights[{facts.role, layer}] = bind.weight(config, {facts.role, layer});
      else if (fused->parts[0] == facts.role)
        bind.split(config, *fused, layer, weights);
    }
  }
  if (auto ok = bind.finish(config); !ok) return pass(ok);
  return weights;
}

// What parsing allocates is bounded (gguf.hpp, mlx.hpp), but the machine may have nothing left. The message
// fits a string without allocating.
template <class Read>
Result<std::unique_ptr<ModelFile>> unless_out_of_memory(Read&& read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    return std::unexpected(Error{ErrorCode::insufficient_memory, "out of memory", {}, {}});
  }
}

}  // namespace

Result<std::unique_ptr<ModelFile>> ModelFile::open(const std::filesystem::path& path,
                                                   std::string_view sha256) {
  std::error_code ignored;  // what is no directory is refused, or read, as a file
  if (!std::filesystem::is_directory(path, ignored))
    return unless_out_of_memory([&] { return read_path(path, sha256); });
  if (!sha256.empty())
    return fail(ErrorCode::invalid_value, path.string() + " is a directory, which has no SHA-256 of its own.",
                "sha256", path.string());
  return unless_out_of_memory([&] { return read_directory(path); });
}

Result<std::unique_ptr<ModelFile>> ModelFile::from_bytes(std::span<const std::byte> bytes) {
  return unless_out_of_memory([&] { return read_gguf({bytes}); });
}

Result<std::unique_ptr<ModelFile>> ModelFile::from_shards(
    const std::vector<std::span<const std::byte>>& shards) {
  return unless_out_of_memory([&] { return read_gguf(shards); });
}

Result<std::unique_ptr<ModelFile>> ModelFile::from_mlx(const MlxFiles& files) {
  return unless_out_of_memory([&] { return read_files(files); });
}

Result<std::unique_ptr<ModelFile>> ModelFile::read_path(const std::filesystem::path& path,
                                                        std::string_view sha256) {
  auto first = MappedFile::open(path);
  if (!first) return pass(first);
  auto gguf = Gguf::parse(first->bytes());
  if (!gguf) return pass(gguf);
  auto files = sibling_shards(path, *gguf);
  if (!files) return pass(files);
  std::vector<MappedFile> mappings;
  mappings.push_back(std::move(*first));
  for (std::size_t i = 1; i < files->size(); ++i) {
    auto shard = MappedFile::open((*files)[i]);
    if (!shard) {
      Error error = std::move(shard.error());
      error.message = "shard " + std::to_string(i + 1) + " of " + std::to_string(files->size()) +
                      " of the model is missing or cannot be read: " + error.message;
      return std::unexpected(std::move(error));
    }
    mappings.push_back(std::move(*shard));
  }
  if (!sha256.empty())
    if (auto same = check_sha256(mappings, sha256, path); !same) return pass(same);
  std::vector<std::span<const std::byte>> shards;
  for (const MappedFile& mapping : mappings) shards.push_back(mapping.bytes());
  auto file = read_gguf(shards, std::move(*gguf));
  if (file) (*file)->mappings_ = std::move(mappings);
  return file;
}

Result<std::unique_ptr<ModelFile>> ModelFile::read_gguf(const std::vector<std::span<const std::byte>>& shards,
                                                        std::optional<Gguf> first) {
  std::vector<Gguf> parsed;
  if (first) parsed.push_back(std::move(*first));
  for (std::size_t i = parsed.size(); i < shards.size(); ++i) {
    auto gguf = Gguf::parse(shards[i]);
    if (!gguf) {
      Error error = std::move(gguf.error());
      if (shards.size() > 1)
        error.message = "shard " + std::to_string(parsed.size() + 1) + " of " +
                        std::to_string(shards.size()) + ": " + error.message;
      return std::unexpected(std::move(error));
    }
    parsed.push_back(std::move(*gguf));
  }
  auto gguf = join_shards(shards.front(), std::move(parsed));
  if (!gguf) return pass(gguf);
  std::unique_ptr<ModelFile> file(new ModelFile);
  file->storage_ = shards;
  file->gguf_ = std::move(*gguf);
  auto config = read_model_config(file->gguf_);
  if (!config) return pass(config);
  file->config_ = std::move(*config);
  if (auto ok = file->bind(); !ok) return pass(ok);
  return file;
}

Result<std::unique_ptr<ModelFile>> ModelFile::read_files(const MlxFiles& files) {
  auto mlx = read_mlx(files);
  if (!mlx) return pass(mlx);
  std::unique_ptr<ModelFile> file(new ModelFile);
  for (const auto& shard : files.shards) file->storage_.push_back(shard.bytes);
  file->gguf_ = std::move(mlx->gguf);
  file->config_ = std::move(mlx->config);
  file->mlx_ = std::move(mlx->storage);
  if (auto ok = file->bind(); !ok) return std::unexpected(in_mlx_terms(std::move(ok.error())));
  return file;
}

Result<std::unique_ptr<ModelFile>> ModelFile::read_directory(const std::filesystem::path& path) {
  auto directory = map_mlx_directory(path);
  if (!directory) return pass(directory);
  auto file = read_files(directory->files);
  if (file) (*file)->mappings_ = std::move(directory->shards);
  return file;
}

Result<void> ModelFile::bind() {
  auto weights = bind_weights(gguf_, config_);
  if (!weights) return pass(weights);
  weights_ = std::move(*weights);
  if (config_.logit_scale != 1.0F) {
    Weight& norm = weights_[{WeightRole::output_norm}];
    output_norm_.resize(norm.cols);
    std::memcpy(output_norm_.data(), norm.data, norm.cols * sizeof(float));
    for (float& value : output_norm_) value /= config_.logit_scale;
    norm.data = reinterpret_cast<const std::byte*>(output_norm_.data());
  }
  for (const auto& tensor : gguf_.tensors()) {
    // Cannot overflow: each is at most the files' bytes times 4, and they do not overlap.
    parameters_ += tensor.dims[0] * tensor.rows();
    weight_bytes_ += tensor.bytes();
  }
  return {};
}

std::span<const std::byte> ModelFile::storage_of(const std::byte* at) const noexcept {
  const std::less_equal<> not_after;
  for (const std::span<const std::byte> bytes : storage_)
    if (not_after(bytes.data(), at) && !not_after(bytes.data() + bytes.size(), at)) return bytes;
  return {};
}

std::string ModelFile::format() const {
  return mlx_ ? "MLX" : "GGUF v" + std::to_string(gguf_.version());
}

namespace {

// Of the experts that a token is not routed to, all layers together.
template <class Size>
std::uint64_t unused_experts(const ModelConfig& config, const ModelWeights& weights, Size&& size) {
  const std::uint64_t unused = config.n_experts - config.n_experts_used;
  std::uint64_t sum = 0;
  for (std::uint32_t layer = 0; layer < weights.n_layers(); ++layer)
    for (const RoleFacts& facts : kWeightRoles)
      if (facts.kind == WeightKind::experts) sum += unused * size(weights[{facts.role, layer}]);
  return sum;
}

}  // namespace

std::uint64_t ModelFile::active_parameter_count() const noexcept {
  return parameters_ -
         unused_experts(config_, weights_, [](const Weight& w) { return std::uint64_t{w.rows} * w.cols; });
}

std::uint64_t ModelFile::token_weight_bytes() const noexcept {
  const std::uint64_t table =
      config_.tied_embeddings ? 0 : weights_[{WeightRole::token_embedding}].matrix_bytes();
  return weight_bytes_ - table -
         unused_experts(config_, weights_, [](const Weight& w) { return w.matrix_bytes(); });
}

std::string_view ModelFile::main_quantization() const noexcept {
  std::array<std::uint64_t, kernels::kDTypeCount> bytes{};
  for (const auto& tensor : gguf_.tensors()) bytes[static_cast<std::size_t>(tensor.type)] += tensor.bytes();
  const auto most = std::ranges::max_element(bytes) - bytes.begin();
  return to_string(static_cast<kernels::DType>(most));
}

}  // namespace flyball::model
