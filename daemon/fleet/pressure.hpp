// Whether the system stalls for want of memory: Linux's pressure stall information (PSI,
// Documentation/accounting/psi.rst).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flyball::fleet {

// Percent of the last 10 seconds in which some, or all, of who had work waited for memory.
struct MemoryPressure {
  double some = 0, full = 0;
  // Some waited for a fifth of the time: reclaim runs into what is in use.
  bool high() const noexcept { return some >= 20; }
};
// "some avg10=0.12 avg60=0.00 avg300=0.00 total=0\nfull avg10=..." Absent: it is something else.
std::optional<MemoryPressure> parse_pressure(std::string_view text);

// Of the machine, or of this process's control group where that one's is higher. Absent: the kernel keeps no
// account of it.
std::optional<MemoryPressure> read_memory_pressure(const std::string& proc = "/proc",
                                                   const std::string& cgroups = "/sys/fs/cgroup");

}  // namespace flyball::fleet
