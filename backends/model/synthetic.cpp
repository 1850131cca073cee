// Shapes by name, their checks, and the threads that fill a file.
#include "backends/model/synthetic.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>

#include "backends/model/family.hpp"
#include "backends/model/synthetic_plan.hpp"
#include "config/descriptor.hpp"
#include "kernels/formats/quantize.hpp"

namespace flyball::model {
namespace {

// A thread's unit of work: large enough that taking one from the shared counter costs nothing beside making
// it.
constexpr std::uint64_t kChunkValues = 262'144;

SyntheticSpec shape(const char* name, std::uint32_t dim, std::uint32_t layers, std::uint32_t heads,
                    std::uint32_t kv_heads, std::uint32_t ffn, std::uint32_t vocab, std::uint32_t context,
                    float rope_base) {
  SyntheticSpec spec;
  spec.name = name;
  spec.dim = dim;
  spec.layers = layers;
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  spec.ffn = ffn;
  spec.vocab = vocab;
  spec.context = context;
  spec.rope_base = rope_base;
  return spec;
}

SyntheticSpec of(const char* architecture, SyntheticSpec spec, std::uint32_t head_dim = 0) {
  spec.architecture = architecture;
  spec.head_dim = head_dim;
  return spec;
}

SyntheticSpec windowed(std::uint32_t window, SyntheticSpec spec) {
  spec.window = window;
  return spec;
}

SyntheticSpec yarn(SyntheticSpec spec) {
  spec.rope = RopeScaling::yarn;
  return spec;
}

SyntheticSpec tied(SyntheticSpec spec) {
  spec.tied = true;
  return spec;
}

SyntheticSpec mixture(std::uint32_t experts, std::uint32_t used, std::uint32_t ffn, SyntheticSpec spec) {
  spec.experts = experts;
  spec.experts_used = used;
  spec.expert_ffn = ffn;
  return spec;
}

// As their configurations on https://huggingface.co say: SmolLM, TinyLlama, Llama 3, Qwen2.5, Qwen3, Gemma 2
// and 3, Phi-3, Granite 3.3, Ministral 3, SmolLM3, Mixtral.
std::vector<SyntheticSpec> named_shapes() {
  return {
      shape("tiny", 256, 2, 4, 2, 512, 512, 1024, 10'000.0F),
      shape("small", 512, 4, 8, 2, 1536, 2048, 2048, 10'000.0F),
      shape("135m", 576, 30, 9, 3, 1536, 49'152, 2048, 10'000.0F),
      shape("1.1b", 2048, 22, 32, 4, 5632, 32'000, 2048, 10'000.0F),
      shape("8b", 4096, 32, 32, 8, 14'336, 128'256, 8192, 500'000.0F),
      tied(of("qwen2", shape("qwen2-0.5b", 896, 24, 14, 2, 4864, 151'936, 32'768, 1e6F))),
      tied(of("qwen3", shape("qwen3-0.6b", 1024, 28, 16, 8, 3072, 151'936, 40'960, 1e6F), 128)),
      windowed(4096, of("gemma2", shape("gemma2-2b", 2304, 26, 8, 4, 9216, 256'000, 8192, 10'000.0F), 256)),
      windowed(512, of("gemma3", shape("gemma3-1b", 1152, 26, 4, 1, 6912, 262'144, 32'768, 1e6F), 256)),
      windowed(2047, of("phi3", shape("phi3-mini", 3072, 32, 32, 32, 8192, 32'064, 4096, 10'000.0F))),
      tied(of("granite", shape("granite3-2b", 2048, 40, 32, 8, 8192, 49'159, 131'072, 1e7F))),
      tied(of("mistral3", yarn(shape("ministral3-3b", 3072, 26, 32, 8, 9216, 131'072, 262'144, 1e6F)), 128)),
      tied(of("smollm3", shape("smollm3-3b", 2048, 36, 16, 4, 11'008, 128'256, 65'536, 5e6F))),
      mixture(8, 2, 14'336, shape("mixtral-8x7b", 4096, 32, 32, 8, 14'336, 32'000, 32'768, 1e6F)),
      mixture(128, 8, 768,
              of("qwen3moe", shape("qwen3-30b-a3b", 2048, 48, 32, 4, 6144, 151'936, 40'960, 1e6F), 128))};
}

struct Dimension {
  std::string_view name;
  std::uint32_t SyntheticSpec::*field;
};
constexpr Dimension kDimensions[] = {{"dim", &SyntheticSpec::dim},
                                     {"layers", &SyntheticSpec::layers},
                                     {"heads", &SyntheticSpec::heads},
                                     {"kv_heads", &SyntheticSpec::kv_heads},
                                     {"head_dim", &SyntheticSpec::head_dim},
                                     {"rope_dim", &SyntheticSpec::rope_dim},
                                     {"window", &SyntheticSpec::window},
                                     {"ffn", &SyntheticSpec::ffn},
                                     {"vocab", &SyntheticSpec::vocab},
                                     {"context", &SyntheticSpec::context},
                                     {"biases", &SyntheticSpec::biases},
                                     {"experts", &SyntheticSpec::experts},
                                     {"experts_used", &SyntheticSpec::experts_used},
                                     {"expert_ffn", &SyntheticSpec::expert_ffn}};
constexpr std::string_view kArchitecture = "arch";
constexpr std::string_view kRope = "rope";
struct Rope {
  std::string_view name;
  RopeScaling scaling;
};
constexpr Rope kRopes[] = {{"none", RopeScaling::none},
                           {"linear", RopeScaling::linear},
                           {"yarn", RopeScaling::yarn},
                           {"llama3", RopeScaling::llama3},
                           {"longrope", RopeScaling::longrope}};

std::string rope_names() {
  std::string names;
  for (const Rope& rope : kRopes) names += (names.empty() ? "" : ", ") + std::string(rope.name);
  return names;
}

std::unexpected<Error> bad_shape(std::string message) {
  return fail(ErrorCode::invalid_value, std::move(message), "shape");
}

struct Job {
  std::size_t tensor;
  std::uint64_t begin, end;  // rows
};

std::vector<Job> cut_into_jobs(const SyntheticPlan& plan) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
    const auto& tensor = plan.tensors()[i];
    const auto step = std::max<std::uint64_t>(1, kChunkValues / tensor.cols);
    for (std::uint64_t row = 0; row < tensor.rows; row += step) {
      jobs.push_back({i, row, std::min(tensor.rows, row + step)});
    }
  }
  return jobs;
}

// Takes jobs until none is left or one fails; several run at once.
class Filler {
 public:
  Filler(const SyntheticPlan& plan, ByteSink& sink, const SyntheticProgress& progress)
      : plan_(plan),
        jobs_(cut_into_jobs(plan)),
        sink_(sink),
        progress_(progress),
        done_(plan.header().size()) {}

  void work() {
    std::vector<float> values;
    std::vector<std::byte> bytes;
    for (auto i = next_.fetch_add(1); i < jobs_.size(); i = next_.fetch_add(1)) {
      const auto& job = jobs_[i];
      const auto& tensor = plan_.tensors()[job.tensor];
      const auto row_bytes = kernels::row_bytes(tensor.type, tensor.cols);
      values.resize(tensor.cols);
      bytes.resize((job.end - job.begin) * row_bytes);
      for (auto row = job.begin; row < job.end; ++row) {
        plan_.fill_row(job.tensor, row, values);
        kernels::quantize_row(tensor.type, values.data(), tensor.cols,
                              bytes.data() + (row - job.begin) * row_bytes);
      }
      auto written = sink_.write_at(tensor.offset + job.begin * row_bytes, bytes);
      const std::scoped_lock lock(mutex_);
      if (!written) {
        if (result_) result_ = std::move(written);
        next_.store(jobs_.size());
        return;
      }
      done_ += bytes.size();
      if (progress_) progress_(done_, plan_.file_bytes());
    }
  }
  Result<void> result() const { return result_; }

 private:
  const SyntheticPlan& plan_;
  const std::vector<Job> jobs_;
  ByteSink& sink_;
  const SyntheticProgress& progress_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  // under mutex_
  std::uint64_t done_;
  Result<void> result_;
};

class FileSink final : public ByteSink {
 public:
  explicit FileSink(std::filesystem::path path) : path_(std::move(path)) {}

  Result<void> resize(std::uint64_t bytes) override {
    fd_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd_ || ::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) return failure(errno);
    return {};
  }
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const auto n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failure(n < 0 ? errno : EIO);
      offset += static_cast<std::uint64_t>(n);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }
  Result<void> close() {
    if (::close(fd_.release()) != 0) return failure(errno);
    return {};
  }

 private:
  Result<void> failure(int error) const {
    return fail(ErrorCode::io_error, "cannot write the model file: " + std::generic_category().message(error),
                {}, path_.string());
  }
  std::filesystem::path path_;
  Descriptor fd_;
};

class MemorySink final : public ByteSink {
 public:
  Result<void> resize(std::uint64_t bytes) override {
    bytes_.resize(bytes);
    return {};
  }
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
    return {};
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

Result<SyntheticSpec> parse_synthetic_shape(std::string_view text) {
  SyntheticSpec spec;
  bool first = true;
  for (std::string_view rest = text; first || !rest.empty(); first = false) {
    const auto comma = rest.find(',');
    const auto item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) {
      const auto known = named_shapes();
      const auto it = std::ranges::find(known, item, &SyntheticSpec::name);
      if (!first || it == known.end()) {
        return bad_shape("the shape " + printable(item) + " is not one of " + synthetic_shape_names());
      }
      spec = *it;
      continue;
    }
    spec.name = printable(text);
    const auto key = item.substr(0, equals);
    const auto value = item.substr(equals + 1);
    if (key == kArchitecture) {
      spec.architecture = printable(value);
      continue;
    }
    if (key == kRope) {
      const auto* rope = std::ranges::find(kRopes, value, &Rope::name);
      if (rope == std::end(kRopes))
        return bad_shape("rope is " + printable(value) + ", which is not one of " + rope_names());
      spec.rope = rope->scaling;
      continue;
    }
    const auto* dimension = std::ranges::find(kDimensions, key, &Dimension::name);
    if (dimension == std::end(kDimensions))
      return bad_shape("the shape's key " + printable(key) + " is not one of " + synthetic_shape_keys());
    auto& field = spec.*dimension->field;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), field);
    if (error != std::errc{} || end != value.data() + value.size() || field == 0)
      return bad_shape("the shape's " + printable(item) + " is not a positive number");
  }
  SyntheticSpec any = spec;  // of rows of any length: the type may come later
  any.type = kernels::DType::f32;
  if (auto ok = check(any); !ok) return pass(ok);
  return spec;
}

std::string synthetic_shape_names() {
  std::string names;
  for (const auto& spec : named_shapes()) names += (names.empty() ? "" : ", ") + spec.name;
  return names;
}

std::string synthetic_shape_keys() {
  std::string keys = std::string(kArchitecture) + ", " + std::string(kRope);
  for (const auto& dimension : kDimensions) keys += ", " + std::string(dimension.name);
  return keys;
}

Result<void> check(const SyntheticSpec& spec) {
  const Family* family = find_family(spec.architecture);
  if (family == nullptr)
    return bad_shape("arch is " + printable(spec.architecture) + ", which is not one of " + family_names());
  if (spec.experts == 0 ? family->experts == InFiles::all : family->experts == InFiles::none)
    return bad_shape("experts is " + std::to_string(spec.experts) + ", which no " + spec.architecture +
                     " has");
  if (spec.biases != 0 && family->qkv_bias != InFiles::some)
    return bad_shape("biases is " + std::to_string(spec.biases) + ", which decides nothing of a " +
                     spec.architecture);
  const std::uint64_t least = spec.experts == 0 ? 0 : 1;  // of what only a mixture has
  struct Bound {
    const char* name;
    std::uint64_t value, low, high;
  };
  const std::uint64_t head_dim = spec.head_dim != 0 ? spec.head_dim : spec.dim / std::max(1U, spec.heads);
  const Bound bounds[] = {
      {"dim", spec.dim, 1, kMaxDim},
      {"layers", spec.layers, 1, kMaxLayers},
      {"heads", spec.heads, 1, kMaxHeads},
      {"kv_heads", spec.kv_heads, 1, kMaxHeads},
      {"head_dim", head_dim, 2, kMaxHeadDim},
      {"rope_dim", spec.rope_dim, 0, head_dim},
      {"window", spec.window, 0, kMaxContext},
      {"biases", spec.biases, 0, 3},
      {"ffn", spec.ffn, 1, kMaxFfnDim},
      {"experts", spec.experts, 0, kMaxExperts},
      {"experts_used", spec.experts_used, least, std::min<std::uint64_t>(spec.experts, kMaxExpertsUsed)},
      {"expert_ffn", spec.expert_ffn, least, spec.experts == 0 ? 0 : kMaxFfnDim},
      {"context", spec.context, 8, kMaxContext},
      {"vocab", spec.vocab, min_synthetic_vocab(spec.infill), kMaxVocab}};
  for (const auto& bound : bounds) {
    if (bound.value < bound.low || bound.value > bound.high) {
      return bad_shape(std::string(bound.name) + " is " + std::to_string(bound.value) + "; " +
                       std::to_string(bound.low) + " to " + std::to_string(bound.high) + " is allowed");
    }
  }
  if (spec.heads % spec.kv_heads != 0) {
    return bad_shape("heads (" + std::to_string(spec.heads) + ") must be a multiple of kv_heads (" +
                     std::to_string(spec.kv_heads) + ")");
  }
  if (spec.rope_dim % 2 != 0)
    return bad_shape("rope_dim (" + std::to_string(spec.rope_dim) + ") must be even");
  if (head_dim % 2 != 0 || (spec.head_dim == 0 && spec.dim % spec.heads != 0)) {
    return bad_shape("dim (" + std::to_string(spec.dim) + ") over heads (" + std::to_string(spec.heads) +
                     ") must be a whole even number");
  }
  const auto block = kernels::block_shape(spec.type).values;
  const Bound rows[] = {{"dim", spec.dim, 0, 0},
                        {"ffn", spec.experts == 0 ? spec.ffn : 0, 0, 0},
                        {"expert_ffn", spec.expert_ffn, 0, 0},
                        {"heads * head_dim", spec.heads * head_dim, 0, 0}};
  for (const auto& row : rows) {
    if (row.value % block != 0) {
      return bad_shape(std::string(row.name) + " is " + std::to_string(row.value) + "; " +
                       std::string(to_string(spec.type)) + " needs rows that are multiples of " +
                       std::to_string(block));
    }
  }
  return {};
}

Result<std::uint64_t> write_synthetic(const SyntheticSpec& spec, ByteSink& sink, std::uint32_t threads,
                                      const SyntheticProgress& progress) {
  if (auto ok = check(spec); !ok) return pass(ok);
  const SyntheticPlan plan(spec);
  if (auto ok = sink.resize(plan.file_bytes()); !ok) return pass(ok);
  if (auto ok = sink.write_at(0, std::as_bytes(std::span(plan.header()))); !ok) return pass(ok);
  Filler filler(plan, sink, progress);
  {
    const auto n = threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> helpers;
    try {
      for (std::uint32_t i = 1; i < n; ++i) helpers.emplace_back([&filler] { filler.work(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those there are do the work, and the bytes are the same.
    }
    filler.work();
  }
  if (auto ok = filler.result(); !ok) return pass(ok);
  return plan.file_bytes();
}

Result<std::uint64_t> write_synthetic_file(const SyntheticSpec& spec, const std::filesystem::path& path,
                                           std::uint32_t threads, const SyntheticProgress& progress) {
  auto part = path;
  part += ".part";
  const auto abandon = [&](Error error) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    return std::unexpected(std::move(error));
  };
  // Renaming over a device or a directory would replace it.
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular) {
    return fail(ErrorCode::io_error,
                "cannot write the model file: there is something that is no regular file", {}, path.string());
  }
  FileSink sink(part);
  auto bytes = write_synthetic(spec, sink, threads, progress);
  if (!bytes) return abandon(std::move(bytes.error()));
  if (auto ok = sink.close(); !ok) return abandon(std::move(ok.error()));
  std::filesystem::rename(part, path, error);
  if (error) {
    return abandon(
        {ErrorCode::io_error, "cannot rename the model file: " + error.message(), {}, path.string()});
  }
  return bytes;
}

Result<std::vector<std::byte>> synthetic_bytes(const SyntheticSpec& spec) {
  MemorySink sink;
  if (auto ok = write_synthetic(spec, sink, 1); !ok) return pass(ok);
  return sink.take();
}

}  // namespace flyball::model
