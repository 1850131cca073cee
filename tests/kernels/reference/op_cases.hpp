// The differential cases of the ops: what any engine's kernels must give, against kernels/reference. A column
// runs one op on its device; its buffers end in canaries, and it fails the test where one is gone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/formats/activation.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/kv_page.hpp"
#include "kernels/formats/rope_style.hpp"
#include "kernels/reference/add.hpp"
#include "kernels/reference/attend.hpp"
#include "kernels/reference/embed.hpp"
#include "kernels/reference/glu.hpp"
#include "kernels/reference/moe_route.hpp"
#include "kernels/reference/rms_norm.hpp"
#include "kernels/reference/rope.hpp"
#include "kernels/reference/softcap.hpp"
#include "kernels/reference/store_f16.hpp"
#include "kernels/reference/store_q8_0.hpp"
#include "kernels/reference/top_k.hpp"
#include "tests/kernels/formats/file_matrix.hpp"
#include "tests/kernels/formats/print.hpp"

namespace flyball::kernels::cases {

using Floats = std::vector<float>;
using Uints = std::vector<std::uint32_t>;
using Bytes = std::vector<std::uint8_t>;

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();
inline constexpr std::uint32_t kTile = 16, kSplit = 64;  // positions of a KV block, and of a split
inline constexpr std::uint8_t kPoison = 0x7E;            // twice: an f16 that is no number

inline Floats random_floats(std::size_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  Floats v(n);
  for (float& x : v) x = normal(generator);
  return v;
}

struct KvShape {
  std::uint32_t heads, kv_heads, head_dim, positions;
  DType type = DType::f16;
  std::uint32_t window = 0;  // positions that a row sees, its own included; 0: all
  float cap = 0.0F;          // of scores; 0: none
};
struct Rotation {
  Floats q_by, by;  // of q and of k: [rows, dim / 2, 2] cosine and sine
  std::uint32_t dim = 0;
  RopeStyle style = RopeStyle::interleaved;
};
struct Stored {
  Floats q;  // rotated
  Bytes keys, values;
};
struct AttendWork {
  std::uint32_t first_row, rows, first_position, table_at;
};
struct TopKPair {
  std::uint32_t id = 0;
  float value = 0;
};
struct TopKAsked {
  std::uint32_t row, k, of, exp_sum;
};

// What a column must be able to do; shapes as in kernels/reference.
struct Column {
  virtual ~Column() = default;
  virtual Floats rms_norm(const Floats& x, const Floats& weight, std::uint32_t n, std::uint32_t dim,
                          float eps) = 0;
  virtual Floats head_norm(const Floats& x, const Floats& weight, std::uint32_t n, std::uint32_t heads,
                           float eps) = 0;
  virtual Floats add(const Floats& x, const Floats& y, std::uint32_t cols) = 0;
  virtual Floats bias(const Floats& x, const Floats& b, std::uint32_t cols) = 0;
  virtual Floats glu(Activation activation, const Floats& gate, const Floats& up, std::uint32_t cols) = 0;
  virtual Floats softcap(const Floats& x, float cap, std::uint32_t cols) = 0;
  virtual Floats gather(const Floats& x, const Uints& rows, std::uint32_t cols) = 0;
  // table: its rows from byte `at` of a buffer on; of affine types its scales and biases, too, of their own.
  virtual Floats embed(DType type, const test::FileMatrix& table, std::size_t at,
                       const std::vector<std::int32_t>& tokens, std::uint32_t cols, float scale) = 0;
  virtual std::pair<Uints, Floats> moe_route(const Floats& router, std::uint32_t n, std::uint32_t experts,
                                             std::uint32_t used) = 0;
  virtual Floats moe_add(const Floats& y, const Floats& weights, const Floats& residual, std::uint32_t used,
                         std::uint32_t cols) = 0;
  // For each of `asked`, what the kernel wrote: the head, then the candidates.
  virtual std::vector<std::vector<TopKPair>> top_k(const Floats& logits, std::uint32_t cols,
                                                   const std::vector<TopKAsked>& asked) = 0;
  // k's and v's rows, one a position of `shape`, go to `slots` of caches of poison, blocks of kTile
  // positions.
  virtual Stored rope_kv_store(const KvShape& shape, const Rotation& rotation, const Floats& q,
                               const Floats& k, const Floats& v, const Uints& slots,
                               std::size_t cache_bytes) = 0;
  // Attention over such caches by the kernel for prompts, `work` being one item, or by those for decode.
  virtual Floats attend(const KvShape& shape, const Floats& q, const Bytes& keys, const Bytes& values,
                        const std::vector<AttendWork>& work, const Uints& table, float scale,
                        bool decode) = 0;
};

inline void check_rms_norm(Column& column, std::uint32_t dim) {
  const std::uint32_t n = 3;
  const auto x = random_floats(n * dim, dim), weight = random_floats(dim, 2);
  const auto got = column.rms_norm(x, weight, n, dim, 1e-5F);
  std::vector<double> want(n * dim);
  reference::rms_norm(x.data(), weight.data(), n, dim, 1e-5F, want.data());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], (std::abs(want[i]) + 1e-6) * 16 * kEpsilon) << "dim " << dim;
}

