#include "backends/spill/format.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

namespace flyball::spill {
namespace {

// The last byte counts versions of everything that the files hold.
constexpr std::string_view kMagic{"FBKVSEG\x01", 8};
constexpr std::array<unsigned char, 16> kKey{'f', 'l', 'y', 'b', 'a', 'l', 'l', ' ',
                                             'k', 'v', ' ', 's', 'p', 'i', 'l', 'l'};

void require(bool invariant) {
  if (!invariant) std::abort();
}

// Appends to, or reads from, a header of fixed size.
template <class Bytes>
struct Cursor {
  Bytes bytes;
  std::size_t at = 0;
  auto take(std::size_t n) {
    const auto part = bytes.subspan(at, n);
    at += n;
    return part;
  }
};
template <std::size_t n>
void put(Cursor<std::span<std::byte>>& to, const std::array<std::byte, n>& value) {
  std::ranges::copy(value, to.take(n).begin());
}
template <std::size_t n>
void get(Cursor<std::span<const std::byte>>& from, std::array<std::byte, n>& value) {
  std::ranges::copy(from.take(n), value.begin());
}

// The header's own checksum is its end.
void seal(std::span<std::byte> header) {
  const std::size_t body = header.size() - sizeof(Checksum);
  std::ranges::copy(checksum(header.first(body)), header.subspan(body).begin());
}
bool sealed(std::span<const std::byte> header) {
  const std::size_t body = header.size() - sizeof(Checksum);
  return std::ranges::equal(checksum(header.first(body)), header.subspan(body));
}

}  // namespace

Checksum checksum(std::span<const std::byte> bytes) {
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> mac(EVP_MAC_fetch(nullptr, "GMAC", nullptr),
                                                              &EVP_MAC_free);
  require(mac != nullptr);
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(EVP_MAC_CTX_new(mac.get()),
                                                                          &EVP_MAC_CTX_free);
  if (!context) throw std::bad_alloc();
  std::array<unsigned char, 12> nonce{};
  char cipher[] = "AES-128-GCM";
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, nonce.data(), nonce.size()),
      OSSL_PARAM_construct_end()};
  Checksum sum;
  std::size_t size = 0;
  require(EVP_MAC_init(context.get(), kKey.data(), kKey.size(), params) == 1 &&
          EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) ==
              1 &&
          EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(sum.data()), &size, sum.size()) ==
              1 &&
          size == sum.size());
  return sum;
}

std::array<std::byte, kSegmentHeaderBytes> encode(const SegmentHeader& header) {
  std::array<std::byte, kSegmentHeaderBytes> bytes{};
  Cursor<std::span<std::byte>> to{bytes};
  std::ranges::copy(std::as_bytes(std::span(kMagic)), to.take(kMagic.size()).begin());
  std::memcpy(to.take(sizeof header.block_bytes).data(), &header.block_bytes, sizeof header.block_bytes);
  put(to, header.space.bytes);
  seal(bytes);
  return bytes;
}

std::optional<SegmentHeader> decode_segment(std::span<const std::byte, kSegmentHeaderBytes> bytes) {
  Cursor<std::span<const std::byte>> from{bytes};
  if (!std::ranges::equal(from.take(kMagic.size()), std::as_bytes(std::span(kMagic))) || !sealed(bytes))
    return std::nullopt;
  SegmentHeader header;
  std::memcpy(&header.block_bytes, from.take(sizeof header.block_bytes).data(), sizeof header.block_bytes);
  get(from, header.space.bytes);
  return header;
}

std::array<std::byte, kRecordHeaderBytes> encode(const RecordHeader& header) {
  std::array<std::byte, kRecordHeaderBytes> bytes{};
  Cursor<std::span<std::byte>> to{bytes};
  put(to, header.key.bytes);
  put(to, header.root.bytes);
  put(to, header.payload);
  seal(bytes);
  return bytes;
}

std::optional<RecordHeader> decode_record(std::span<const std::byte, kRecordHeaderBytes> bytes) {
  if (!sealed(bytes)) return std::nullopt;
  Cursor<std::span<const std::byte>> from{bytes};
  RecordHeader header;
  get(from, header.key.bytes);
  get(from, header.root.bytes);
  get(from, header.payload);
  return header;
}

}  // namespace flyball::spill
