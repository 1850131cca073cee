// config.yaml's `memory` table: what engines may hold together, and when they give it back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "config/table.hpp"

namespace flyball::config {

struct MemoryRules {
  std::optional<std::uint64_t> reserve;  // of the machine, for everybody else; absent: default_reserve()
  std::uint64_t limit = 0;               // of the machine, for engines; 0: all but the reserve
  std::optional<std::uint64_t> device_reserve;  // of each device's own memory
  std::uint64_t device_limit = 0;
  std::chrono::milliseconds idle_unload{0};  // an engine without work for so long ends; 0: never
  std::chrono::milliseconds turn{5'000};     // of an engine at work, before it ends for others
  std::chrono::milliseconds max_wait{300'000};
  bool relieve_pressure = true;  // idle engines end while the system reports that it is short of memory
};

// A sixteenth, 2 GiB at the most.
std::uint64_t default_reserve(std::uint64_t total_bytes) noexcept;

const std::vector<Bound<MemoryRules>>& memory_table();

}  // namespace flyball::config