inline void check_head_norm(Column& column) {
  const std::uint32_t n = 2, heads = 3, head_dim = 36;
  const auto x = random_floats(n * heads * head_dim, 3), weight = random_floats(head_dim, 4);
  const auto got = column.head_norm(x, weight, n, heads, 1e-6F);
  std::vector<double> want(x.size());
  reference::rms_norm(x.data(), weight.data(), n * heads, head_dim, 1e-6F, want.data());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], (std::abs(want[i]) + 1e-6) * 16 * kEpsilon);
}

inline void check_elementwise(Column& column, std::uint32_t cols) {
  const std::uint32_t n = 3;
  const auto a = random_floats(n * cols, 5, 3.0F), b = random_floats(n * cols, 6, 3.0F);
  std::vector<double> want_sum(a.begin(), a.end()), want_gated(a.size());
  reference::add(want_sum.data(), b.data(), a.size());
  const auto sum = column.add(a, b, cols), biased = column.bias(a, {b.begin(), b.begin() + cols}, cols);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(sum[i], static_cast<float>(want_sum[i]));
    ASSERT_EQ(biased[i], a[i] + b[i % cols]);
  }
  for (const Activation activation : {Activation::silu, Activation::gelu}) {
    // gelu's exponent grows by the cube, and with it what its rounding is worth.
    const double roundings = activation == Activation::gelu ? 128 : 16;
    reference::glu(activation, a.data(), b.data(), a.size(), want_gated.data());
    const auto gated = column.glu(activation, a, b, cols);
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(gated[i], want_gated[i], (std::abs(want_gated[i]) + 1e-6) * roundings * kEpsilon) << a[i];
  }
  constexpr float kCap = 4.0F;
  std::vector<double> want_capped(a.begin(), a.end());
  reference::softcap(want_capped.data(), a.size(), kCap);
  const auto capped = column.softcap(a, kCap, cols);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(capped[i], want_capped[i], 1e-6 * kCap) << a[i];
  const auto gathered = column.gather(a, {2, 0}, cols);
  ASSERT_TRUE(std::equal(gathered.begin(), gathered.begin() + cols, a.begin() + 2 * cols));
  ASSERT_TRUE(std::equal(gathered.begin() + cols, gathered.end(), a.begin()));
}

// at: files align as they like, within what the column can read.
inline void check_embed(Column& column, DType type, std::size_t at, DType scale_type = DType::f16) {
  const std::uint32_t cols = 512, vocab = 5;
  const test::FileMatrix table(type, vocab, cols, random_floats(vocab * cols, 7), scale_type);
  const std::vector<std::int32_t> tokens{4, 0};
  // Of scales of 16 bits every product with a code is exact: one rounding is left, and it is everybody's. Of
  // f32 ones a device may round the product, too, which is up to some ten times as large as a value.
  const double rounding = !affine_of(type) ? 1e-7 : scale_type == DType::f32 ? 1e-6 : 0;
  const double relative = affine_of(type) ? 0 : 4 * kEpsilon;
  const float scale = affine_of(type) ? 1.0F : 22.5F;
  const auto got = column.embed(type, table, at, tokens, cols, scale);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::vector<double> want(cols);
    reference::embed(type, table.rows().after(type, static_cast<std::size_t>(tokens[i]), cols), cols, scale,
                     want.data());
    for (std::uint32_t c = 0; c < cols; ++c) {
      ASSERT_NEAR(got[i * cols + c], want[c], std::abs(want[c]) * relative + rounding)
          << to_string(type) << " at " << at << ", scales " << to_string(scale_type);
    }
  }
}

