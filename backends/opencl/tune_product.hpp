// One matrix on a device, multiplied by whatever tuning `flyball tune` wants to know about: copies enough
// that weights come from memory as they do in a model, and inputs for the most rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/opencl/device.hpp"
#include "backends/opencl/programs.hpp"
#include "backends/opencl/tuning.hpp"

namespace flyball::opencl {

// Counts of rows of x that stand for the class.
std::span<const std::uint32_t> counts_of(RowClass c) noexcept;

class TuneProduct {
 public:
  struct Kernels {  // one a count
    std::vector<Kernel> kernels;
    std::vector<Grid> grids;
  };

  // References outlive it. insufficient_memory, device_lost.
  static Result<std::unique_ptr<TuneProduct>> make(Device& device, Programs& programs,
                                                   const MatrixShape& matrix);

  const MatrixShape& matrix() const noexcept { return matrix_; }
  // What the tuning compiles to for these counts.
  std::string fingerprint(const MatmulTuning& tuning, std::span<const std::uint32_t> counts) const;
  // model_unsupported, model_unavailable: the device does not build it.
  Result<Kernels> build(const MatmulTuning& tuning, std::span<const std::uint32_t> counts);
  // Runs them once and keeps the results that others are held against, and how long they take.
  Result<void> set_reference(const Kernels& kernels, std::span<const std::uint32_t> counts);
  // Whether the results are the reference's but for rounding.
  Result<bool> agrees(const Kernels& kernels);
  // Time for the same work, the reference's being about 1 a count.
  Result<double> time(const Kernels& kernels);

 private:
  TuneProduct(Device& device, Programs& programs, const MatrixShape& matrix);
  Result<void> load();
  Result<void> enqueue(const Kernels& kernels, std::size_t i);
  Result<std::vector<float>> results(const Kernels& kernels, std::size_t i);

  struct Reference {
    std::uint32_t count = 0;
    std::vector<float> y{};  // [count, rows]
    double seconds = 0;      // of one dispatch
    std::uint32_t runs = 1;  // that are timed together
  };
  Device& device_;
  Programs& programs_;
  MatmulDevice limits_;
  MatrixShape matrix_;
  std::vector<Memory> weights_;
  std::size_t next_ = 0;  // of weights_, whose turn it is
  Memory x_, y_, zeros_;
  std::vector<Reference> reference_;
};

}  // namespace flyball::opencl
