// The safetensors reader against a well-formed file, and against each way a file can lie.
#include "backends/model/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/backends/model/mlx/directory.hpp"

namespace flyball::model {
namespace {

using nlohmann::json;
using test::bytes_of;
using test::safetensors;
using ::testing::HasSubstr;

json entry(const char* dtype, json shape, std::uint64_t begin, std::uint64_t end) {
  return {{"dtype", dtype}, {"shape", std::move(shape)}, {"data_offsets", {begin, end}}};
}
json two() {
  return {{"__metadata__", {{"format", "mlx"}}},
          {"a", entry("F32", {2, 3}, 0, 24)},
          {"b", entry("BF16", {4}, 24, 32)}};
}
Error error_of(const std::string& file) {
  const auto read = read_safetensors(bytes_of(file));
  EXPECT_FALSE(read.has_value());
  return read ? Error{} : read.error();
}

TEST(Safetensors, ReadsTensorsWhereTheyLie) {
  const std::string data = "0123456789abcdef0123456789ABCDEF";
  const std::string file = safetensors(two(), data);
  const auto read = read_safetensors(bytes_of(file));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].name, "a");
  EXPECT_EQ((*read)[0].dtype, "F32");
  EXPECT_EQ((*read)[0].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ((*read)[0].data.data(), bytes_of(file).data() + file.size() - 32);
  EXPECT_EQ((*read)[1].data.size(), 8U);
  EXPECT_EQ(static_cast<char>((*read)[1].data[0]), '8');
}

TEST(Safetensors, RefusesWhatDoesNotFit) {
  struct Case {
    std::function<void(json&)> spoil;
    const char* message;
  };
  const json deep = json::parse(std::string(40, '[') + std::string(40, ']'));
  const Case cases[] = {
      {[](json& h) {
         h["a"]["data_offsets"] = {0, 20};
       },
       "the tensor a of 24 bytes lies from 0 to 20"},
      {[](json& h) {
         h["b"]["data_offsets"] = {24, 40};
       },
       "lies from 24 to 40, outside the 32 bytes"},
      {[](json& h) {
         h["b"]["data_offsets"] = {32, 24};
       },
       "lies from 32 to 24"},
      {[](json& h) {
         h["b"]["data_offsets"] = {16, 24};
       },
       "the tensor b begins at byte 16"},  // over a
      {[](json& h) {
         h["b"]["shape"] = {2}, h["b"]["data_offsets"] = {24, 28};
       },
       "the last 4 bytes"},
      {[](json& h) {
         h["b"]["shape"] = {2}, h["b"]["data_offsets"] = {28, 32};
       },
       "begins at byte 28"},  // a hole
      {[](json& h) { h.erase("a"); }, "begins at byte 24"},
      {[](json& h) {
         h["a"]["data_offsets"] = {0, 24, 24};
       },
       "no beginning and end"},
      {[](json& h) {
         h["a"]["data_offsets"] = {0, -1};
       },
       "no count"},
      {[](json& h) {
         h["a"]["data_offsets"] = {0.0, 24.0};
       },
       "no count"},
      {[](json& h) {
         h["a"]["shape"] = {2, 0};
       },
       "a dimension of 0"},
      {[](json& h) {
         h["a"]["shape"] = {-2, 3};
       },
       "no count"},
      {[](json& h) {
         h["a"]["shape"] = {1, 1, 1, 2, 3};
       },
       "5 numbers as its shape; at most 4"},
      {[](json& h) {
         h["a"]["shape"] = {1ULL << 33, 1ULL << 33};
       },
       "beyond 64 bits"},
      {[](json& h) { h["a"]["shape"] = "2"; }, "no shape that is a list"},
      {[](json& h) { h["a"]["dtype"] = "F8_E4M3"; }, "of the type F8_E4M3"},
      {[](json& h) { h["a"]["dtype"] = 4; }, "no dtype"},
      {[](json& h) { h["a"]["more"] = 1; }, "not described by dtype, shape and data_offsets"},
      {[](json& h) { h["a"] = 1; }, "not described by dtype"},
      {[](json& h) { h[""] = h["a"]; }, "a name of 0 bytes"},
      {[](json& h) { h[std::string(300, 'x')] = h["a"]; }, "a name of 300 bytes; 1 to 256"},
      {[&](json& h) { h["a"]["shape"] = deep; }, "nests deeper than 4"},
      {[](json& h) { h = json::array(); }, "not a JSON object"},
  };
  for (const Case& c : cases) {
    json header = two();
    c.spoil(header);
    const Error error = error_of(safetensors(header, std::string(32, 'x')));
    EXPECT_EQ(error.code, ErrorCode::model_invalid) << c.message;
    EXPECT_THAT(error.message, HasSubstr(c.message));
    EXPECT_FALSE(error.where.empty()) << c.message;
  }
}

TEST(Safetensors, RefusesBadHeaders) {
  const std::string good = safetensors(two(), std::string(32, 'x'));
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(read_safetensors(bytes_of(good.substr(0, n)))) << n;
  std::string huge = good;
  huge[7] = '\x7F';
  EXPECT_THAT(error_of(huge).message, HasSubstr("remain and 16777216 are allowed"));
  const std::string twice = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":1})";
  std::string raw(8, '\0');
  raw[0] = static_cast<char>(twice.size());
  EXPECT_THAT(error_of(raw + twice + "1234").message, HasSubstr("A key appears twice"));
  const std::string cut = R"({"a":)";
  raw[0] = static_cast<char>(cut.size());
  const Error error = error_of(raw + cut);
  EXPECT_THAT(error.message, HasSubstr("The header is not valid JSON"));
  EXPECT_THAT(error.where, HasSubstr("byte"));
}

}  // namespace
}  // namespace flyball::model
