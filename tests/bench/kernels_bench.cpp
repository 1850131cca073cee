// The CPU kernels against what this machine can do: first its measured peaks (read bandwidth, int8 and f32
// arithmetic), then each kernel's rate as a fraction of the peak that limits it. One thread; best of many
// short runs. Usage: kernels_bench [--isa scalar|avx2|avx512] [--only NAME] [--json]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "kernels/cpu/kernels.hpp"
#include "kernels/formats/kv_page.hpp"
#include "kernels/formats/quantize.hpp"
#include "tests/bench/cpu_peaks.hpp"

namespace {

using namespace flyball::kernels;
namespace bench = flyball::bench;
using cpu::Isa;
using cpu::Kernels;
using cpu::Range;

// This thread's processor time: waiting while other processes run does not count.
double seconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Shortest of the runs that fit into the budget, at least three: other processes only ever make a run longer.
double best_seconds(const std::function<void()>& run, double budget = 0.4) {
  run();
  double best = 1e9;
  const double end = seconds() + budget;
  for (int n = 0; n < 3 || seconds() < end; ++n) {
    const double start = seconds();
    run();
    best = std::min(best, seconds() - start);
  }
  return best;
}

// Anonymous memory on huge pages where the system gives them, as the engine's weights are.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) {
      std::perror("mmap");
      std::exit(1);
    }
    ::madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Memory() { ::munmap(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::uint8_t* bytes() const { return static_cast<std::uint8_t*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* data_;
};

struct Peaks {
  double read = 0;  // bytes/s
  double int8 = 0;  // operations/s, a multiply-add is two
  double f32 = 0;
};

double rate(double (*operations)()) {
  double count = 0;
  const double time = best_seconds([&] { count = operations(); });
  return count / time;
}

Peaks measure_peaks(const Kernels& k) {
  Peaks p;
  const Memory memory(std::size_t{512} << 20);  // many times an L3
  std::memset(memory.bytes(), 1, memory.size());
  // In pieces of a large matrix's size, each read after all the others: the fastest piece, like the fastest
  // matmul.
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  volatile std::uint64_t sink = 0;
  std::size_t at = 0;
  p.read = static_cast<double>(kPiece) / best_seconds(
                                             [&] {
                                               sink = k.read_sum(memory.bytes() + at, kPiece);
                                               at = (at + kPiece) % memory.size();
                                             },
                                             2.0);
  const bench::PeakLoops loops = bench::peak_loops(k.isa);
  p.int8 = rate(loops.int8);
  p.f32 = rate(loops.f32);
  return p;
}

// ---- report -----------------------------------------------------------------------------------------------
class Report {
 public:
  Report(bool json, std::string only) : json_(json), only_(std::move(only)) {}
  bool wants(const std::string& name) const { return only_.empty() || name.find(only_) != std::string::npos; }
  // value in unit; fraction of the limiting peak, negative where there is none
  void line(const std::string& name, double value, const char* unit, double fraction, const char* of) {
    if (json_) {
      std::printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"%s\"", name.c_str(), value, unit);
      if (fraction >= 0) std::printf(",\"fraction\":%.4f,\"of\":\"%s\"", fraction, of);
      std::printf("}\n");
    } else if (fraction >= 0) {
      std::printf("%-34s %9.2f %-6s %5.1f%% of %s\n", name.c_str(), value, unit, 100 * fraction, of);
    } else {
      std::printf("%-34s %9.2f %s\n", name.c_str(), value, unit);
    }
    std::fflush(stdout);
  }

 private:
  bool json_;
  std::string only_;
};

// ---- matmul -----------------------------------------------------------------------------------------------
bool is_float(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16;
}

std::vector<float> random_floats(std::size_t n) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> v(n);
  for (float& x : v) x = normal(generator);
  return v;
}

