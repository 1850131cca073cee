// Open addressing over an arena.
#include "backends/text/tokenizer_strings.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace flyball::text {
namespace {

constexpr std::size_t kMinSlots = 64;

__extension__ using Uint128 = unsigned __int128;

// Multiply and fold, eight bytes at a step (the shape of wyhash); strings here are mostly under 16 bytes.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const auto product = static_cast<Uint128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

std::uint32_t hash_of(std::string_view string) noexcept {
  constexpr std::uint64_t kA = 0x9E3779B97F4A7C15ULL, kB = 0xD1B54A32D192ED03ULL;
  std::uint64_t state = kA ^ string.size();
  const char* data = string.data();
  std::size_t left = string.size();
  for (; left > 8; left -= 8, data += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    state = mix(state ^ word, kB);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, data, left);
  state = mix(state ^ word, kB);
  return static_cast<std::uint32_t>(state ^ state >> 32U);
}

}  // namespace

void StringTable::reserve(std::size_t strings, std::size_t bytes) {
  offsets_.reserve(strings + 1);
  arena_.reserve(bytes);
  const std::size_t wanted = std::bit_ceil(std::max(strings * 2, kMinSlots));
  if (slots_.empty()) slots_.resize(wanted);
}

bool StringTable::place(std::uint32_t hash, std::uint32_t id) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t probe = 0; probe < kMaxProbe; ++probe) {
    Slot& slot = slots_[(hash + probe) & mask];
    if (slot.id_plus_one != 0) continue;
    slot = {hash, id + 1};
    ++indexed_;
    return true;
  }
  return false;
}

bool StringTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.empty() ? kMinSlots : old.size() * 2, Slot{0, 0});
  indexed_ = 0;
  for (const Slot& slot : old) {
    if (slot.id_plus_one != 0 && !place(slot.hash, slot.id_plus_one - 1)) return false;
  }
  return true;
}

std::optional<std::uint32_t> StringTable::add_unindexed(std::string_view string) {
  if (string.size() > kMaxArenaBytes - arena_.size()) return std::nullopt;
  arena_.append(string);
  offsets_.push_back(static_cast<std::uint32_t>(arena_.size()));
  return size() - 1;
}

std::optional<StringTable::Added> StringTable::add(std::string_view string) {
  if (const auto found = find(string)) return Added{*found, false};
  if ((indexed_ + 1) * 2 > slots_.size() && !grow()) return std::nullopt;
  const auto id = add_unindexed(string);
  if (!id || !place(hash_of(string), *id)) return std::nullopt;
  return Added{*id, true};
}

std::optional<std::uint32_t> StringTable::find(std::string_view string) const noexcept {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t hash = hash_of(string);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t probe = 0; probe < kMaxProbe; ++probe) {
    const Slot& slot = slots_[(hash + probe) & mask];
    if (slot.id_plus_one == 0) return std::nullopt;
    if (slot.hash == hash && (*this)[slot.id_plus_one - 1] == string) return slot.id_plus_one - 1;
  }
  return std::nullopt;
}

void StringTable::drop_index() {
  slots_ = {};
  indexed_ = 0;
}

void StringTable::shrink() {
  arena_.shrink_to_fit();
  offsets_.shrink_to_fit();
}

}  // namespace flyball::text