inline constexpr DType kScaleTypes[] = {DType::f16, DType::bf16, DType::f32};  // of affine types

inline void check_moe_route_and_add(Column& column) {
  const std::uint32_t n = 4, experts = 40, used = 6, cols = 21;
  auto logits = random_floats(n * experts, 11, 2.0F);
  for (std::uint32_t e = 0; e < experts; ++e) logits[e] = 1.0F;             // all equal: lower ids first
  logits[experts + 7] = logits[experts + 9] = logits[experts + 38] = 9.0F;  // ties at the top
  const auto [ids, weights] = column.moe_route(logits, n, experts, used);
  const auto y = random_floats(n * used * cols, 12), residual = random_floats(n * cols, 13);
  const auto sum = column.moe_add(y, weights, residual, used, cols);
  for (std::uint32_t i = 0; i < n; ++i) {
    Uints want_ids(used);
    std::vector<double> want_weights(used);
    reference::moe_route(logits.data() + i * experts, experts, used, want_ids.data(), want_weights.data());
    for (std::uint32_t u = 0; u < used; ++u) {
      ASSERT_EQ(ids[i * used + u], want_ids[u]) << "row " << i << " use " << u;
      ASSERT_NEAR(weights[i * used + u], want_weights[u], 1e-6);
    }
    for (std::uint32_t c = 0; c < cols; ++c) {
      double want = residual[i * cols + c];
      for (std::uint32_t u = 0; u < used; ++u) want += want_weights[u] * y[(i * used + u) * cols + c];
      ASSERT_NEAR(sum[i * cols + c], want, 1e-5);
    }
  }
}

// ---- attention --------------------------------------------------------------------------------------------
// Stored through rope_kv_store, read by both ways of attending, against the reference on the same rounded
// cache. Blocks that no table names, and places beyond the last position, are NaNs, and stay what they are.

// What must have been made of one head's row at `place` of a page. Marks the bytes that are the row's.
inline void expect_f16_row(const float* x, std::uint32_t dim, std::uint32_t place, const std::uint8_t* page,
                           std::vector<bool>& written) {
  std::vector<std::uint16_t> want(dim);
  reference::store_f16(x, dim, want.data());
  ASSERT_EQ(std::memcmp(page + 2 * std::size_t{place} * dim, want.data(), 2 * dim), 0);
  std::fill_n(written.begin() + 2 * std::ptrdiff_t{place} * dim, 2 * dim, true);
}

inline void expect_q8_0_row(const float* x, std::uint32_t dim, std::uint32_t place, const std::uint8_t* page,
                            std::vector<bool>& written) {
  std::vector<std::int8_t> want(dim);
  std::vector<std::uint16_t> scales(dim / 32);
  reference::store_q8_0(x, dim, want.data(), scales.data());
  const std::size_t at = std::size_t{place} * dim, scales_at = kv_scales_at(kTile, dim, place);
  ASSERT_EQ(std::memcmp(page + scales_at, scales.data(), 2 * scales.size()), 0);
  for (std::uint32_t d = 0; d < dim; ++d) {
    const auto got = static_cast<std::int8_t>(page[at + d]);
    if (got == want[d]) continue;  // the rest: halfway, where the device's division is approximate
    ASSERT_NEAR(x[d] / f16_to_f32(scales[d / 32]), (got + want[d]) / 2.0, 1e-3);
    ASSERT_EQ(std::abs(got - want[d]), 1);
  }
  std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(at), dim, true);
  std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(scales_at), 2 * scales.size(), true);
}

inline void check_stored(const KvShape& shape, const Floats& x, const Uints& slots, const Bytes& blocks) {
  const std::size_t page_bytes = kv_page_bytes(shape.type, kTile, shape.head_dim);
  std::vector<std::vector<bool>> written(blocks.size() / page_bytes, std::vector<bool>(page_bytes));
  for (std::uint32_t p = 0; p < shape.positions; ++p)  // rounded as the reference does, in its place
    for (std::uint32_t h = 0; h < shape.kv_heads; ++h) {
      const std::size_t page = std::size_t{slots[p] / kTile} * shape.kv_heads + h;
      (shape.type == DType::q8_0 ? expect_q8_0_row : expect_f16_row)(
          x.data() + (p * shape.kv_heads + h) * shape.head_dim, shape.head_dim, slots[p] % kTile,
          blocks.data() + page * page_bytes, written[page]);
    }
  for (std::size_t i = 0; i < blocks.size(); ++i)  // and nowhere else
    ASSERT_TRUE(blocks[i] == kPoison || written[i / page_bytes][i % page_bytes]);
}

