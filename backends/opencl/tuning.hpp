// Which tunings a device can run, and which of them a product gets: by the matrix's format and shape and by
// how many rows x has. Pure. Whatever is chosen, results stay within the numeric contract: on processors
// every tuning gives the same bits, on GPUs rows 1 to 8 of a matrix are summed in one order.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/opencl/matmul_plan.hpp"

namespace flyball::opencl {

// Rows of x that share a tuning: 1; 2 to 8 (matvec with several tokens, or already the panel); more.
enum class RowClass : std::uint8_t { one, few, many };
inline constexpr RowClass kRowClasses[] = {RowClass::one, RowClass::few, RowClass::many};
constexpr RowClass row_class(std::uint32_t n) noexcept {
  return n <= 1 ? RowClass::one : n <= 8 ? RowClass::few : RowClass::many;
}
constexpr std::string_view to_string(RowClass c) noexcept {
  return c == RowClass::one ? "1" : c == RowClass::few ? "2-8" : "9+";
}

struct MatrixShape {
  kernels::DType type = kernels::DType::f32;
  std::uint32_t rows = 0, cols = 0;
  auto operator<=>(const MatrixShape&) const = default;
};
std::string to_string(const MatrixShape& matrix);  // "Q4_0 5632x2048"

// Of a dispatch that multiplies several matrices, the one with the most rows.
struct TuningKey {
  MatrixShape matrix;
  RowClass rows = RowClass::one;
  auto operator<=>(const TuningKey&) const = default;
};

// One number of a MatmulTuning, by its name in files and messages: 1 to `most`.
struct TuningParameter {
  std::string_view name;
  std::uint32_t most;
  std::uint32_t& (*of)(MatmulTuning&) noexcept;
  std::uint32_t value(MatmulTuning tuning) const noexcept { return of(tuning); }
};
std::span<const TuningParameter> tuning_parameters() noexcept;

// "": within every parameter's range. Else the parameter, its value and its range.
std::string out_of_range(const MatmulTuning& tuning);
// "": every kernel of it fits the device and the layout of weights. Else what does not.
std::string refusal(const MatmulDevice& device, const MatmulTuning& tuning);
// Whether rows 1 to 8 may have these two in one model.
bool same_sums(const MatmulDevice& device, const MatmulTuning& a, const MatmulTuning& b) noexcept;
// "matvec.lanes 8 -> 16, ..."; "" where they are equal.
std::string changes(const MatmulTuning& from, const MatmulTuning& to);

class TuningTable {
 public:
  TuningTable() = default;
  explicit TuningTable(const MatmulTuning& shipped) : shipped_(shipped) {}

  const MatmulTuning& shipped() const noexcept { return shipped_; }
  bool has(const TuningKey& key) const { return tuned_.contains(key); }
  const MatmulTuning& at(const TuningKey& key) const;  // the shipped one where it has none
  // The shipped one is not kept: a later version's may be better.
  void set(const TuningKey& key, const MatmulTuning& tuning);
  const std::map<TuningKey, MatmulTuning>& tuned() const noexcept { return tuned_; }

 private:
  MatmulTuning shipped_;
  std::map<TuningKey, MatmulTuning> tuned_;
};

// What to try where a device does not build `kernel` as this table has it: without what was tuned, then with ever
// smaller work-groups of it, in all products alike. nullopt: nothing asks for less.
std::optional<TuningTable> without_what_needs_more(const TuningTable& table, std::string_view kernel);

}  // namespace flyball::opencl
