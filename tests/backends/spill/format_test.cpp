#include "backends/spill/format.hpp"

#include <gtest/gtest.h>

#include "tests/backends/spill/support.hpp"

namespace flyball::test {
namespace {

TEST(ChainKey, IsAFunctionOfSpaceOwnerAndEveryToken) {
  const Token a[] = {1, 2}, b[] = {3, 4}, c[] = {1, 3};
  const auto root_a = kv::root_key(space("m"), "a");
  const auto chain = kv::next_key(kv::next_key(root_a, a), b);
  EXPECT_EQ(chain, kv::next_key(kv::next_key(kv::root_key(kv::space_key("m"), "a"), a), b));
  EXPECT_NE(chain, kv::next_key(kv::next_key(root_a, b), a));
  EXPECT_NE(chain, kv::next_key(kv::next_key(root_a, c), b));
  EXPECT_NE(root_a, kv::root_key(space("m"), "b"));
  EXPECT_NE(root_a, kv::root_key(space("n"), "a"));
  EXPECT_NE(kv::root_key(space("m"), ""), kv::space_key("m"));
}

TEST(Checksum, TellsEveryByteAndTheLength) {
  auto block = payload(7, 4096);
  const auto whole = spill::checksum(block);
  EXPECT_EQ(whole, spill::checksum(payload(7, 4096)));
  for (std::byte& b : block) {
    for (const auto bit : {std::byte{1}, std::byte{128}}) {
      b ^= bit;
      ASSERT_NE(spill::checksum(block), whole);
      b ^= bit;
    }
  }
  EXPECT_NE(spill::checksum(std::span(block).first(4095)), whole);
  EXPECT_NE(spill::checksum(std::vector<std::byte>(16)), spill::checksum(std::vector<std::byte>(32)));
}

TEST(SegmentHeader, ComesBackAndToleratesNoChange) {
  const auto bytes = spill::encode(spill::SegmentHeader{space(), 12345});
  const auto header = spill::decode_segment(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->space, space());
  EXPECT_EQ(header->block_bytes, 12345U);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= std::byte{4};
    EXPECT_FALSE(spill::decode_segment(changed)) << i;
  }
}

TEST(RecordHeader, ComesBackAndToleratesNoChange) {
  const auto bytes = spill::encode(spill::RecordHeader{key(1), root(), spill::checksum(payload(1))});
  const auto header = spill::decode_record(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->key, key(1));
  EXPECT_EQ(header->root, root());
  EXPECT_EQ(header->payload, spill::checksum(payload(1)));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] ^= std::byte{64};
    EXPECT_FALSE(spill::decode_record(changed)) << i;
  }
}

}  // namespace
}  // namespace flyball::test
