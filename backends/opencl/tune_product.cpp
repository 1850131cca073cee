#include "backends/opencl/tune_product.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "backends/opencl/matmul.hpp"
#include "kernels/formats/quantize.hpp"
#include "kernels/formats/row_groups.hpp"

namespace flyball::opencl {
namespace {

constexpr std::uint32_t kOne[] = {1}, kFew[] = {3, 8}, kMany[] = {32, 256};
constexpr std::uint32_t kMostCount = 256;
constexpr std::uint64_t kWorkingSet = 128ULL << 20;  // beyond most last-level caches
constexpr std::uint32_t kMostCopies = 32;
constexpr std::uint32_t kDistinctGroups = 3;  // so that a group taken for its neighbour shows
constexpr std::uint64_t kUpload = 1U << 20;   // bytes written at once, at least
constexpr double kTimed = 10e-3;              // seconds: a queue's own latency is a hundredth
constexpr double kTooLong = 60e-3;            // a longer dispatch is left out where a shorter one stands
constexpr double kTolerance = 1e-4;           // of the largest result: f32 sums in another order

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<float> random_floats(std::size_t n, float scale) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> out(n);
  for (float& v : out) v = normal(random);
  return out;
}

// kDistinctGroups row groups of the matrix's format, again and again up to kUpload bytes and more.
std::vector<std::byte> group_pattern(const MatrixShape& m) {
  const std::size_t row = kernels::row_bytes(m.type, m.cols);
  const std::uint32_t rows = kDistinctGroups * kGroupRows;
  const auto values = random_floats(std::size_t{rows} * m.cols, 0.05F);
  std::vector<std::byte> file(rows * row);
  const auto affine = kernels::affine_of(m.type);
  const std::size_t groups = affine ? m.cols / affine->group : 0;
  std::vector<std::uint16_t> scales(rows * groups), biases(rows * groups);
  for (std::uint32_t r = 0; r < rows; ++r)
    kernels::quantize_row(m.type, values.data() + std::size_t{r} * m.cols, m.cols, file.data() + r * row,
                          scales.data() + r * groups, biases.data() + r * groups);
  const kernels::SourceRows source(file.data(), scales.data(), biases.data(), kernels::DType::f16);
  const std::size_t bytes = kernels::grouped_bytes(kGroupRows, m.type, rows, m.cols);
  std::vector<std::byte> out((kUpload + bytes - 1) / bytes * bytes);
  kernels::group_rows(kGroupRows, m.type, rows, m.cols, source, out.data(), 0, rows);
  for (std::size_t at = bytes; at < out.size(); at += bytes)
    std::copy_n(out.begin(), bytes, out.begin() + at);
  return out;
}

}  // namespace

std::span<const std::uint32_t> counts_of(RowClass c) noexcept {
  if (c == RowClass::one) return kOne;
  if (c == RowClass::few) return kFew;
  return kMany;
}

TuneProduct::TuneProduct(Device& device, Programs& programs, const MatrixShape& matrix)
    : device_(device), programs_(programs), limits_(matmul_device(device.facts())), matrix_(matrix) {}

Result<std::unique_ptr<TuneProduct>> TuneProduct::make(Device& device, Programs& programs,
                                                       const MatrixShape& matrix) {
  std::unique_ptr<TuneProduct> out(new TuneProduct(device, programs, matrix));
  if (auto ok = out->load(); !ok) return pass(ok);
  return out;
}

Result<void> TuneProduct::load() {
  const std::string what = "the product " + to_string(matrix_);
  const std::uint64_t y_bytes = 4ULL * kMostCount * matrix_.rows;
  for (Memory* y : {&y_, &zeros_}) {
    auto made = device_.allocate(y_bytes, what);
    if (!made) return pass(made);
    *y = std::move(*made);
  }
  const auto x = random_floats(std::size_t{kMostCount} * matrix_.cols, 1.0F);
  auto made = device_.allocate(4 * x.size(), what);
  if (!made) return pass(made);
  x_ = std::move(*made);
  if (auto ok = device_.write(x_, 0, std::as_bytes(std::span(x))); !ok) return pass(ok);

  const std::uint64_t bytes = kernels::grouped_bytes(kGroupRows, matrix_.type, matrix_.rows, matrix_.cols);
  const std::uint64_t fits = device_.free_bytes() / 2 / bytes;
  const auto copies = std::clamp((kWorkingSet + bytes - 1) / bytes, std::uint64_t{1},
                                 std::clamp(fits, std::uint64_t{1}, std::uint64_t{kMostCopies}));
  const auto pattern = group_pattern(matrix_);
  for (std::uint64_t i = 0; i < copies; ++i) {
    auto copy = device_.allocate(bytes, what);
    if (!copy) return pass(copy);
    weights_.push_back(std::move(*copy));
    if (i > 0) {
      if (auto ok = device_.copy(weights_[0], 0, weights_[i], 0, bytes); !ok) return pass(ok);
      continue;
    }
    for (std::uint64_t at = 0; at < bytes; at += pattern.size()) {
      const auto part = std::span(pattern).first(std::min<std::uint64_t>(pattern.size(), bytes - at));
      if (auto ok = device_.write(weights_[0], at, part); !ok) return pass(ok);
    }
  }
  return device_.finish();
}

