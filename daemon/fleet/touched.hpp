// What a process has of the machine's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace flyball::fleet {

// Bytes of its own that lie in memory now: not those of files, which the system could have back, and not what
// was promised to it and never written. Absent: there is no such process, or it is not told.
std::optional<std::uint64_t> touched_memory(int pid, const std::string& proc = "/proc");

}  // namespace flyball::fleet
