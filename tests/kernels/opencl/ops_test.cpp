// Every op of the OpenCL engine against kernels/reference, as processors run it (one work-item a row) and as
// GPUs do (a work-group a row); buffers end in canaries, what must not be read is poison.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/formats/f16.hpp"
#include "kernels/formats/kv_page.hpp"
#include "kernels/formats/quantize.hpp"
#include "kernels/reference/add.hpp"
#include "kernels/reference/attend.hpp"
#include "kernels/reference/embed.hpp"
#include "kernels/reference/moe_route.hpp"
#include "kernels/reference/rms_norm.hpp"
#include "kernels/reference/rope.hpp"
#include "kernels/reference/store_f16.hpp"
#include "kernels/reference/store_q8_0.hpp"
#include "kernels/reference/swiglu.hpp"
#include "tests/kernels/opencl/kernel_test.hpp"

namespace flyball::opencl {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

std::vector<float> random_floats(std::size_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(generator);
  return v;
}

class OpenClOps : public KernelTest {};

TEST_F(OpenClOps, RmsNorm) {
  for (const std::uint32_t lanes : {1U, 64U})
    for (const std::uint32_t dim : {2U, 8U, 61U, 576U, 2048U}) {
      const std::uint32_t n = 3;
      const auto x = random_floats(n * dim, dim), weight = random_floats(dim + 5, 2);
      const Memory out = put(std::vector<float>(n * dim, NAN));
      run(kernel("rms_norm", "-D WG=" + std::to_string(lanes)), grid({lanes, n, 1}, lanes), put(x),
          put(weight), 5U, out, dim, 1e-5F);
      std::vector<double> want(n * dim);
      kernels::reference::rms_norm(x.data(), weight.data() + 5, n, dim, 1e-5F, want.data());
      const auto got = get<float>(out);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], (std::abs(want[i]) + 1e-6) * 16 * kEpsilon)
            << "dim " << dim << " lanes " << lanes;
    }
}

TEST_F(OpenClOps, HeadNorm) {
  const std::uint32_t n = 2, heads = 3, head_dim = 36;
  const auto x = random_floats(n * heads * head_dim, 3), weight = random_floats(head_dim, 4);
  const Memory inout = put(x);
  run(kernel("head_norm", ""), grid({heads, n, 1}), inout, put(weight), 0U, head_dim, 1e-6F);
  std::vector<double> want(x.size());
  kernels::reference::rms_norm(x.data(), weight.data(), n * heads, head_dim, 1e-6F, want.data());
  const auto got = get<float>(inout);
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], (std::abs(want[i]) + 1e-6) * 16 * kEpsilon);
}

TEST_F(OpenClOps, AddBiasSwigluGather) {
  for (const std::uint32_t cols : {1U, 8U, 13U, 512U, 1000U}) {
    const std::uint32_t n = 3;
    const auto a = random_floats(n * cols, 5, 3.0F), b = random_floats(n * cols, 6, 3.0F);
    const Memory sum = put(a), biased = put(a), gated = put(a);
    run(kernel("add", ""), rows_of(cols, n), sum, put(b), cols);
    run(kernel("bias", ""), rows_of(cols, n), biased, put(b), 0U, cols);
    run(kernel("swiglu", ""), rows_of(cols, n), gated, put(b), cols);
    std::vector<double> want_sum(a.begin(), a.end()), want_gated(a.size());
    kernels::reference::add(want_sum.data(), b.data(), a.size());
    kernels::reference::swiglu(a.data(), b.data(), a.size(), want_gated.data());
    const auto got_sum = get<float>(sum), got_biased = get<float>(biased), got_gated = get<float>(gated);
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(got_sum[i], static_cast<float>(want_sum[i]));
      ASSERT_EQ(got_biased[i], a[i] + b[i % cols]);
      ASSERT_NEAR(got_gated[i], want_gated[i], (std::abs(want_gated[i]) + 1e-6) * 16 * kEpsilon);
    }
    const Memory gathered = put(std::vector<float>(2 * cols, NAN));
    run(kernel("gather", ""), rows_of(cols, 2), put(a), put(std::vector<std::uint32_t>{2, 0}), gathered,
        cols);
    const auto got = get<float>(gathered);
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + cols, a.begin() + 2 * cols));
    EXPECT_TRUE(std::equal(got.begin() + cols, got.end(), a.begin()));
  }
}

