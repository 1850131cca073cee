// Synthetic files: they load, they depend on nothing but their spec, and shapes that cannot be are refused.
#include "backends/model/synthetic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>

#include "backends/model/model_file.hpp"
#include "backends/model/synthetic_vocab.hpp"
#include "kernels/formats/dequantize.hpp"

namespace flyball::model {
namespace {

using ::testing::HasSubstr;

// A sink in memory that fails at the nth write.
class FailingSink final : public ByteSink {
 public:
  explicit FailingSink(int at) : at_(at) {}
  Result<void> resize(std::uint64_t) override { return {}; }
  Result<void> write_at(std::uint64_t, std::span<const std::byte>) override {
    if (writes_++ == at_) return fail(ErrorCode::io_error, "disk full");
    return {};
  }
  int writes() const { return writes_; }

 private:
  int at_;
  std::atomic<int> writes_ = 0;
};

class MapSink final : public ByteSink {
 public:
  Result<void> resize(std::uint64_t bytes) override {
    bytes_.resize(bytes);
    return {};
  }
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  std::vector<std::byte> bytes_;
};

TEST(Synthetic, LoadsInEveryTypeAndScaling) {
  for (const auto type : kernels::kAllDTypes) {
    for (const auto rope : {RopeScaling::none, RopeScaling::linear, RopeScaling::yarn, RopeScaling::llama3}) {
      SyntheticSpec spec;
      spec.type = type;
      spec.rope = rope;
      spec.tied = rope == RopeScaling::linear;
      const auto bytes = synthetic_bytes(spec);
      ASSERT_TRUE(bytes) << bytes.error().message;
      const auto file = ModelFile::from_bytes(*bytes);
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ((*file)->main_quantization(), to_string(type));
      EXPECT_EQ((*file)->config().ropes[0].scaling, rope);
      EXPECT_EQ((*file)->config().tied_embeddings, spec.tied);
      EXPECT_EQ((*file)->config().vocab_size, spec.vocab);
    }
  }
}

TEST(Synthetic, LoadsInEveryFamily) {
  for (const auto type : {kernels::DType::f32, kernels::DType::q4_0, kernels::DType::q6_k}) {
    for (const char* shape :
         {"tiny,arch=qwen2", "tiny,arch=qwen3,head_dim=128", "tiny,experts=4,experts_used=2,expert_ffn=256",
          "tiny,arch=qwen3moe,experts=8,experts_used=3,expert_ffn=256", "tiny,arch=gemma2,window=100",
          "tiny,arch=gemma3,window=100,head_dim=128",
          "tiny,arch=phi3,window=100,rope_dim=48,rope=longrope"}) {
      auto spec = *parse_synthetic_shape(shape);
      spec.type = type;
      const auto bytes = synthetic_bytes(spec);
      ASSERT_TRUE(bytes) << bytes.error().message;
      const auto file = ModelFile::from_bytes(*bytes);
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ((*file)->config().architecture, spec.architecture);
      EXPECT_EQ((*file)->config().n_experts, spec.experts);
      EXPECT_EQ((*file)->config().expert_ffn_dim, spec.expert_ffn);
      EXPECT_EQ((*file)->main_quantization(), to_string(type));
    }
  }
}

TEST(Synthetic, SameSeedSameBytesAtAnyThreadCount) {
  SyntheticSpec spec;
  spec.vocab = 4096;  // several chunks
  const auto one = synthetic_bytes(spec);
  MapSink sink;
  ASSERT_TRUE(write_synthetic(spec, sink, 5));
  EXPECT_EQ(*one, sink.bytes_);
  spec.seed = 2;
  EXPECT_NE(*one, *synthetic_bytes(spec));
}

TEST(Synthetic, WeightsAreSpreadAsTheyShould) {
  SyntheticSpec spec;
  spec.type = kernels::DType::f32;
  const auto bytes = synthetic_bytes(spec);
  const auto file = ModelFile::from_bytes(*bytes);
  const auto spread = [](const Weight& weight) {
    double sum = 0, squares = 0;
    std::vector<float> row(weight.cols);
    for (std::uint32_t r = 0; r < weight.rows; ++r) {
      kernels::dequantize_row(weight.type, weight.data + r * kernels::row_bytes(weight.type, weight.cols),
                              weight.cols, row.data());
      for (const auto x : row) {
        sum += static_cast<double>(x);
        squares += static_cast<double>(x) * static_cast<double>(x);
      }
    }
    const double n = static_cast<double>(weight.rows) * weight.cols;
    EXPECT_NEAR(sum / n, 0.0, 0.02 * std::sqrt(squares / n));
    return std::sqrt(squares / n);
  };
  const auto& weights = (*file)->weights();
  EXPECT_NEAR(spread(weights.of(WeightRole::token_embedding)), 1.0, 0.02);
  EXPECT_NEAR(spread(weights.of(WeightRole::q, 0)), 1.0 / 16, 0.001);
  EXPECT_NEAR(spread(weights.of(WeightRole::gate, 1)), 1.0 / 16, 0.001);
}

TEST(Synthetic, ControlTokensAreNeverChosen) {
  SyntheticSpec spec;
  spec.type = kernels::DType::f32;
  const auto bytes = synthetic_bytes(spec);
  const auto file = ModelFile::from_bytes(*bytes);
  const auto vocab = make_synthetic_vocab(spec.vocab);
  const auto& output = (*file)->weights().of(WeightRole::output);
  for (const auto token : {vocab.end_of_text, vocab.im_start, vocab.im_end}) {
    EXPECT_EQ(vocab.types[token], 3);
    const auto* row = reinterpret_cast<const float*>(output.data) + std::size_t{token} * output.cols;
    for (std::uint32_t i = 0; i < output.cols; ++i) ASSERT_EQ(row[i], 0.0F);
  }
}

TEST(SyntheticVocab, InfillTokensStandBehindTheOthers) {
  const auto size = min_synthetic_vocab(true);
  EXPECT_EQ(size, min_synthetic_vocab() + 3);
  const auto vocab = make_synthetic_vocab(size, true);
  ASSERT_EQ(vocab.tokens.size(), size);
  EXPECT_EQ(vocab.tokens[vocab.im_end + 1], "<|fim_prefix|>");
  EXPECT_EQ(vocab.tokens.back(), "<|fim_middle|>");
  for (auto token = vocab.end_of_text; token < size; ++token) EXPECT_EQ(vocab.types[token], 3) << token;
  EXPECT_EQ(make_synthetic_vocab(size).types.back(), 1) << "a word";
}

TEST(SyntheticVocab, TokensAreDistinctAndMergesWithinIt) {
  const auto vocab = make_synthetic_vocab(1000);
  ASSERT_EQ(vocab.tokens.size(), 1000U);
  const std::set<std::string> tokens(vocab.tokens.begin(), vocab.tokens.end());
  EXPECT_EQ(tokens.size(), 1000U);
  for (const auto& merge : vocab.merges) {
    const auto space = merge.find(' ');
    EXPECT_TRUE(tokens.contains(merge.substr(0, space))) << merge;
    EXPECT_TRUE(tokens.contains(merge.substr(space + 1))) << merge;
    EXPECT_TRUE(tokens.contains(merge.substr(0, space) + merge.substr(space + 1))) << merge;
  }
}

TEST(Synthetic, ShapesByNameAndByKey) {
  EXPECT_EQ(parse_synthetic_shape("1.1b")->dim, 2048U);
  EXPECT_EQ(parse_synthetic_shape("8b")->vocab, 128'256U);
  const auto mixed = parse_synthetic_shape("tiny,vocab=1000,layers=3");
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->vocab, 1000U);
  EXPECT_EQ(mixed->layers, 3U);
  EXPECT_EQ(mixed->dim, 256U);
  EXPECT_EQ(parse_synthetic_shape("dim=512,heads=8,kv_heads=4")->dim, 512U);
  const auto expect_refused = [](const char* text, const char* message) {
    const auto spec = parse_synthetic_shape(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::invalid_value);
    EXPECT_EQ(spec.error().param, "shape");
    EXPECT_THAT(spec.error().message, HasSubstr(message));
  };
  EXPECT_EQ(parse_synthetic_shape("qwen3-30b-a3b")->experts, 128U);
  EXPECT_EQ(parse_synthetic_shape("qwen2-0.5b,layers=2")->architecture, "qwen2");
  EXPECT_TRUE(parse_synthetic_shape("mixtral-8x7b") && parse_synthetic_shape("qwen3-0.6b"));
  EXPECT_EQ(parse_synthetic_shape("gemma2-2b")->window, 4096U);
  EXPECT_EQ(parse_synthetic_shape("gemma3-1b")->head_dim, 256U);
  EXPECT_EQ(parse_synthetic_shape("phi3-mini,rope=longrope")->rope, RopeScaling::longrope);
  expect_refused("rope=longer", "rope is longer, which is not one of none, linear, yarn, llama3, longrope");
  expect_refused("rope_dim=5", "rope_dim (5) must be even");
  expect_refused("rope_dim=66", "rope_dim is 66; 0 to 64 is allowed");
  expect_refused("arch=gpt2", "arch is gpt2");
  expect_refused("arch=qwen3moe", "experts is 0, which no qwen3moe has");
  expect_refused("arch=qwen2,experts=4", "experts is 4, which no qwen2 has");
  expect_refused("experts=4,experts_used=5,expert_ffn=32", "experts_used is 5; 1 to 4");
  expect_refused("experts=4,experts_used=2", "expert_ffn is 0");
  expect_refused("expert_ffn=32", "expert_ffn is 32; 0 to 0");
  expect_refused("huge", "not one of tiny");
  expect_refused("", "not one of tiny");
  expect_refused("dim=512,tiny", "not one of tiny");
  expect_refused("dims=512", "not one of arch, rope, dim");
  expect_refused("dim=", "not a positive number");
  expect_refused("dim=-1", "not a positive number");
  expect_refused("dim=12x", "not a positive number");
  expect_refused("vocab=100", "289 to");
  expect_refused("heads=3,kv_heads=2", "multiple of kv_heads");
  expect_refused("heads=3,kv_heads=1", "whole even number");
}

// A shape is read before its type is known: a value is a block of F32, and 256 are one of Q4_K.
TEST(Synthetic, RowsAreBlocksOfTheTypeThatIsTaken) {
  const auto expect_refused = [](const char* text, kernels::DType type, const char* message) {
    auto spec = parse_synthetic_shape(text);
    ASSERT_TRUE(spec) << text;
    spec->type = type;
    const auto ok = check(*spec);
    ASSERT_FALSE(ok) << text;
    EXPECT_EQ(ok.error().message, message);
    spec->type = kernels::DType::f32;
    EXPECT_TRUE(check(*spec)) << text;
  };
  expect_refused("dim=100,heads=2,kv_heads=1", kernels::DType::q4_0,
                 "dim is 100; Q4_0 needs rows that are multiples of 32");
  expect_refused("tiny,ffn=544", kernels::DType::q4_k,
                 "ffn is 544; Q4_K needs rows that are multiples of 256");
  expect_refused("experts=4,experts_used=2,expert_ffn=40", kernels::DType::q8_0,
                 "expert_ffn is 40; Q8_0 needs rows that are multiples of 32");
}

TEST(Synthetic, KQuantsNeedRowsOf256) {
  auto spec = *parse_synthetic_shape("135m");
  spec.type = kernels::DType::q4_k;
  const auto bytes = synthetic_bytes(spec);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, ErrorCode::invalid_value);
  EXPECT_THAT(bytes.error().message, HasSubstr("dim is 576; Q4_K needs rows that are multiples of 256"));
}

TEST(Synthetic, EveryFailedWriteIsReported) {
  FailingSink counter(-1);
  ASSERT_TRUE(write_synthetic({}, counter, 2));
  for (int at = 0; at < counter.writes(); ++at) {
    FailingSink sink(at);
    const auto result = write_synthetic({}, sink, 2);
    ASSERT_FALSE(result) << at;
    EXPECT_EQ(result.error().message, "disk full");
  }
}

// Regression: /dev/null given as the file was replaced by the model.
TEST(Synthetic, NothingButRegularFilesIsReplaced) {
  const auto directory =
      std::filesystem::temp_directory_path() / ("flyball-synthetic-" + std::to_string(::getpid()));
  std::filesystem::create_directory(directory);
  const auto result = write_synthetic_file({}, directory, 1);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::io_error);
  EXPECT_THAT(result.error().message, HasSubstr("no regular file"));
  EXPECT_TRUE(std::filesystem::is_directory(directory));
  std::filesystem::remove(directory);
}

TEST(Synthetic, NoHalfWrittenFileRemains) {
  const auto missing = write_synthetic_file(
      {}, std::filesystem::temp_directory_path() / "flyball-no-such-directory" / "model.gguf", 1);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::io_error);

  // A disk that fills up: files of this process may not pass 64 KiB.
  const auto path =
      std::filesystem::temp_directory_path() / ("flyball-synthetic-" + std::to_string(::getpid()) + ".gguf");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {65'536, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto full = write_synthetic_file({}, path, 1);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::io_error);
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
}

}  // namespace
}  // namespace flyball::model
