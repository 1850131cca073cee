// Which kernel multiplies, with which specialization constants and over which grid: a pure function of the
// device, the format and the shape. Weights lie as the file has them, row after row; activations are f32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vulkan/facts.hpp"
#include "kernels/formats/dtype.hpp"
#include "kernels/vulkan/push.h"

namespace flyball::vulkan {

inline constexpr std::size_t kMaxMatrices = 3;  // that one dispatch multiplies the same x with

// What of a weight its kernels are built for: those of one format share a dispatch.
struct WeightFormat {
  kernels::DType type = kernels::DType::f32;
  // Of elements: rows begin at multiples of 8 bytes. Of affine types: groups do, and scales and biases at
  // multiples of their size. Else they are read word by word and shifted into place.
  bool in_place = false;
  kernels::DType scale_type = kernels::DType::f16;  // of affine types: f32, f16 or bf16
  std::uint32_t place() const noexcept;             // specialization constant 1 (kernels/vulkan/weights.glsl)
  bool operator==(const WeightFormat&) const = default;
};
// Of rows that begin at that address; of affine types the codes do.
WeightFormat format_of(kernels::DType type, std::uint32_t cols, Address rows,
                       kernels::DType scale_type = kernels::DType::f16, Address scales = 0,
                       Address biases = 0) noexcept;

struct MatmulPlan {
  std::string kernel;                    // as shader() knows it
  std::vector<std::uint32_t> constants;  // the first: the work-group's size
  std::array<std::uint32_t, 3> groups{1, 1, 1};
  bool prepared = false;  // x is what prepare_activations made of it
};

// The kernel's name for weights of this type: "embed_q8_0".
std::string per_format(std::string_view kernel, kernels::DType type);

inline std::uint32_t divided_up(std::uint64_t n, std::uint64_t by) noexcept {
  return static_cast<std::uint32_t>((n + by - 1) / by);
}

// Whether products of that type go by packed integer dot products on this device: then all of them do,
// whatever n, so that a token's result does not depend on how many there are.
bool by_integer_dot(const DeviceFacts& device, kernels::DType type) noexcept;
// Of what such products take for n rows of x, as prepare_activations makes it; 0: not by those.
std::uint64_t prepared_bytes(const DeviceFacts& device, kernels::DType type, std::uint64_t n,
                             std::uint32_t cols) noexcept;
// Groups of prepare_activations.
std::array<std::uint32_t, 3> prepare_groups(const DeviceFacts& device, std::uint64_t blocks) noexcept;

// y = x * w, or y +=, by MatmulPush. rows: of 1 to kMaxMatrices matrices of one format. n > 0
// rows of x.
MatmulPlan plan_matmul(const DeviceFacts& device, const WeightFormat& format,
                       std::span<const std::uint32_t> rows, std::uint32_t cols, std::uint32_t n);

// Whether texel_matmul is for that type on this device.
bool by_texel(const DeviceFacts& device, kernels::DType type) noexcept;
// The same by texel_matmul. w_at: bytes from where the set's memory begins to each matrix. Nothing where the
// kernel is not for that device, format or shape: then plan_matmul has it, for any n.
std::optional<MatmulPlan> plan_texel_matmul(const DeviceFacts& device, kernels::DType type,
                                            std::span<const std::uint32_t> rows, std::uint32_t cols,
                                            std::uint32_t n, std::span<const std::uint64_t> w_at);

// The same of one matrix by texel_panel, for more tokens. y_at: bytes from where y's memory begins to y.
// Nothing where it is not for these: then plan_texel_matmul may have it.
std::optional<MatmulPlan> plan_texel_panel(const DeviceFacts& device, kernels::DType type, std::uint32_t rows,
                                           std::uint32_t cols, std::uint32_t n, std::uint64_t w_at,
                                           std::uint64_t y_at);

// The same of `pairs` (row, expert), each with its expert's matrix, by MoeMatmulPush. grouped: the kernel
// reads offsets and order (moe_group).
struct ExpertPlan {
  MatmulPlan matmul;
  bool grouped = false;
};
ExpertPlan plan_expert_matmul(const DeviceFacts& device, const WeightFormat& format, std::uint32_t rows,
                              std::uint32_t cols, std::uint32_t pairs, std::uint32_t n_experts);

// Whether moe_group and moe_matmul may run for n rows, each of `used` experts, whose matrices have `cols`
// columns at most: on a software device their loops can have too many turns.
bool experts_can_do(const DeviceFacts& device, std::uint32_t n, std::uint32_t used, std::uint32_t n_experts,
                    std::uint32_t cols) noexcept;

// Invocations of a work-group of the kernels that push.h gives fixed grids: "rms_norm", "add", ...
std::uint32_t group_size(const DeviceFacts& device, std::string_view kernel) noexcept;

// Attention, for the shape of one model's cache.
struct AttendPlan {
  std::uint32_t split = 0;           // positions of a split, a multiple of block_size
  std::uint32_t item_rows = 0;       // rows of an item of attend_rows, at most
  bool unrolled = false;             // no loops over what a tile of positions has
  std::uint64_t most_positions = 0;  // of a sequence, by this plan; fewer than asked for: no plan is found
};
AttendPlan plan_attend(const DeviceFacts& device, std::uint32_t head_dim, std::uint32_t group,
                       std::uint32_t block_size, std::uint64_t positions);

}  // namespace flyball::vulkan
