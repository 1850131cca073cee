#include "config/memory.hpp"

#include <algorithm>

namespace flyball::config {

using namespace std::chrono_literals;

std::uint64_t default_reserve(std::uint64_t total_bytes) noexcept {
  return std::min<std::uint64_t>(total_bytes / 16, 2ULL << 30U);
}

const std::vector<Bound<MemoryRules>>& memory_table() {
  static const std::vector<Bound<MemoryRules>> table = {
      {{"reserve", size(0, 1ULL << 50),
        "memory of the machine that engines leave to others; without it a sixteenth, at most 2 GiB"},
       [](MemoryRules& m, const Node& n) { m.reserve = as_bytes(n); }},
      {{"limit", size(0, 1ULL << 50),
        "what all engines together may hold of the machine's; 0B: all but reserve"},
       [](MemoryRules& m, const Node& n) { m.limit = as_bytes(n); }},
      {{"device_reserve", size(0, 1ULL << 50), "as reserve, of devices with memory of their own"},
       [](MemoryRules& m, const Node& n) { m.device_reserve = as_bytes(n); }},
      {{"device_limit", size(0, 1ULL << 50), "as limit, of devices with memory of their own"},
       [](MemoryRules& m, const Node& n) { m.device_limit = as_bytes(n); }},
      {{"idle_unload", duration(0ms, 24h * 30),
        "an engine that has been without work for so long ends; 0s: it stays until others need its memory"},
       [](MemoryRules& m, const Node& n) { m.idle_unload = as_duration(n); }},
      {{"turn", duration(0ms, 1h),
        "how long an engine at work is left alone by models that wait for its memory; then it ends as soon "
        "as its "
        "answers have"},
       [](MemoryRules& m, const Node& n) { m.turn = as_duration(n); }},
      {{"max_wait", duration(1s, 24h), "how long a model waits for memory before its requests are told"},
       [](MemoryRules& m, const Node& n) { m.max_wait = as_duration(n); }},
      {{"relieve_pressure", boolean(), "idle engines end while the system stalls for want of memory"},
       [](MemoryRules& m, const Node& n) { m.relieve_pressure = as_bool(n); }},
  };
  return table;
}

}  // namespace flyball::config