// What one head's row at `place` of a page reads back as.
inline Floats read_back(DType type, const std::uint8_t* page, std::uint32_t dim, std::uint32_t place) {
  Floats row(dim);
  for (std::uint32_t d = 0; d < dim; ++d) {
    const std::size_t at = std::size_t{place} * dim + d;
    std::uint16_t bits = 0;
    std::memcpy(&bits, page + (type == DType::q8_0 ? kv_scales_at(kTile, dim, place) + 2 * (d / 32) : 2 * at),
                2);
    row[d] = f16_to_f32(bits) *
             (type == DType::q8_0 ? static_cast<float>(static_cast<std::int8_t>(page[at])) : 1.0F);
  }
  return row;
}

// A part of each head is rotated, or all of it, which takes pairs apart into two blocks of q8_0; the rest and
// v stay: k reads back as the reference's within its rounding.
inline void check_rope_kv_store(Column& column, RopeStyle style, DType type) {
  const KvShape shape{3, 2, type == DType::q8_0 ? 64U : 20U, 2, type};
  const std::uint32_t n = shape.positions, dim = shape.head_dim;
  const std::uint32_t rope_dim = type == DType::q8_0 && style == RopeStyle::half ? dim : 12;
  const auto q = random_floats(n * shape.heads * dim, 8), k = random_floats(n * shape.kv_heads * dim, 9),
             v = random_floats(k.size(), 17);
  const Rotation rotation{random_floats(n * rope_dim, 11), random_floats(n * rope_dim, 10), rope_dim, style};
  const Uints slots{2 * kTile + 5, 7};
  const auto got = column.rope_kv_store(shape, rotation, q, k, v, slots,
                                        3 * shape.kv_heads * kv_page_bytes(type, kTile, dim));
  ASSERT_NO_FATAL_FAILURE(check_stored(shape, v, slots, got.values));
  std::vector<double> want_q(q.begin(), q.end()), want_k(k.begin(), k.end());
  for (std::uint32_t i = 0; i < n; ++i) {
    const float* by = rotation.by.data() + i * rope_dim;
    reference::rope(want_q.data() + i * shape.heads * dim, shape.heads, dim, rope_dim,
                    rotation.q_by.data() + i * rope_dim, style);
    reference::rope(want_k.data() + i * shape.kv_heads * dim, shape.kv_heads, dim, rope_dim, by, style);
    for (std::uint32_t h = 0; h < shape.kv_heads; ++h) {
      const std::size_t page = std::size_t{slots[i] / kTile} * shape.kv_heads + h;
      const double* want = want_k.data() + (i * shape.kv_heads + h) * dim;
      const Floats row =
          read_back(type, got.keys.data() + page * kv_page_bytes(type, kTile, dim), dim, slots[i] % kTile);
      for (std::uint32_t d = 0; d < dim; ++d) {
        double largest = 0;
        for (std::uint32_t e = d / 32 * 32; e < std::min(dim, d / 32 * 32 + 32); ++e)
          largest = std::max(largest, std::abs(want[e]));
        const double rounding = type == DType::q8_0 ? largest / 127 * 0.51 : std::abs(want[d]) / 2048 * 1.01;
        ASSERT_NEAR(row[d], want[d], rounding + 1e-6) << "row " << i << " head " << h << " value " << d;
      }
    }
  }
  for (std::size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(got.q[i], want_q[i], 1e-6);
}

inline void check_attention(Column& column, const KvShape& shape) {
  const auto [heads, kv_heads, head_dim, positions, type, window, cap] = shape;
  Uints table(positions / kTile + 1);
  std::iota(table.begin(), table.end(), 2U);
  std::reverse(table.begin(), table.end());
  const auto k = random_floats(positions * kv_heads * head_dim, 14), v = random_floats(k.size(), 15);
  Uints slots(positions);
  for (std::uint32_t p = 0; p < positions; ++p) slots[p] = table[p / kTile] * kTile + p % kTile;
  const std::size_t page_bytes = kv_page_bytes(type, kTile, head_dim);
  const auto untouched = random_floats(positions * heads * head_dim, 18);
  const auto [q_after, k_blocks, v_blocks] =
      column.rope_kv_store(shape, {.q_by = {0, 1}, .by = {0, 1}, .dim = 0}, untouched, k, v, slots,
                           (positions / kTile + 4) * kv_heads * page_bytes);
  ASSERT_EQ(q_after, untouched) << "nothing was to be rotated";
  ASSERT_NO_FATAL_FAILURE(check_stored(shape, k, slots, k_blocks));
  ASSERT_NO_FATAL_FAILURE(check_stored(shape, v, slots, v_blocks));

  // The last rows of the sequence, as one tile of a prompt and each as a decoded token.
  const std::uint32_t rows = std::min(5U, positions), first = positions - rows;
  const auto q = random_floats(rows * heads * head_dim, 16);
  // Where there is a cap, scores come near it.
  const float scale = (cap == 0.0F ? 1.0F : cap) / std::sqrt(static_cast<float>(head_dim));
  // A score is off by some of its own roundings, and its weight by as much.
  const double tolerance = cap == 0.0F ? 2e-6 : 2e-6 * static_cast<double>(cap);
  std::vector<AttendWork> single;
  for (std::uint32_t r = 0; r < rows; ++r) single.push_back({r, 1, first + r, 0});
  const auto got = column.attend(shape, q, k_blocks, v_blocks, {{0, rows, first, 0}}, table, scale, false);
  EXPECT_EQ(got, column.attend(shape, q, k_blocks, v_blocks, single, table, scale, true))
      << "a row's result depends on its company";
  for (std::uint32_t r = 0; r < rows; ++r) {
    reference::AttendArgs args;
    args.q = q.data() + r * heads * head_dim;
    args.k_blocks = k_blocks.data();
    args.v_blocks = v_blocks.data();
    args.block_table = table.data();
    args.block_size = kTile;
    args.n_positions = first + r + 1;
    args.n_heads = heads;
    args.n_kv_heads = kv_heads;
    args.head_dim = head_dim;
    args.scale = scale;
    args.kv_type = type;
    args.first_position = window != 0 && args.n_positions > window ? args.n_positions - window : 0;
    args.cap = cap;
    std::vector<double> want(heads * head_dim);
    reference::attend(args, want.data());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[r * want.size() + i], want[i], tolerance + std::abs(want[i]) * 64 * kEpsilon)
          << "row " << r << " value " << i;
  }
}

