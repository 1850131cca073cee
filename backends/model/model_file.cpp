// Binding a file's tensors to their roles. Every tensor of the file has to be understood: one that is not (a
// bias, an adapter) would change what the model computes, so it is refused by name rather than passed over.
#include "backends/model/model_file.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <new>
#include <system_error>
#include <unordered_set>

#include "backends/model/mlx_directory.hpp"
#include "backends/model/weight_names.hpp"

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

  Weight matrix(std::string_view name, std::uint32_t rows, std::uint32_t cols) {
    return bind(name, 1, rows, cols);
  }
  Weight experts(std::string_view name, std::uint32_t n, std::uint32_t rows, std::uint32_t cols) {
    return bind(name, n, rows, cols);
  }
  // Rows of one tensor as a matrix each, in this order.
  struct Rows {
    Weight& to;
    std::uint32_t n;
  };
  void split(std::string_view name, std::uint32_t cols, std::initializer_list<Rows> parts) {
    std::uint32_t rows = 0;
    for (const Rows& part : parts) rows += part.n;  // three counts of model_config's limits: no overflow
    const Weight whole = bind(name, 1, rows, cols);
    if (whole.data == nullptr) return;
    std::uint32_t at = 0;
    for (const Rows& part : parts) {
      part.to = whole;
      part.to.rows = part.n;
      const kernels::SourceRows source = whole.source().after(whole.type, at, cols);
      part.to.data = source.data;
      part.to.scales = source.scales;
      part.to.biases = source.biases;
      at += part.n;
    }
  }

  // Norms and biases enter the arithmetic as they are, so they are F32, as every converter writes them.
  Weight vector(std::string_view name, std::uint32_t cols) {
    const auto weight = matrix(name, 1, cols);
    if (weight.data != nullptr && weight.type != kernels::DType::f32) {
      return refuse("the tensor " + std::string(name) + " is " + std::string(to_string(weight.type)) +
                        "; a norm or a bias must be F32",
                    name);
    }
    return weight;
  }

  // Each expert by itself, as files of Mixtral's first months have them.
  void refuse_separate_experts(std::uint32_t layer) {
    const auto first = weight_names::layer(layer, weight_names::kGate, "0.weight");
    if (file_->tensor(first) == nullptr) return;
    refuse("the file has each expert in a tensor of its own (" + first +
               "), an old layout that this build does not read; convert the model again",
           first);
  }

  Result<void> finish(const ModelConfig& config) {
    if (error_) return std::unexpected(*error_);
    for (const std::string_view read :
         {weight_names::kRopeFrequencies, weight_names::kRopeFactorsShort, weight_names::kRopeFactorsLong})
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
  namespace names = weight_names;
  Binder bind(file);
  ModelWeights weights;
  const auto q_rows = config.n_heads * config.head_dim;
  const auto kv_rows = config.n_kv_heads * config.head_dim;
  weights.token_embedding = bind.matrix(names::kTokenEmbedding, config.vocab_size, config.dim);
  weights.output_norm = bind.vector(names::kOutputNorm, config.dim);
  weights.output = config.tied_embeddings ? weights.token_embedding
                                          : bind.matrix(names::kOutput, config.vocab_size, config.dim);
  for (std::uint32_t i = 0; i < config.n_layers && !bind.failed(); ++i) {
    auto& layer = weights.layers.emplace_back();
    layer.attn_norm = bind.vector(names::layer(i, names::kAttnNorm), config.dim);
    if (config.fused_matrices) {
      bind.split(names::layer(i, names::kQkv), config.dim,
                 {{layer.q, q_rows}, {layer.k, kv_rows}, {layer.v, kv_rows}});
    } else {
      layer.q = bind.matrix(names::layer(i, names::kQ), q_rows, config.dim);
      layer.k = bind.matrix(names::layer(i, names::kK), kv_rows, config.dim);
      layer.v = bind.matrix(names::layer(i, names::kV), kv_rows, config.dim);
    }
    layer.o = bind.matrix(names::layer(i, names::kO), config.dim, q_rows);
    layer.ffn_norm = bind.vector(names::layer(i, names::kFfnNorm), config.dim);
    if (config.qkv_bias) {
      layer.q_bias = bind.vector(names::layer_bias(i, names::kQ), q_rows);
      layer.k_bias = bind.vector(names::layer_bias(i, names::kK), kv_rows);
      layer.v_bias = bind.vector(names::layer_bias(i, names::kV), kv_rows);
    }
    if (config.post_norms) {
      layer.attn_post_norm = bind.vector(names::layer(i, names::kAttnPostNorm), config.dim);
      layer.ffn_post_norm = bind.vector(names::layer(i, names::kFfnPostNorm), config.dim);
    }
    if (config.qk_norm) {
      layer.q_norm = bind.vector(names::layer(i, names::kQNorm), config.head_dim);
      layer.k_norm = bind.vector(names::layer(i, names::kKNorm), config.head_dim);
    }
    if (config.n_experts > 0) {
      const auto n = config.n_experts, ffn = config.expert_ffn_dim;
      bind.refuse_separate_experts(i);
      layer.router = bind.matrix(names::layer(i, names::kRouter), n, config.dim);
      layer.expert_gate = bind.experts(names::layer(i, names::kExpertGate), n, ffn, config.dim);
      layer.expert_up = bind.experts(names::layer(i, names::kExpertUp), n, ffn, config.dim);
      layer.expert_down = bind.experts(names::layer(i, names::kExpertDown), n, config.dim, ffn);
    } else {
      if (config.fused_matrices) {
        bind.split(names::layer(i, names::kUp), config.dim,
                   {{layer.gate, config.ffn_dim}, {layer.up, config.ffn_dim}});
      } else {
        layer.gate = bind.matrix(names::layer(i, names::kGate), config.ffn_dim, config.dim);
        layer.up = bind.matrix(names::layer(i, names::kUp), config.ffn_dim, config.dim);
      }
      layer.down = bind.matrix(names::layer(i, names::kDown), config.dim, config.ffn_dim);
    }
  }
  if (auto ok = bind.finish(config); !ok) return std::unexpected(ok.error());
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

Result<std::unique_ptr<ModelFile>> ModelFile::open(const std::filesystem::path& path) {
  std::error_code ignored;  // what is no directory is refused, or read, as a file
  if (std::filesystem::is_directory(path, ignored))
    return unless_out_of_memory([&] { return read_directory(path); });
  auto mapping = MappedFile::open(path);
  if (!mapping) return std::unexpected(std::move(mapping.error()));
  auto file = from_bytes(mapping->bytes());
  if (!file) return file;
  (*file)->mappings_.push_back(std::move(*mapping));
  return file;
}

Result<std::unique_ptr<ModelFile>> ModelFile::from_bytes(std::span<const std::byte> bytes) {
  return unless_out_of_memory([&] { return read_gguf(bytes); });
}

Result<std::unique_ptr<ModelFile>> ModelFile::from_mlx(const MlxFiles& files) {
  return unless_out_of_memory([&] { return read_files(files); });
}

Result<std::unique_ptr<ModelFile>> ModelFile::read_gguf(std::span<const std::byte> bytes) {
  auto gguf = Gguf::parse(bytes);
  if (!gguf) return std::unexpected(std::move(gguf.error()));
  std::unique_ptr<ModelFile> file(new ModelFile);
  file->storage_.push_back(bytes);
  file->gguf_ = std::move(*gguf);
  auto config = read_model_config(file->gguf_);
  if (!config) return std::unexpected(std::move(config.error()));
  file->config_ = std::move(*config);
  if (auto ok = file->bind(); !ok) return std::unexpected(std::move(ok.error()));
  return file;
}

Result<std::unique_ptr<ModelFile>> ModelFile::read_files(const MlxFiles& files) {
  auto mlx = read_mlx(files);
  if (!mlx) return std::unexpected(std::move(mlx.error()));
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
  if (!directory) return std::unexpected(std::move(directory.error()));
  auto file = read_files(directory->files);
  if (file) (*file)->mappings_ = std::move(directory->shards);
  return file;
}

Result<void> ModelFile::bind() {
  auto weights = bind_weights(gguf_, config_);
  if (!weights) return std::unexpected(std::move(weights.error()));
  weights_ = std::move(*weights);
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
  for (const LayerWeights& l : weights.layers)
    sum += unused * (size(l.expert_gate) + size(l.expert_up) + size(l.expert_down));
  return sum;
}

}  // namespace

std::uint64_t ModelFile::active_parameter_count() const noexcept {
  return parameters_ -
         unused_experts(config_, weights_, [](const Weight& w) { return std::uint64_t{w.rows} * w.cols; });
}

std::uint64_t ModelFile::token_weight_bytes() const noexcept {
  const std::uint64_t table = config_.tied_embeddings ? 0 : weights_.token_embedding.matrix_bytes();
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