TEST_F(OpenClOps, EmbedDecodesEveryFormatExactly) {
  for (const kernels::DType type : kernels::kAllDTypes) {
    const std::uint32_t cols = 512, vocab = 5;
    const auto values = random_floats(vocab * cols, 7);
    const std::size_t row_bytes = kernels::row_bytes(type, cols);
    std::vector<std::uint8_t> table(3 + vocab * row_bytes);  // at an odd byte: files align as they like
    for (std::uint32_t r = 0; r < vocab; ++r)
      kernels::quantize_row(type, values.data() + r * cols, cols, table.data() + 3 + r * row_bytes);
    const std::vector<Token> tokens{4, 0};
    const Memory out = put(std::vector<float>(2 * cols, NAN));
    run(kernel("embed", "-D FORMAT=" + std::to_string(static_cast<int>(type)), {"dequantize", "embed"}),
        grid({64, 2, 1}, 32), put(table), cl_ulong{3}, cl_ulong{row_bytes}, put(tokens), out, cols);
    const auto got = get<float>(out);
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<double> want(cols);
      kernels::reference::embed(type, table.data() + 3 + static_cast<std::size_t>(tokens[i]) * row_bytes,
                                cols, want.data());
      for (std::uint32_t c = 0; c < cols; ++c)
        ASSERT_NEAR(got[i * cols + c], want[c], std::abs(want[c]) * 4 * kEpsilon + 1e-7)
            << kernels::to_string(type);
    }
  }
}

TEST_F(OpenClOps, Rope) {
  const std::uint32_t n = 2, heads = 3, kv_heads = 1, head_dim = 20, rope_dim = 12;
  const auto q = random_floats(n * heads * head_dim, 8), k = random_floats(n * kv_heads * head_dim, 9);
  const auto rotations = random_floats(n * rope_dim, 10);
  for (const auto style : {kernels::RopeStyle::interleaved, kernels::RopeStyle::half})
    for (const std::size_t lanes : {1U, 4U}) {
      const Memory q_out = put(q), k_out = put(k);
      run(kernel("rope", style == kernels::RopeStyle::interleaved ? "-D INTERLEAVED=1" : "-D INTERLEAVED=0"),
          grid({lanes, heads + kv_heads, n}, lanes), q_out, k_out, put(rotations), heads, kv_heads, head_dim,
          rope_dim);
      std::vector<double> want_q(q.begin(), q.end()), want_k(k.begin(), k.end());
      for (std::uint32_t i = 0; i < n; ++i) {
        kernels::reference::rope(want_q.data() + i * heads * head_dim, heads, head_dim, rope_dim,
                                 rotations.data() + i * rope_dim, style);
        kernels::reference::rope(want_k.data() + i * kv_heads * head_dim, kv_heads, head_dim, rope_dim,
                                 rotations.data() + i * rope_dim, style);
      }
      const auto got_q = get<float>(q_out), got_k = get<float>(k_out);
      for (std::size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(got_q[i], want_q[i], 1e-6);
      for (std::size_t i = 0; i < k.size(); ++i) ASSERT_NEAR(got_k[i], want_k[i], 1e-6);
    }
}

TEST_F(OpenClOps, MoeRouteAndAdd) {
  for (const std::uint32_t lanes : {1U, 32U}) {
    const std::uint32_t n = 4, experts = 40, used = 6, cols = 21;
    auto logits = random_floats(n * experts, 11, 2.0F);
    for (std::uint32_t e = 0; e < experts; ++e) logits[e] = 1.0F;             // all equal: lower ids first
    logits[experts + 7] = logits[experts + 9] = logits[experts + 38] = 9.0F;  // ties at the top
    const Memory ids = put(std::vector<std::uint32_t>(n * used, 99)),
                 weights = put(std::vector<float>(n * used, NAN));
    run(kernel("moe_route", "-D WG=" + std::to_string(lanes)), grid({lanes, n, 1}, lanes), put(logits), ids,
        weights, experts, used);
    const auto y = random_floats(n * used * cols, 12), residual = random_floats(n * cols, 13);
    const Memory sum = put(residual);
    run(kernel("moe_add", ""), rows_of(cols, n), put(y), weights, sum, used, cols);
    const auto got_ids = get<std::uint32_t>(ids);
    const auto got_weights = get<float>(weights), got_sum = get<float>(sum);
    for (std::uint32_t i = 0; i < n; ++i) {
      std::vector<std::uint32_t> want_ids(used);
      std::vector<double> want_weights(used);
      kernels::reference::moe_route(logits.data() + i * experts, experts, used, want_ids.data(),
                                    want_weights.data());
      for (std::uint32_t u = 0; u < used; ++u) {
        ASSERT_EQ(got_ids[i * used + u], want_ids[u]) << "row " << i << " use " << u;
        ASSERT_NEAR(got_weights[i * used + u], want_weights[u], 1e-6);
      }
      for (std::uint32_t c = 0; c < cols; ++c) {
        double want = residual[i * cols + c];
        for (std::uint32_t u = 0; u < used; ++u) want += want_weights[u] * y[(i * used + u) * cols + c];
        ASSERT_NEAR(got_sum[i * cols + c], want, 1e-5);
      }
    }
  }
}

// Stored through kv_store, read by attend in both its forms, against the reference on the same rounded cache.
// Blocks that no table names, and places beyond the last position, are NaNs, and stay what they are.
struct AttendCase {
  std::uint32_t heads, kv_heads, head_dim, positions;
  kernels::DType type = kernels::DType::f16;
};

class OpenClAttend : public OpenClOps, public testing::WithParamInterface<AttendCase> {};

constexpr std::uint32_t kTile = 16;

// What kv_store must have made of one head's row at `place` of a page. Marks the bytes that are the row's.
void expect_f16_row(const float* x, std::uint32_t dim, std::uint32_t place, const std::uint8_t* page,
                    std::vector<bool>& written) {
  std::vector<std::uint16_t> want(dim);
  kernels::reference::store_f16(x, dim, want.data());
  ASSERT_EQ(std::memcmp(page + 2 * std::size_t{place} * dim, want.data(), 2 * dim), 0);
  std::fill_n(written.begin() + 2 * std::ptrdiff_t{place} * dim, 2 * dim, true);
}

void expect_q8_0_row(const float* x, std::uint32_t dim, std::uint32_t place, const std::uint8_t* page,
                     std::vector<bool>& written) {
  std::vector<std::int8_t> want(dim);
  std::vector<std::uint16_t> scales(dim / 32);
  kernels::reference::store_q8_0(x, dim, want.data(), scales.data());
  const std::size_t at = std::size_t{place} * dim, scales_at = kernels::kv_scales_at(kTile, dim, place);
  ASSERT_EQ(std::memcmp(page + scales_at, scales.data(), 2 * scales.size()), 0);
  for (std::uint32_t d = 0; d < dim; ++d) {
    const auto got = static_cast<std::int8_t>(page[at + d]);
    if (got == want[d]) continue;  // the rest: halfway, where the device's division is approximate
    ASSERT_NEAR(x[d] / kernels::f16_to_f32(scales[d / 32]), (got + want[d]) / 2.0, 1e-3);
    ASSERT_EQ(std::abs(got - want[d]), 1);
  }
  std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(at), dim, true);
  std::fill_n(written.begin() + static_cast<std::ptrdiff_t>(scales_at), 2 * scales.size(), true);
}

