// The GGUF parser against well-formed files, and against each way a file can lie.
#include "backends/model/gguf.hpp"
#include "backends/model/gguf_outline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/backends/model/raw_gguf.hpp"

namespace flyball::model {
namespace {

using test::Raw;
using test::SmallModel;
using ::testing::HasSubstr;

constexpr std::uint32_t kF32 = 0, kQ4_0 = 2, kQ4_K = 12, kIq4Nl = 20, kIq1S = 19;

Error error_of(std::span<const std::byte> file) {
  auto parsed = Gguf::parse(file);
  EXPECT_FALSE(parsed.has_value());
  return parsed ? Error{} : parsed.error();
}
void expect_invalid(const Raw& raw, const char* message) {
  const auto error = error_of(raw.bytes());
  EXPECT_EQ(error.code, ErrorCode::model_invalid);
  EXPECT_THAT(error.message, HasSubstr(message));
}

TEST(Gguf, ReadsEveryMetadataType) {
  Raw raw;
  raw.header(0, 13);
  raw.key("u8", GgufType::u8).put(std::uint8_t{200});
  raw.key("i8", GgufType::i8).put(std::int8_t{-5});
  raw.key("u16", GgufType::u16).put(std::uint16_t{60'000});
  raw.key("i16", GgufType::i16).put(std::int16_t{-300});
  raw.key("u32", GgufType::u32).put(std::uint32_t{4'000'000'000});
  raw.key("i32", GgufType::i32).put(std::int32_t{-70'000});
  raw.key("f32", GgufType::f32).put(1.5F);
  raw.key("bool", GgufType::boolean).put(std::uint8_t{1});
  raw.key("string", GgufType::string).text("text");
  raw.key("u64", GgufType::u64).put(std::numeric_limits<std::uint64_t>::max());
  raw.key("i64", GgufType::i64).put(std::int64_t{-1});
  raw.key("f64", GgufType::f64).put(0.1);
  raw.key("i16s", GgufType::array).put(static_cast<std::uint32_t>(GgufType::i16)).put(std::uint64_t{3});
  raw.put(std::int16_t{1}).put(std::int16_t{-2}).put(std::int16_t{3});
  const auto file = Gguf::parse(raw.bytes());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(**file->get_uint("u8"), 200U);
  EXPECT_EQ(**file->get_uint("u16"), 60'000U);
  EXPECT_EQ(**file->get_uint("u32"), 4'000'000'000U);
  EXPECT_EQ(**file->get_uint("u64"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(std::get<std::int64_t>(file->metadata().at("i8")), -5);
  EXPECT_EQ(std::get<std::int64_t>(file->metadata().at("i16")), -300);
  EXPECT_EQ(std::get<std::int64_t>(file->metadata().at("i32")), -70'000);
  EXPECT_FALSE(file->get_uint("i64"));  // negative
  EXPECT_EQ(**file->get_float("f32"), 1.5);
  EXPECT_EQ(**file->get_float("f64"), 0.1);
  EXPECT_EQ(**file->get_bool("bool"), true);
  EXPECT_EQ(**file->get_string("string"), "text");
  const auto array = *file->get_array("i16s");
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(array->count, 3U);
  EXPECT_EQ(array->int_at(1), -2);
  EXPECT_EQ(array->float_at(2), 3.0);
  // Absent is no error; another type is.
  EXPECT_EQ(*file->get_uint("none"), std::nullopt);
  EXPECT_EQ(*file->get_array("none"), nullptr);
  EXPECT_EQ(file->get_uint("string").error().where, "string");
  EXPECT_FALSE(file->get_string("u8"));
  EXPECT_FALSE(file->get_bool("u8"));
  EXPECT_FALSE(file->get_float("u8"));
  EXPECT_FALSE(file->get_array("u8"));
}

TEST(Gguf, StringArraysByIndexAndInOrder) {
  GgufWriter writer;
  std::vector<std::string> words;
  for (int i = 0; i < 100; ++i)
    words.push_back(std::string(static_cast<std::size_t>(i % 7), 'x') + std::to_string(i));
  writer.set_strings("words", words);
  writer.set_strings("nothing", {});
  const auto header = writer.header();
  const auto file = Gguf::parse(std::as_bytes(std::span(header)));
  ASSERT_TRUE(file);
  const auto& strings = (*file->get_array("words"))->strings;
  ASSERT_EQ(strings.size(), words.size());
  std::size_t i = 0;
  for (const auto string : strings) {
    EXPECT_EQ(string, words[i]);
    EXPECT_EQ(strings[i], words[i]);
    ++i;
  }
  EXPECT_EQ(i, words.size());
  EXPECT_TRUE((*file->get_array("nothing"))->strings.empty());
}

TEST(Gguf, ReadsVersion2AndRefusesOthers) {
  EXPECT_EQ(Gguf::parse(Raw().header(0, 0, 2).bytes())->version(), 2U);
  expect_invalid(Raw().header(0, 0, 1), "version 1");
  expect_invalid(Raw().header(0, 0, 4), "version 4");
  expect_invalid(Raw().header(0, 0, 0x0300'0000), "big-endian");
  expect_invalid(Raw().put('G').put('G').put('M').put('L'), "not a GGUF file");
  expect_invalid(Raw(), "not a GGUF file");
}

TEST(Gguf, PlacesTensors) {
  Raw raw;
  raw.header(2, 0).tensor("b", {32, 2}, kQ4_0, 64).tensor("a", {3}, kF32, 0).pad(32).zeros(100);
  const auto start = raw.bytes().size() - 100;
  const auto file = Gguf::parse(raw.bytes());
  ASSERT_TRUE(file) << file.error().message;
  const auto* a = file->tensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->data.data(), raw.bytes().data() + start);
  EXPECT_EQ(a->data.size(), 12U);
  EXPECT_EQ(a->rows(), 1U);
  const auto* b = file->tensor("b");
  EXPECT_EQ(b->data.data(), raw.bytes().data() + start + 64);
  EXPECT_EQ(b->data.size(), 36U);
  EXPECT_EQ(b->rows(), 2U);
  EXPECT_EQ(file->tensor("c"), nullptr);
}

// Every prefix of a valid file is refused, in whatever field it ends.
TEST(Gguf, TruncatedAtEveryByte) {
  const auto file = SmallModel{}.bytes([](GgufWriter& out) {
    out.set_strings("words", std::vector<std::string>{"a", "bc", ""});
    out.set_f32s("numbers", std::vector<float>{1, 2});
  });
  ASSERT_TRUE(Gguf::parse(file));
  const auto padding = 16U;  // behind the last tensor: 5 rows of 4 floats, padded to 32
  for (std::size_t n = 0; n + padding < file.size(); ++n) {
    // A buffer of exactly n bytes, so that AddressSanitizer sees a read beyond it.
    const std::vector<std::byte> prefix(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(error_of(prefix).code, ErrorCode::model_invalid) << n;
  }
}

// Every byte of a small file replaced by hostile values: an error or a file, never a read outside (the
// sanitizers).
TEST(Gguf, EveryByteChanged) {
  const auto file = SmallModel{}.bytes();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const unsigned value : {0x00U, 0x01U, 0x7FU, 0x80U, 0xFFU}) {
      auto changed = file;
      changed[at] = static_cast<std::byte>(value);
      const auto parsed = Gguf::parse(changed);
      if (!parsed) {
        EXPECT_EQ(parsed.error().code, ErrorCode::model_invalid);
        ++refused;
        continue;
      }
      for (const auto& tensor : parsed->tensors()) {
        ASSERT_GE(tensor.data.data(), changed.data());
        ASSERT_LE(tensor.data.data() + tensor.data.size(), changed.data() + changed.size());
      }
    }
  }
  EXPECT_GT(refused, 1000U);
}

// Eight bytes at a time: every length, count and offset set to values that overflow sums and products.
TEST(Gguf, EveryWordChanged) {
  const auto file = SmallModel{}.bytes();
  for (std::size_t at = 4; at + 8 <= file.size(); ++at) {
    for (const std::uint64_t value : std::initializer_list<std::uint64_t>{
             ~0ULL, ~0ULL - 31, 1ULL << 63, (1ULL << 63) - 1, 1ULL << 32, (1ULL << 62) + 1, file.size()}) {
      auto changed = file;
      std::memcpy(changed.data() + at, &value, sizeof value);
      const auto parsed = Gguf::parse(changed);
      if (!parsed) continue;
      for (const auto& tensor : parsed->tensors()) {
        ASSERT_LE(tensor.data.data() + tensor.data.size(), changed.data() + changed.size());
      }
    }
  }
}

TEST(Gguf, CountsAreCappedBeforeAnythingIsRead) {
  // 20 MB of 14-byte keys: refused at the count, in the header, before any of them is looked at.
  Raw raw;
  const std::uint64_t n = 20'000'000 / 14;
  raw.header(0, n);
  for (std::uint64_t i = 0; i < n; ++i)
    raw.text(std::string(1, static_cast<char>(i))).put(std::uint32_t{0}).put('x');
  const auto error = error_of(raw.bytes());
  EXPECT_EQ(error.where, "byte 16");
  EXPECT_THAT(error.message, HasSubstr("65536"));
  expect_invalid(Raw().header(65'537, 0), "the limit is 65536");
  // Counts within the limit, but not within the bytes.
  expect_invalid(Raw().header(0, 1000).zeros(100), "ends inside its metadata");
  expect_invalid(Raw().header(1000, 0).zeros(100), "ends inside its tensor directory");
}

// The largest number of keys that passes the cap, all alike in their first 300 bytes: found duplicate at the
// end.
TEST(Gguf, DuplicateAmongTheMostKeysAllowed) {
  Raw raw;
  raw.header(0, kMaxGgufKeys);
  const std::string stem(300, 'k');
  for (std::uint64_t i = 0; i + 1 < kMaxGgufKeys; ++i) {
    raw.text(stem + std::to_string(i)).put(std::uint32_t{0}).put('x');
  }
  raw.text(stem + "7").put(std::uint32_t{0}).put('x');
  expect_invalid(raw, "appears twice");
}

TEST(Gguf, MetadataThatLies) {
  expect_invalid(Raw().header(0, 1).text("").put(std::uint32_t{0}).put('x').zeros(8), "is empty");
  expect_invalid(Raw().header(0, 1).text("key").put(std::uint32_t{13}).zeros(8), "unknown type 13");
  expect_invalid(Raw().header(0, 1).key("key", GgufType::boolean).put(char{2}), "boolean key is 2");
  expect_invalid(Raw().header(0, 1).put(~0ULL).zeros(20), "the limit is 65535");
  expect_invalid(Raw().header(0, 1).key("key", GgufType::string).put(~0ULL).zeros(8), "where 8 remain");
  const auto array = [](GgufType element, std::uint64_t count) {
    return Raw()
        .header(0, 1)
        .key("key", GgufType::array)
        .put(static_cast<std::uint32_t>(element))
        .put(count)
        .zeros(64);
  };
  expect_invalid(array(GgufType::array, 1), "holds arrays");
  expect_invalid(array(static_cast<GgufType>(99), 1), "unknown element type 99");
  expect_invalid(array(GgufType::u8, 65), "where 64 bytes remain");
  expect_invalid(array(GgufType::f64, 9), "where 64 bytes remain");
  expect_invalid(array(GgufType::string, 9), "where 64 bytes remain");
  expect_invalid(array(GgufType::u8, kMaxGgufArray + 1), "the limit is");
  expect_invalid(array(GgufType::u64, 1ULL << 61), "the limit is");
  Raw twice;
  twice.header(0, 2).key("key", GgufType::u8).put('x').key("key", GgufType::u8).put('x');
  expect_invalid(twice, "appears twice");
}

TEST(GgufOutline, CountsTensorsOfAnyTypeWhereverTheyLie) {
  Raw file;
  file.header(4, 0).tensor("a", {32, 7}, kIq4Nl, 0).tensor("b", {32}, kIq4Nl, 3);
  file.tensor("c", {1ULL << 40}, kF32, ~0ULL).tensor("d", {32}, 99, 0);
  const auto outline = outline_gguf(file.bytes());
  ASSERT_TRUE(outline) << outline.error().message;
  EXPECT_EQ(outline->architecture, "");
  ASSERT_EQ(outline->types.size(), 3U);
  EXPECT_EQ(outline->types.at("IQ4_NL").count, 2U);
  EXPECT_EQ(outline->types.at("IQ4_NL").values, 32U * 8);
  EXPECT_EQ(outline->types.at("F32").values, 1ULL << 40);
  EXPECT_EQ(outline->types.at("unknown").count, 1U);
  Raw cut;
  cut.header(2, 0).tensor("a", {32}, kF32, 0).pad(32);
  EXPECT_FALSE(outline_gguf(cut.bytes())) << "the second entry is not there";
}

TEST(Gguf, TensorsThatLie) {
  const auto one = [](std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type,
                      std::uint64_t offset) {
    return Raw().header(1, 0).tensor(name, std::move(dims), type, offset).pad(32).zeros(64);
  };
  expect_invalid(one("", {4}, kF32, 0), "is empty");
  expect_invalid(one(std::string(65, 'n'), {4}, kF32, 0), "the limit is 64");
  expect_invalid(one("t", {}, kF32, 0), "0 dimensions");
  expect_invalid(one("t", {1, 1, 1, 1, 1}, kF32, 0), "5 dimensions");
  expect_invalid(one("t", {0}, kF32, 0), "dimension of 0");
  expect_invalid(one("t", {1ULL << 32, 1ULL << 32}, kF32, 0), "overflow");
  expect_invalid(one("t", {1ULL << 31, 1ULL << 32}, kF32, 0), "overflow");
  expect_invalid(one("t", {1ULL << 62}, kF32, 0), "outside");  // times 4 bytes overflows
  expect_invalid(one("t", {17}, kF32, 0), "outside the 64 bytes");
  expect_invalid(one("t", {16}, kF32, 32), "outside the 64 bytes");
  expect_invalid(one("t", {4}, kF32, 16), "not a multiple of the alignment 32");
  expect_invalid(one("t", {4}, kF32, ~0ULL - 31), "outside");
  expect_invalid(one("t", {33}, kQ4_0, 0), "not a multiple of the 32");
  expect_invalid(one("t", {32}, kQ4_K, 0), "not a multiple of the 256");
  expect_invalid(one("t", {32}, kIq1S, 0), "the tensor t has the type IQ1_S; this build reads F32, F16, ");
  expect_invalid(one("t", {32}, 4, 0), "the tensor t has the type type 4");
  expect_invalid(Raw().header(2, 0).tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32).pad(32).zeros(64),
                 "t appears twice");
  expect_invalid(Raw().header(2, 0).tensor("a", {16}, kF32, 0).tensor("b", {1}, kF32, 32).pad(32).zeros(64),
                 "overlap");
  expect_invalid(Raw().header(2, 0).tensor("a", {1}, kF32, 32).tensor("b", {1}, kF32, 32).pad(32).zeros(64),
                 "overlap");
}

TEST(Gguf, Alignment) {
  const auto with = [](std::uint32_t alignment) {
    Raw raw;
    raw.header(1, 1).key("general.alignment", GgufType::u32).put(alignment).tensor("t", {1}, kF32, 0);
    return raw.pad(64).zeros(8);
  };
  EXPECT_TRUE(Gguf::parse(with(8).bytes()));
  EXPECT_TRUE(Gguf::parse(with(64).bytes()));
  for (const std::uint32_t wrong : {0U, 1U, 4U, 12U, 33U, 131'072U, 0x8000'0000U, ~0U}) {
    expect_invalid(with(wrong), "power of two");
  }
}

TEST(Gguf, MessagesHoldNoForeignBytes) {
  Raw raw;
  const std::string name = "\x1b[31m\xff" + std::string(100, 'n');
  raw.header(0, 2).key(name, GgufType::u8).put('x').key(name, GgufType::u8).put('x');
  const auto error = error_of(raw.bytes());
  EXPECT_THAT(error.message, HasSubstr("?[31m?nnn"));
  EXPECT_LT(error.message.size(), 130U);
}

}  // namespace
}  // namespace flyball::model
