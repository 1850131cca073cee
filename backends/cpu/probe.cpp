#include "backends/cpu/probe.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "backends/device/memory.hpp"
#include "backends/device/thread_pool.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 3;  // the fastest counts: others may have used the memory meanwhile

std::string after_colon(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return {};
  const std::size_t start = line.find_first_not_of(" \t", colon + 1);
  return start == std::string::npos ? std::string() : line.substr(start);
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name") || line.starts_with("Model")) return after_colon(line);
  return {};
}

std::vector<int> usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) out.push_back(i);
  if (out.empty()) out.push_back(0);
  return out;
}

// Threads of one core name the same siblings.
std::uint32_t count_cores(const std::vector<int>& threads) {
  std::set<std::string> cores;
  for (const int thread : threads) {
    std::ifstream in("/sys/devices/system/cpu/cpu" + std::to_string(thread) +
                     "/topology/thread_siblings_list");
    std::string siblings;
    if (!std::getline(in, siblings)) return static_cast<std::uint32_t>(threads.size());
    cores.insert(siblings);
  }
  return static_cast<std::uint32_t>(cores.size());
}

// GB/s over n_threads, each with its own share of the memory, which nobody has touched yet.
double page_rate(device::Pages& memory, std::uint32_t n_threads) {
  const std::size_t share = memory.size() / n_threads;
  const auto start = Clock::now();
  {
    std::vector<std::jthread> workers;
    for (std::uint32_t t = 1; t < n_threads; ++t)
      workers.emplace_back([&, t] { memory.commit(t * share, (t + 1) * share); });
    memory.commit(0, share);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return seconds > 0 ? static_cast<double>(share) * n_threads / seconds / 1e9 : 0;
}

// GB/s over n_threads, each with its own share of the memory.
double read_bandwidth(const device::Pages& memory, std::uint32_t n_threads) {
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const std::size_t share = memory.size() / n_threads / 4096 * 4096;
  std::atomic<std::uint64_t> sink{0};  // the sums are used, so that nothing leaves the reads out
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    {
      std::vector<std::jthread> workers;
      for (std::uint32_t t = 1; t < n_threads; ++t)
        workers.emplace_back([&, t] { sink += kernels.read_sum(memory.data() + t * share, share); });
      sink += kernels.read_sum(memory.data(), share);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds > 0) best = std::max(best, static_cast<double>(share) * n_threads / seconds / 1e9);
  }
  return best;
}

// 1e9 operations a second over n_threads, each with a product of its own that its caches hold.
double product_rate(kernels::DType type, std::uint32_t n_threads) {
  constexpr std::uint32_t kRows = 64, kCols = 512, kTokens = 32, kProducts = 32;  // some ms a thread
  const auto& kernels = kernels::cpu::kernels_for(kernels::cpu::best_isa());
  const auto run = [&] {
    const std::vector<std::byte> file(kRows * kernels::row_bytes(type, kCols));
    std::vector<std::byte> packed(kernels.packed_bytes(type, kRows, kCols));
    if (!packed.empty()) kernels.pack(type, kRows, kCols, file.data(), packed.data(), {0, kRows});
    const std::vector<float> x(kTokens * kCols);
    std::vector<std::byte> prepared(kTokens * kernels.activation_bytes(type, kCols));
    kernels.prepare_activations(type, x.data(), kTokens, kCols, prepared.data());
    std::vector<float> y(kTokens * kRows);
    for (std::uint32_t i = 0; i < kProducts; ++i)
      kernels.matmul(type, packed.empty() ? file.data() : packed.data(), kRows, kCols, prepared.data(),
                     kTokens, y.data(), kRows, {0, kRows});
  };
  const double operations = 2.0 * kRows * kCols * kTokens * kProducts * n_threads;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    {
      std::vector<std::jthread> workers;
      for (std::uint32_t t = 1; t < n_threads; ++t) workers.emplace_back(run);
      run();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds > 0) best = std::max(best, operations / seconds / 1e9);
  }
  return best;
}

}  // namespace

CpuReport probe_cpu() {
  CpuReport report;
  const std::vector<int> threads = usable_threads();
  report.model = cpu_model();
  report.isa = kernels::cpu::to_string(kernels::cpu::best_isa());
  report.threads = device::usable_processors();
  report.cores = std::min(count_cores(threads), report.threads);
  report.memory_total = device::total_memory();
  report.memory_available = device::available_memory();
  report.float_gops = product_rate(kernels::DType::f16, report.threads);
  report.int8_gops = product_rate(kernels::DType::q8_0, report.threads);
  constexpr std::uint64_t kLeaveFree = 4;  // the measurement takes at most a quarter of what is available
  if (report.memory_available / kLeaveFree < kProbeBytes) return report;
  auto memory = device::Pages::allocate(kProbeBytes, "the probe");
  if (!memory) return report;
  // Before they are read, too: untouched pages are all one page of zeros, which the cache holds.
  report.page_rate = page_rate(*memory, report.threads);
  report.bandwidth_1t = read_bandwidth(*memory, 1);
  report.bandwidth = report.threads > 1 ? read_bandwidth(*memory, report.threads) : report.bandwidth_1t;
  return report;
}

std::vector<std::string> usable_isas() {
  using kernels::cpu::Isa;
  std::vector<std::string> out;
  for (const Isa isa : kernels::cpu::built_isas())
    if (kernels::cpu::supported(isa)) out.emplace_back(kernels::cpu::to_string(isa));
  return out;
}

}  // namespace flyball::cpu
