// The bytes of a segment, the kind of file that KV is spilled to: a header, then records of one size, each a
// header and the bytes of one block. A segment is only ever appended to, by the process that made it; what
// is torn or was changed is told by checksums, record by record. No I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "backends/kv/chain_key.hpp"

namespace flyball::spill {

// 128 bits: GMAC under a fixed key, which OpenSSL computes at memory's speed. It is there for accidents, not
// for adversaries: who can write to these files is their owner.
using Checksum = std::array<std::byte, 16>;
Checksum checksum(std::span<const std::byte> bytes);

inline constexpr std::size_t kSegmentHeaderBytes = 64;
inline constexpr std::size_t kRecordHeaderBytes = 96;

struct SegmentHeader {
  kv::ChainKey space;             // of all blocks in it
  std::uint64_t block_bytes = 0;  // of each block
};
std::array<std::byte, kSegmentHeaderBytes> encode(const SegmentHeader& header);
// nullopt: no segment's, or another version's.
std::optional<SegmentHeader> decode_segment(std::span<const std::byte, kSegmentHeaderBytes> bytes);

struct RecordHeader {
  kv::ChainKey key, root;  // of the block; of whose it is
  Checksum payload{};
};
std::array<std::byte, kRecordHeaderBytes> encode(const RecordHeader& header);
std::optional<RecordHeader> decode_record(std::span<const std::byte, kRecordHeaderBytes> bytes);

}  // namespace flyball::spill
