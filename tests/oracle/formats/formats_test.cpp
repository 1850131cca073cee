// Every GGUF row of format_table.h against ggml's own library, as npm's node-llama-cpp ships it built:
// number, name, size of a block, and each value of decoded rows, bit for bit. FLYBALL_NODE_MODULES: where the
// package is (default <build>/node_modules).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "kernels/formats/dequantize.hpp"
#include "kernels/formats/quantize.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::kernels {
namespace {

#if defined(__x86_64__)
constexpr const char* kPlatform = "linux-x64";
#elif defined(__aarch64__)
constexpr const char* kPlatform = "linux-arm64";
#else
constexpr const char* kPlatform = "none";
#endif

// Null: there is none.
void* ggml() {
  static void* const library = [] {
    const char* given = std::getenv("FLYBALL_NODE_MODULES");
    const std::filesystem::path modules = given != nullptr ? given : FLYBALL_BINARY_DIR "/node_modules";
    const auto path = modules / "@node-llama-cpp" / kPlatform / "bins" / kPlatform / "libggml-base.so";
    return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  return library;
}

template <class Function>
Function* function(const std::string& name) {
  auto* found = reinterpret_cast<Function*>(::dlsym(ggml(), name.c_str()));
  EXPECT_NE(found, nullptr) << "libggml-base has no " << name;
  return found;
}

using DecodeRow = void(const void* from, float* to, std::int64_t cols);

DecodeRow* decoder(DType type) {
  if (type == DType::f16) return function<DecodeRow>("ggml_fp16_to_fp32_row");
  if (type == DType::bf16) return function<DecodeRow>("ggml_bf16_to_fp32_row");
  std::string name(to_string(type));  // "Q4_K" is q4_K, "IQ4_XS" iq4_xs
  for (char& c : name)
    if (c != 'K') c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return function<DecodeRow>("dequantize_row_" + name);
}

class GgmlFormat : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (ggml() == nullptr)
      GTEST_SKIP() << "no node-llama-cpp for " << kPlatform << " (set FLYBALL_NODE_MODULES)";
  }
};

TEST_P(GgmlFormat, HasTheSameNumberNameAndBlock) {
  const FormatRow& row = row_of(GetParam());
  const auto number = static_cast<int>(row.gguf_type);
  std::string name(function<const char*(int)>("ggml_type_name")(number));
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(name, row.name);
  EXPECT_EQ(function<std::int64_t(int)>("ggml_blck_size")(number), row.block.values);
  EXPECT_EQ(function<std::size_t(int)>("ggml_type_size")(number), row.block.bytes);
}

TEST_P(GgmlFormat, DecodesToTheSameBits) {
  if (GetParam() == DType::f32) GTEST_SKIP() << "f32 is not decoded";
  constexpr std::size_t kCols = 4096, kRows = 64;
  std::mt19937 generator(3);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  DecodeRow* const decode = decoder(GetParam());
  ASSERT_NE(decode, nullptr);
  std::vector<std::uint8_t> bytes(row_bytes(GetParam(), kCols));
  std::vector<float> x(kCols), ours(kCols), theirs(kCols);
  std::size_t numbers = 0;
  for (std::size_t r = 0; r < kRows; ++r) {
    if (r % 2 == 0) {  // every pattern of bits, scales of all sizes included
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(generator());
    } else {
      for (float& v : x) v = normal(generator);
      quantize_row(GetParam(), x.data(), kCols, bytes.data());
    }
    dequantize_row(GetParam(), bytes.data(), kCols, ours.data());
    decode(bytes.data(), theirs.data(), kCols);
    for (std::size_t c = 0; c < kCols; ++c) {
      if (std::isnan(theirs[c])) {
        ASSERT_TRUE(std::isnan(ours[c])) << "row " << r << " column " << c;
        continue;
      }
      ASSERT_EQ(std::bit_cast<std::uint32_t>(ours[c]), std::bit_cast<std::uint32_t>(theirs[c]))
          << "row " << r << " column " << c << ": " << ours[c] << " and " << theirs[c];
      ++numbers;
    }
  }
  EXPECT_GT(numbers, kCols * kRows / 2);
}

INSTANTIATE_TEST_SUITE_P(Types, GgmlFormat, testing::ValuesIn(kAllDTypes),
                         [](const auto& type) { return std::string(to_string(type.param)); });

}  // namespace
}  // namespace flyball::kernels