void bench_matmul(const Kernels& k, const Peaks& peaks, DType type, std::uint32_t rows, std::uint32_t cols,
                  Report& report) {
  const std::string shape =
      std::string(to_string(type)) + " " + std::to_string(rows) + "x" + std::to_string(cols);
  if (!report.wants("matmul " + shape)) return;
  std::vector<std::uint8_t> file(rows * row_bytes(type, cols));
  const auto values = random_floats(cols);
  for (std::uint32_t r = 0; r < rows; ++r) {
    if (r < 16) {
      quantize_row(type, values.data(), cols, file.data() + r * row_bytes(type, cols));
    } else {
      std::memcpy(file.data() + r * row_bytes(type, cols), file.data() + r % 16 * row_bytes(type, cols),
                  row_bytes(type, cols));
    }
  }
  // Copies enough that a decode pass finds none of its weights in a cache.
  const std::size_t bytes = k.packed_bytes(type, rows, cols);
  const std::size_t stride = (bytes + 4095) / 4096 * 4096;
  const std::size_t copies = std::max<std::size_t>(2, (std::size_t{256} << 20) / stride);
  const Memory packed(copies * stride);
  k.pack(type, rows, cols, file.data(), packed.bytes(), {0, rows});
  for (std::size_t i = 1; i < copies; ++i) std::memcpy(packed.bytes() + i * stride, packed.bytes(), bytes);

  for (const std::uint32_t n_tokens : {1U, 4U, 32U, 256U}) {
    const auto x = random_floats(std::size_t{n_tokens} * cols);
    std::vector<std::uint8_t> activations(n_tokens * k.activation_bytes(type, cols));
    std::vector<float> y(std::size_t{n_tokens} * rows);
    k.prepare_activations(type, x.data(), n_tokens, cols, activations.data());
    std::size_t next = 0;
    const double time = best_seconds([&] {
      k.matmul(type, packed.bytes() + next * stride, rows, cols, activations.data(), n_tokens, y.data(), rows,
               {0, rows});
      next = (next + 1) % copies;
    });
    const std::string name = "matmul " + shape + " n=" + std::to_string(n_tokens);
    if (n_tokens == 1) {
      const double bandwidth = static_cast<double>(bytes) / time;
      report.line(name, bandwidth / 1e9, "GB/s", bandwidth / peaks.read, "read bandwidth");
    } else {
      const double operations = 2.0 * rows * cols * n_tokens / time;
      const double peak = is_float(type) ? peaks.f32 : peaks.int8;
      report.line(name, operations / 1e9, "GOP/s", operations / peak,
                  is_float(type) ? "f32 peak" : "int8 peak");
    }
  }
  if (type == DType::q4_0 || type == DType::q6_k) {
    const auto x = random_floats(cols);
    std::vector<std::uint8_t> activations(k.activation_bytes(type, cols));
    const double prepare =
        best_seconds([&] { k.prepare_activations(type, x.data(), 1, cols, activations.data()); }, 0.1);
    report.line("prepare_activations " + shape, prepare * 1e6, "us", -1, "");
  }
  const double pack = best_seconds(
      [&] {
        k.pack(type, rows, cols, file.data(), packed.bytes(), {0, rows});
      },
      0.2);
  report.line("pack " + shape, static_cast<double>(file.size()) / pack / 1e9, "GB/s", -1, "");
}

// ---- attention and the rest -------------------------------------------------------------------------------
void bench_attend(const Kernels& k, const Peaks& peaks, std::uint32_t n_heads, std::uint32_t n_kv,
                  std::uint32_t dim, std::uint32_t n_positions, DType kv_type, Report& report) {
  const std::string name = "attend " + std::string(to_string(kv_type)) + " " + std::to_string(n_heads) + "/" +
                           std::to_string(n_kv) + "x" + std::to_string(dim) + " at " +
                           std::to_string(n_positions);
  if (!report.wants(name)) return;
  constexpr std::uint32_t kBlock = 16;
  const std::uint32_t n_blocks = (n_positions + kBlock - 1) / kBlock;
  const std::size_t n_values = std::size_t{n_blocks} * kBlock * n_kv * dim;
  const std::size_t n_pages = std::size_t{n_blocks} * n_kv, page_bytes = kv_page_bytes(kv_type, kBlock, dim);
  const Memory cache(2 * n_pages * page_bytes);
  const auto values = random_floats(2 * n_values);
  for (std::size_t page = 0; page < 2 * n_pages; ++page) {
    const float* from = values.data() + page * kBlock * dim;
    auto* to = cache.bytes() + page * page_bytes;
    if (kv_type == DType::q8_0) {
      k.store_q8_0(from, std::size_t{kBlock} * dim, reinterpret_cast<std::int8_t*>(to),
                   reinterpret_cast<std::uint16_t*>(to + kv_scales_at(kBlock, dim, 0)));
    } else {
      k.store_f16(from, std::size_t{kBlock} * dim, reinterpret_cast<std::uint16_t*>(to));
    }
  }
  std::vector<std::uint32_t> table(n_blocks);
  for (std::uint32_t i = 0; i < n_blocks; ++i) table[i] = (i * 7 + 3) % n_blocks;
  const auto q = random_floats(std::size_t{n_heads} * dim);
  std::vector<float> out(q.size());
  const cpu::AttendArgs args{.q = q.data(),
                             .k_blocks = cache.bytes(),
                             .v_blocks = cache.bytes() + n_pages * page_bytes,
                             .block_table = table.data(),
                             .block_size = kBlock,
                             .n_positions = n_positions,
                             .n_heads = n_heads,
                             .n_kv_heads = n_kv,
                             .head_dim = dim,
                             .scale = 0.125F,
                             .out = out.data(),
                             .kv_type = kv_type};
  const double time = best_seconds([&] { k.attend(args, {0, n_heads}); }, 0.2);
  const double operations = 4.0 * n_heads * dim * n_positions / time;
  report.line(name, operations / 1e9, "GOP/s", operations / peaks.f32, "f32 peak");
}

