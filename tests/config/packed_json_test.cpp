// Packed JSON: what a document says is what its bytes say, and bytes from elsewhere are never trusted.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "config/keyed_hash.hpp"
#include "tests/harness/packed.hpp"

namespace flyball {
namespace {

using nlohmann::json;
using test::packed;
using test::text_of;

constexpr std::uint64_t kSipHash13[] = {
    0xABAC0158050FC4DC, 0xC9F49BF37D57CA93, 0x82CB9B024DC7D44D, 0x8BF80AB8E7DDF7FB, 0xCF75576088D38328,
    0xDEF9D52F49533B67, 0xC50D2B50C59F22A7, 0xD3927D989BB11140, 0x369095118D299A8E, 0x25A48EB36C063DE4,
    0x79DE85EE92FF097F, 0x70C118C1F94DC352, 0x78A384B157B4D9A2, 0x306F760C1229FFA7, 0x605AA111C0F95D34,
    0xD320D86D2A519956, 0xCC4FDD1A7D908B66, 0x9CF2689063DBD80C, 0x8FFC389CB473E63E, 0xF21F9DE58D297D1C};

constexpr const char* kDocuments[] = {
    "null",
    "[1,2.5,-3,\"x\",true,false,null]",
    R"({"a":{"b":[{}]},"c":""})",
    "18446744073709551615",
    "-9223372036854775808",
    R"("\ud83d\ude00")",
    " [ ] ",
    R"({"z":1,"a":[1e300,{"y":0}],"":"\u0000"})",
};

TEST(PackedJson, SaysWhatTheDocumentSays) {
  for (const char* text : kDocuments) {
    const auto value = read_packed(text);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(to_nlohmann(value->view()), json::parse(text)) << text;
  }
}

TEST(PackedJson, KeepsTheOrderOfMembers) {
  const std::string text = R"({"z":{"b":1,"a":2},"a":[{"y":1,"x":2}]})";
  EXPECT_EQ(text_of(packed(text)), text);
  EXPECT_TRUE(packed(text).view().find("a").is_array());
  EXPECT_FALSE(packed(text).view().find("y"));
}

TEST(PackedJson, RefusesAKeyThatAppearsTwiceInAnObjectOfAnySize) {
  for (const std::size_t n : {1, 2, 15, 16, 17, 18, 63, 64, 65, 1000, 90'000}) {
    std::string text = R"({"outer":{)";
    for (std::size_t i = 0; i < n; ++i) text += "\"key-" + std::to_string(i) + "\":0,";
    const auto with = [&](const std::string& last) {
      return read_packed(text + "\"" + last + "\":1},\"b\":2}");
    };
    const auto unique = with("outer");
    ASSERT_TRUE(unique) << n;
    EXPECT_EQ(unique->view().find("outer").size(), n + 1);
    for (const std::size_t twice : {std::size_t{0}, n / 2, n - 1}) {
      const auto refused = with("key-" + std::to_string(twice));
      ASSERT_FALSE(refused) << n << " " << twice;
      EXPECT_EQ(refused.error().code, ErrorCode::invalid_json);
      const std::size_t behind = text.size() + 2 + std::to_string(twice).size() + 4;
      EXPECT_EQ(refused.error().where, "byte " + std::to_string(behind - 1)) << n << " " << twice;
    }
  }
}

// The vectors of SipHash's authors are of SipHash-2-4; these are of another program's SipHash-1-3.
TEST(KeyedHash, IsSipHash13) {
  const KeyedHash hash(0x0706050403020100, 0x0F0E0D0C0B0A0908);
  std::string text;
  for (const std::uint64_t expected : kSipHash13) {
    EXPECT_EQ(hash(text), expected) << text.size() << " bytes";
    text.push_back(static_cast<char>(text.size()));
  }
}

TEST(PackedJson, KeepsIntegersBeyond64BitsAsTheirDigits) {
  const PackedJson value =
      packed("[9223372036854775807,9223372036854775808,18446744073709551616,-9223372036854775809,1e2]");
  std::vector<JsonView> members;
  for (const auto& member : value.view().members()) members.push_back(member.value);
  EXPECT_EQ(members[0].as_integer(), INT64_MAX);
  EXPECT_EQ(members[1].text(), "9223372036854775808");
  EXPECT_EQ(members[1].as_unsigned(), 9223372036854775808U);
  EXPECT_EQ(members[2].text(), "18446744073709551616");
  EXPECT_EQ(members[2].as_unsigned(), std::nullopt);
  EXPECT_EQ(members[2].as_double(), 18446744073709551616.0);
  EXPECT_EQ(members[3].text(), "-9223372036854775809");
  EXPECT_EQ(members[3].as_unsigned(), std::nullopt);
  EXPECT_TRUE(members[4].is(JsonKind::real));
}

TEST(PackedJson, KnowsHowLongContainersWereAsText) {
  const PackedJson value = packed(R"( { "a" : [ 1, 2 ] , "b":{} } )");
  EXPECT_EQ(value.json_bytes(), 27U);
  EXPECT_EQ(value.view().find("a").json_bytes(), 8U);
  EXPECT_EQ(value.view().find("b").json_bytes(), 2U);
}

// The same words as read_json's, with the same place.
TEST(PackedJson, RefusesWhatTheOtherReaderRefuses) {
  std::string many = "{";
  for (int i = 0; i < 40; ++i) many += "\"k" + std::to_string(i) + "\":{\"in\":0},";
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  for (const std::string& text :
       {std::string(), std::string(R"({"a": tru})"), std::string(R"({"a":1,"a":2})"),
        std::string(R"({"a":1,"\u0061":2})"), std::string("\"\xff\""), std::string("[1,]"),
        std::string("1e999"), std::string(R"("\ud800")"), std::string("[1"), deep, many + "\"k3\":1}",
        many + "\"k39\":1}", "[" + many.substr(0, many.size() - 1) + "},{\"a\":1,\"a\":1}]"}) {
    const auto one = read_packed(text);
    const auto other = read_json(text);
    ASSERT_FALSE(one) << text;
    ASSERT_FALSE(other) << text;
    EXPECT_EQ(one.error().message, other.error().message) << text;
    EXPECT_EQ(one.error().where, other.error().where) << text;
  }
  EXPECT_TRUE(read_packed(many + "\"in\":1}"));
  EXPECT_EQ(read_packed("[1,2,3]", {.depth = 2, .nodes = 3}).error().code, ErrorCode::json_too_large);
}

TEST(PackedJson, BytesSurviveTheirWay) {
  for (const char* text : kDocuments) {
    const PackedJson value = packed(text);
    const auto back = PackedJson::from_bytes(std::string(value.bytes()));
    ASSERT_TRUE(back) << text << ": " << back.error().message;
    EXPECT_EQ(back->bytes(), value.bytes());
  }
}

// Cut anywhere, or with any byte changed, they are refused or still well formed: walking them stays inside.
TEST(PackedJson, BrokenBytesAreRefusedOrHarmless) {
  const std::string whole(packed(R"({"a":[1,"xy",{"b":2.5}],"c":18446744073709551616,"d":null})").bytes());
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_FALSE(PackedJson::from_bytes(whole.substr(0, n))) << n;
  EXPECT_FALSE(PackedJson::from_bytes(whole + '\0'));
  std::size_t refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const int value : {0, 1, 3, 6, 7, 8, 9, 127, 128, 255}) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(value);
      const auto back = PackedJson::from_bytes(bytes);
      if (back)
        (void)to_nlohmann(back->view()).dump();
      else
        ++refused;
    }
  EXPECT_GT(refused, whole.size());
}

TEST(PackedJson, BytesFromElsewhereMayNotNestWithoutEnd) {
  const auto nested = [](int levels) {
    JsonPacker packer;
    for (int i = 0; i < levels; ++i) packer.open(JsonKind::array);
    for (int i = 0; i < levels; ++i) packer.close(0);
    return std::string(packer.take().bytes());
  };
  EXPECT_TRUE(PackedJson::from_bytes(nested(64)));
  EXPECT_EQ(PackedJson::from_bytes(nested(65)).error().code, ErrorCode::json_too_deep);
}

TEST(PackedJson, PartsAreCopiedAsTheyAre) {
  const PackedJson value = packed(R"({"messages":[{"role":"user"}],"n":1})");
  const PackedJson part(value.view().find("messages"));
  EXPECT_EQ(text_of(part), R"([{"role":"user"}])");
  JsonPacker packer;
  packer.open(JsonKind::array);
  packer.value(value.view().find("n"));
  packer.value(part.view());
  packer.close(0);
  EXPECT_EQ(text_of(packer.take()), R"([1,[{"role":"user"}]])");
}

}  // namespace
}  // namespace flyball
