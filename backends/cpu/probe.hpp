// What this machine's processor and memory are, and how fast one can be read from the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace flyball::cpu {

struct CpuReport {
  std::string model;                                     // "" if the system does not say
  std::string isa;                                       // best_isa(): what the kernels will use
  std::uint32_t cores = 0;                               // physical cores among the threads, at most as many
  std::uint32_t threads = 0;                             // this process may run at once
  std::uint64_t memory_total = 0, memory_available = 0;  // bytes, as far as a cgroup lets this process
  double bandwidth_1t = 0,
         bandwidth = 0;  // GB/s read, one thread and all threads; 0: no memory to measure with
  double page_rate = 0;  // GB/s of pages that all threads take of the system, which zeroes them; 0: as above
  // 1e9 operations a second (a multiply-add is two) of all threads: the engine's own products of f16 and of
  // q8_0 weights that lie in a cache.
  double float_gops = 0, int8_gops = 0;
};

// Takes some 0.4 s and kProbeBytes of memory while it measures.
inline constexpr std::size_t kProbeBytes =
    192U << 20;  // several times any last-level cache of the machines in view
CpuReport probe_cpu();

// The instruction sets this build has kernels for and this machine can run, best first: the engine uses the
// first.
std::vector<std::string> usable_isas();

}  // namespace flyball::cpu