inline const std::vector<KvShape> kKvShapes = {{1, 1, 2, 1},
                                               {4, 2, 24, 37},
                                               {3, 1, 64, 64},
                                               {8, 2, 128, 333},
                                               {1, 1, 32, 1, DType::q8_0},
                                               {4, 2, 96, 37, DType::q8_0},
                                               {3, 1, 64, 64, DType::q8_0},
                                               {8, 2, 128, 333, DType::q8_0},
                                               {4, 2, 24, 37, DType::f16, 9},
                                               {8, 2, 64, 333, DType::f16, 100},
                                               {2, 1, 256, 133, DType::f16, 64, 20.0F},
                                               {4, 2, 32, 333, DType::q8_0, 1},
                                               {8, 2, 128, 333, DType::q8_0, 332, 5.0F},
                                               {3, 1, 64, 64, DType::f16, 64, 50.0F}};

inline std::string name_of(const KvShape& shape) {
  return std::string(to_string(shape.type)) + "_heads" + std::to_string(shape.heads) + "_dim" +
         std::to_string(shape.head_dim) + "_positions" + std::to_string(shape.positions) +
         (shape.window == 0 ? "" : "_window" + std::to_string(shape.window)) +
         (shape.cap == 0.0F ? "" : "_cap" + std::to_string(static_cast<int>(shape.cap)));
}
inline void PrintTo(const KvShape& shape, std::ostream* out) {
  *out << name_of(shape);
}
inline std::string kv_shape_name(const testing::TestParamInfo<KvShape>& info) {
  return name_of(info.param);
}

