// Which idle engine ends so that another one's load finds memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "backends/backend.hpp"

namespace flyball::fleet {

// Where an engine's model lies. The end of one is no room in the other.
enum class Memory : std::uint8_t { machine, device };

struct Idle {
  Memory memory = Memory::machine;
  bool preloaded = false;
  TimePoint since{};  // no request has been open on it since then
};

// The index of the one in `memory` that has been idle longest. Preloaded ones stay, and so does who worked
// after `before`: who ends for a load and is wanted again meanwhile does not end for it twice.
std::optional<std::size_t> choose_victim(std::span<const Idle> idle, Memory memory, TimePoint before);

}  // namespace flyball::fleet
