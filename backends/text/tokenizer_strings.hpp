// The strings of a vocabulary: one arena, and a hash index from string to id. Ids count up from 0 in order of
// adding. Look-ups are safe from any number of threads once loading is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::text {

inline constexpr std::size_t kMaxArenaBytes = std::size_t{1} << 30U;  // offsets are 32-bit
// Longest run of occupied slots a look-up walks. At half load a good hash stays below 200 even for 4 million
// keys, so a longer run means keys crafted to collide.
inline constexpr std::size_t kMaxProbe = 1024;

class StringTable {
 public:
  void reserve(std::size_t strings, std::size_t bytes);

  // The id the string got, or the id it already had (added == false). nullopt: the arena is full, or the keys
  // were crafted to collide.
  struct Added {
    std::uint32_t id;
    bool added;
  };
  std::optional<Added> add(std::string_view string);
  // Takes the next id without being found by find().
  std::optional<std::uint32_t> add_unindexed(std::string_view string);

  std::optional<std::uint32_t> find(std::string_view string) const noexcept;
  std::string_view operator[](std::uint32_t id) const noexcept {
    return {arena_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(offsets_.size() - 1); }
  std::size_t bytes() const noexcept { return arena_.size(); }
  void drop_index();
  void shrink();

 private:
  struct Slot {
    std::uint32_t hash;
    std::uint32_t id_plus_one;  // 0: empty
  };
  bool place(std::uint32_t hash, std::uint32_t id);
  bool grow();

  std::string arena_;
  std::vector<std::uint32_t> offsets_{0};
  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t indexed_ = 0;
};

}  // namespace flyball::text