// ---- top_k ------------------------------------------------------------------------------------------------
inline void expect_answer(std::span<const float> row, const TopKAsked& a, const std::vector<TopKPair>& got) {
  Uints ids(a.k);
  const double sum = reference::top_k(row.data(), a.of, a.k, ids.data());
  ASSERT_EQ(got[0].id, 0U);
  if (a.exp_sum != 0) {
    ASSERT_NEAR(got[0].value, sum, 2e-6 * sum);
  } else {
    ASSERT_EQ(got[0].value, 0.0F);
  }
  for (std::uint32_t i = 0; i < a.k; ++i) {
    ASSERT_EQ(got[1 + i].id, ids[i]) << "candidate " << i << " of " << a.k << " of " << a.of;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(got[1 + i].value), std::bit_cast<std::uint32_t>(row[ids[i]]));
  }
}

// Three rows, the middle one not asked for; behind the tokens of each, what must not be read as one.
inline void check_top_k(Column& column, std::uint32_t of) {
  constexpr std::uint32_t kPadding = 9;
  const std::uint32_t cols = of + kPadding;
  Floats logits;
  for (unsigned r = 0; r < 3; ++r) {
    auto row = random_floats(of, of + r, 3.0F);
    if (r == 1) std::ranges::fill(row, NAN);
    row.resize(cols, r == 0 ? std::numeric_limits<float>::infinity() : NAN);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  std::vector<TopKAsked> asked;
  for (std::uint32_t k = 1; k <= std::min(64U, of); k += of > 4000 ? 21 : 1)
    asked.insert(asked.end(), {{2, k, of, k % 2}, {0, k, of, 1}});
  const auto got = column.top_k(logits, cols, asked);
  for (std::size_t i = 0; i < asked.size(); ++i)
    ASSERT_NO_FATAL_FAILURE(
        expect_answer(std::span(logits).subspan(asked[i].row * cols, cols), asked[i], got[i]));
}
inline constexpr std::uint32_t kTopKColumns[] = {1, 2, 31, 32, 33, 255, 256, 257, 4000, 49152, 151936};

inline void check_top_k_ties(Column& column) {
  constexpr std::uint32_t n = 1000;
  const auto filled = [](const std::function<float(std::uint32_t)>& f) {
    Floats row(n);
    for (std::uint32_t i = 0; i < n; ++i) row[i] = f(i);
    return row;
  };
  const auto noise = random_floats(n, 7);
  const Floats rows[] = {
      filled([](auto) { return 1.5F; }),
      filled([](auto) { return -2.0F; }),
      filled([](auto i) { return i % 3 == 0 ? 0.0F : -0.0F; }),  // equal, whatever their bits
      filled([&](auto i) { return std::round(noise[i] * 2); }),  // many of each
      filled([](auto i) { return static_cast<float>(i); }),
      filled([](auto i) { return -static_cast<float>(i); }),
      filled([](auto i) { return static_cast<float>(i % 7) * 1e-40F; }),  // subnormal
      filled([](auto i) { return i < n - 2 ? -3e38F : 3e38F; }),
      filled([](auto i) { return i == 517 ? std::numeric_limits<float>::max() : -1.0F; }),
  };
  for (const auto& row : rows)
    for (const std::uint32_t k : {1U, 2U, 40U, 64U}) {
      // A processor may flush what is subnormal where it computes with it, so the sums are another test's.
      const std::vector<TopKAsked> asked{{0, k, n, 0}};
      const auto got = column.top_k(row, n, asked);
      ASSERT_NO_FATAL_FAILURE(expect_answer(row, asked[0], got[0])) << "row of " << row[0];
    }
}

// One such value anywhere, and the row is known for what it is; the candidates are tokens all the same.
inline void check_top_k_broken(Column& column) {
  constexpr std::uint32_t n = 700;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto good = random_floats(n, 3, 2.0F);
  for (const float bad : {NAN, -NAN, kInfinity, -kInfinity, std::bit_cast<float>(0xffffffffU)})
    for (const std::uint32_t at : {0U, 255U, 256U, 699U}) {
      auto logits = good;
      logits.insert(logits.end(), good.begin(), good.end());
      logits[at] = bad;
      const std::vector<TopKAsked> asked{{0, 64, n, 1}, {1, 5, n, 1}};
      const auto got = column.top_k(logits, n, asked);
      EXPECT_EQ(got[0][0].id, 1U) << bad << " at " << at;
      for (std::size_t i = 1; i < got[0].size(); ++i) EXPECT_LT(got[0][i].id, n);
      ASSERT_NO_FATAL_FAILURE(expect_answer(good, asked[1], got[1]));
    }
}

}  // namespace flyball::kernels::cases