TEST_P(OpenClAttend, AgreesWithTheReference) {
  const auto [heads, kv_heads, head_dim, positions, type] = GetParam();
  constexpr std::uint32_t kSplit = 64, kRows = 5;
  constexpr std::uint8_t kPoison = 0x7E;  // twice: an f16 that is no number
  const std::uint32_t n_blocks = positions / kTile + 4, group = heads / kv_heads;
  const std::string kv = type == kernels::DType::q8_0 ? " -D KV_Q8_0=1" : "";
  std::vector<std::uint32_t> table(positions / kTile + 1);
  std::iota(table.begin(), table.end(), 2U);
  std::reverse(table.begin(), table.end());
  const auto k = random_floats(positions * kv_heads * head_dim, 14), v = random_floats(k.size(), 15);
  std::vector<std::uint32_t> slots(positions);
  for (std::uint32_t p = 0; p < positions; ++p) slots[p] = table[p / kTile] * kTile + p % kTile;
  const std::size_t page_bytes = kernels::kv_page_bytes(type, kTile, head_dim);
  const std::vector<std::uint8_t> poison(n_blocks * kv_heads * page_bytes, kPoison);
  std::vector<std::uint8_t> k_blocks, v_blocks;
  Memory k_cache, v_cache;
  for (const std::uint32_t lanes : {4U, 1U}) {
    k_cache = put(poison), v_cache = put(poison);
    run(kernel("kv_store", kv), grid({lanes, kv_heads, positions}, lanes), put(k), put(v), put(slots),
        k_cache, v_cache, kv_heads, head_dim, kTile);
    k_blocks = get<std::uint8_t>(k_cache), v_blocks = get<std::uint8_t>(v_cache);
    std::vector<std::vector<bool>> k_written(n_blocks * kv_heads, std::vector<bool>(page_bytes));
    auto v_written = k_written;
    for (std::uint32_t p = 0; p < positions; ++p)  // rounded as the reference does, in its place
      for (std::uint32_t h = 0; h < kv_heads; ++h) {
        const std::size_t page = std::size_t{slots[p] / kTile} * kv_heads + h,
                          row = (p * kv_heads + h) * head_dim;
        const std::uint32_t place = slots[p] % kTile;
        const auto expect_row = type == kernels::DType::q8_0 ? expect_q8_0_row : expect_f16_row;
        expect_row(k.data() + row, head_dim, place, k_blocks.data() + page * page_bytes, k_written[page]);
        expect_row(v.data() + row, head_dim, place, v_blocks.data() + page * page_bytes, v_written[page]);
      }
    for (std::size_t i = 0; i < k_blocks.size(); ++i) {  // and nowhere else
      ASSERT_TRUE(k_blocks[i] == kPoison || k_written[i / page_bytes][i % page_bytes]);
      ASSERT_TRUE(v_blocks[i] == kPoison || v_written[i / page_bytes][i % page_bytes]);
    }
  }

  // The last rows of the sequence, as one tile of a prompt and each as a decoded token.
  const std::uint32_t rows = std::min(kRows, positions), first = positions - rows;
  const auto q = random_floats(rows * heads * head_dim, 16);
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  const std::uint32_t max_splits = (positions + kSplit - 1) / kSplit;
  std::vector<std::uint32_t> tile{0, rows, first, 0}, single;
  for (std::uint32_t r = 0; r < rows; ++r) single.insert(single.end(), {r, 1, first + r, 0});
  std::vector<float> by_one_work_item;
  for (const auto& [lanes, stage] : {std::pair(1U, kTile), {32U, kTile}, {8U, 4U}}) {
    const std::string shape = "-D HEAD_DIM=" + std::to_string(head_dim) +
                              " -D GROUP=" + std::to_string(group) +
                              " -D TILE=16 -D STAGE=" + std::to_string(stage) +
                              " -D SPLIT=64 -D WG=" + std::to_string(lanes) + kv;
    const Memory partial = put(std::vector<float>(rows * max_splits * heads * (head_dim + 2), NAN));
    const Memory whole = put(std::vector<float>(q.size(), NAN)),
                 apart = put(std::vector<float>(q.size(), NAN));
    run(kernel("attend", shape + " -D TQ=8 -D SPLITS_APART=0"), grid({lanes, kv_heads, 1}, lanes), put(q),
        k_cache, v_cache, put(tile), put(table), whole, partial, kv_heads, scale, max_splits);
    run(kernel("attend", shape + " -D TQ=1 -D SPLITS_APART=1"),
        grid({lanes * max_splits, kv_heads, rows}, lanes), put(q), k_cache, v_cache, put(single), put(table),
        apart, partial, kv_heads, scale, max_splits);
    run(kernel("attend_combine", shape + " -D TQ=1 -D SPLITS_APART=1", {"attend"}), grid({heads, rows, 1}),
        put(single), partial, apart, heads, max_splits);
    const auto got = get<float>(whole);
    EXPECT_EQ(got, get<float>(apart)) << "a row's result depends on its company";
    for (std::uint32_t r = 0; r < rows; ++r) {
      kernels::reference::AttendArgs args;
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
      std::vector<double> want(heads * head_dim);
      kernels::reference::attend(args, want.data());
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[r * want.size() + i], want[i], 2e-6 + std::abs(want[i]) * 64 * kEpsilon)
            << "row " << r << " value " << i << " lanes " << lanes;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OpenClAttend,
                         testing::Values(AttendCase{1, 1, 2, 1}, AttendCase{4, 2, 24, 37},
                                         AttendCase{3, 1, 64, 64}, AttendCase{8, 2, 128, 333},
                                         AttendCase{1, 1, 32, 1, kernels::DType::q8_0},
                                         AttendCase{4, 2, 96, 37, kernels::DType::q8_0},
                                         AttendCase{3, 1, 64, 64, kernels::DType::q8_0},
                                         AttendCase{8, 2, 128, 333, kernels::DType::q8_0}),
                         [](const auto& i) {
                           return std::string(kernels::to_string(i.param.type)) + "_heads" +
                                  std::to_string(i.param.heads) + "_dim" + std::to_string(i.param.head_dim) +
                                  "_positions" + std::to_string(i.param.positions);
                         });

}  // namespace
}  // namespace flyball::opencl