std::string TuneProduct::fingerprint(const MatmulTuning& tuning,
                                     std::span<const std::uint32_t> counts) const {
  std::string out;
  for (const std::uint32_t count : counts) {
    const MatmulPlan plan = plan_matmul(limits_, tuning, matrix_.type, {&matrix_.rows, 1}, count, false);
    out += std::string(plan.kernel) + " " + plan.options + "\n";
  }
  return out;
}

Result<TuneProduct::Kernels> TuneProduct::build(const MatmulTuning& tuning,
                                                std::span<const std::uint32_t> counts) {
  Kernels out;
  for (const std::uint32_t count : counts) {
    const MatmulPlan plan = plan_matmul(limits_, tuning, matrix_.type, {&matrix_.rows, 1}, count, false);
    auto kernel = programs_.kernel(std::string(plan.kernel), plan.files, plan.options);
    if (!kernel) return pass(kernel);
    out.kernels.push_back(std::move(*kernel));
    out.grids.push_back({{plan.global[0], plan.global[1], 1}, {plan.local[0], plan.local[1], 1}});
  }
  return out;
}

Result<void> TuneProduct::enqueue(const Kernels& k, std::size_t i) {
  const Memory& w = weights_[next_++ % weights_.size()];
  const cl_uint none = 0;
  return device_.run(k.kernels[i], k.grids[i], x_, cl_uint{reference_[i].count}, cl_uint{matrix_.cols}, w, y_,
                     cl_uint{matrix_.rows}, w, y_, none, w, y_, none);
}

Result<std::vector<float>> TuneProduct::results(const Kernels& kernels, std::size_t i) {
  const std::size_t n = std::size_t{reference_[i].count} * matrix_.rows;
  if (auto ok = device_.copy(zeros_, 0, y_, 0, 4 * n); !ok) return pass(ok);  // what is not stored shows
  if (auto ok = enqueue(kernels, i); !ok) return pass(ok);
  auto y = std::make_unique<std::vector<float>>(n);
  if (auto ok = device_.read(y_, 0, std::as_writable_bytes(std::span(*y))); !ok) {
    if (!device_.at_rest()) (void)y.release();  // the device may still write there
    return pass(ok);
  }
  return std::move(*y);
}

Result<void> TuneProduct::set_reference(const Kernels& kernels, std::span<const std::uint32_t> counts) {
  reference_.clear();
  for (const std::uint32_t count : counts) {
    reference_.push_back({.count = count});
    Reference& r = reference_.back();
    auto y = results(kernels, reference_.size() - 1);  // also what drivers do at a kernel's first run
    if (!y) return pass(y);
    r.y = std::move(*y);
    const double start = now();
    if (auto ok = enqueue(kernels, reference_.size() - 1); !ok) return pass(ok);
    if (auto ok = device_.finish(); !ok) return pass(ok);
    r.seconds = std::max(now() - start, 1e-9);
    r.runs = static_cast<std::uint32_t>(std::clamp(kTimed / r.seconds, 1.0, 1000.0));
    if (r.seconds > kTooLong && reference_.size() > 1) {
      reference_.pop_back();
      break;
    }
  }
  return {};
}

Result<bool> TuneProduct::agrees(const Kernels& kernels) {
  for (std::size_t i = 0; i < reference_.size(); ++i) {
    const auto y = results(kernels, i);
    if (!y) return pass(y);
    const std::vector<float>& expected = reference_[i].y;
    float largest = 0;
    for (const float v : expected) largest = std::max(largest, std::fabs(v));
    const auto allowed = static_cast<float>(kTolerance) * largest;
    for (std::size_t k = 0; k < expected.size(); ++k)
      if (!(std::fabs((*y)[k] - expected[k]) <= allowed)) return false;  // also what is no number
  }
  return true;
}

Result<double> TuneProduct::time(const Kernels& kernels) {
  double sum = 0;
  for (std::size_t i = 0; i < reference_.size(); ++i) {
    const double start = now();
    for (std::uint32_t run = 0; run < reference_[i].runs; ++run)
      if (auto ok = enqueue(kernels, i); !ok) return pass(ok);
    if (auto ok = device_.finish(); !ok) return pass(ok);
    sum += (now() - start) / reference_[i].runs / reference_[i].seconds;
  }
  return sum;
}

}  // namespace flyball::opencl