void bench_elementwise(const Kernels& k, const Peaks& peaks, Report& report) {
  constexpr std::uint32_t kDim = 5632;
  const auto a = random_floats(kDim), b = random_floats(kDim);
  std::vector<float> out(kDim);
  std::vector<std::uint16_t> half(kDim);
  const auto time_of = [&](const char* name, const std::function<void()>& run, double bytes_per_value) {
    if (!report.wants(name)) return;
    const double time = best_seconds(
                            [&] {
                              for (int i = 0; i < 100; ++i) run();
                            },
                            0.1) /
                        100;
    const double bandwidth =
        bytes_per_value * kDim / time;  // of cache: only a sign that it is not the bottleneck
    report.line(std::string(name) + " 5632", bandwidth / 1e9, "GB/s", bandwidth / peaks.read,
                "read bandwidth");
  };
  time_of(
      "rms_norm", [&] { k.rms_norm(a.data(), b.data(), 1, kDim, 1e-5F, out.data()); }, 16);
  time_of(
      "glu", [&] { k.glu(Activation::silu, a.data(), b.data(), kDim, out.data()); }, 12);
  time_of(
      "add", [&] { k.add(out.data(), b.data(), kDim); }, 12);
  time_of(
      "store_f16", [&] { k.store_f16(a.data(), kDim, half.data()); }, 6);
  const auto cos_sin = random_floats(64);
  for (const RopeStyle style : {RopeStyle::interleaved, RopeStyle::half}) {
    time_of(
        style == RopeStyle::half ? "rope half" : "rope interleaved",
        [&] { k.rope(out.data(), kDim / 64, 64, 64, cos_sin.data(), style); }, 8);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Isa isa = cpu::best_isa();
  bool json = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--json") {
      json = true;
    } else if (arg == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else if (arg == "--isa" && i + 1 < argc) {
      const std::string wanted = argv[++i];
      bool known = false;
      for (const Isa candidate : cpu::built_isas()) {
        if (wanted != cpu::to_string(candidate)) continue;
        known = true;
        isa = candidate;
      }
      if (!known || !cpu::supported(isa)) {
        std::fprintf(stderr, "kernels_bench: this machine has no %s\n", wanted.c_str());
        return 2;
      }
    } else {
      std::fprintf(stderr, "usage: kernels_bench [--isa scalar|avx2|avx512] [--only NAME] [--json]\n");
      return 2;
    }
  }
  const Kernels& k = cpu::kernels_for(isa);
  const Peaks peaks = measure_peaks(k);
  Report report(json, only);
  const std::string suffix = std::string(" (") + cpu::to_string(isa) + ", 1 thread)";
  report.line("read bandwidth" + suffix, peaks.read / 1e9, "GB/s", -1, "");
  report.line("int8 peak" + suffix, peaks.int8 / 1e9, "GOP/s", -1, "");
  report.line("f32 peak" + suffix, peaks.f32 / 1e9, "GOP/s", -1, "");
  for (const DType type : kAllDTypes) {
    bench_matmul(k, peaks, type, 2048, 2048, report);
    bench_matmul(k, peaks, type, 2048, 5632, report);
  }
  for (const DType kv_type : {DType::f16, DType::q8_0}) {
    bench_attend(k, peaks, 32, 4, 64, 128, kv_type, report);
    bench_attend(k, peaks, 32, 4, 64, 2048, kv_type, report);
    bench_attend(k, peaks, 32, 32, 128, 1024, kv_type, report);
  }
  bench_elementwise(k, peaks, report);
}
