// The elementwise ops and attention of every instruction set against the double-precision reference.
#include <cmath>
#include <numeric>

#include "kernels/formats/dequantize.hpp"
#include "kernels/formats/f16.hpp"
#include "kernels/formats/kv_page.hpp"
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
#include "tests/kernels/cpu/support.hpp"
#include "tests/kernels/formats/file_matrix.hpp"

namespace flyball::kernels::test {
namespace {

using Ops = EachIsa;
constexpr std::size_t kLengths[] = {1, 7, 8, 15, 16, 17, 63, 64, 100, 2048};

TEST_P(Ops, RmsNorm) {
  for (const std::size_t dim : kLengths) {
    for (const bool in_place : {false, true}) {
      const std::uint32_t n = 3;
      const auto x = random_floats(n * dim, 1, 3.0F);
      const auto weight = random_floats(dim, 2);
      std::vector<double> expected(n * dim);
      reference::rms_norm(x.data(), weight.data(), n, static_cast<std::uint32_t>(dim), 1e-5F,
                          expected.data());
      Guarded out(n * dim * 4);
      if (in_place) std::memcpy(out.data(), x.data(), n * dim * 4);
      kernels().rms_norm(in_place ? out.floats() : x.data(), weight.data(), n,
                         static_cast<std::uint32_t>(dim), 1e-5F, out.floats());
      EXPECT_TRUE(out.intact());
      for (std::size_t i = 0; i < n * dim; ++i) {
        ASSERT_NEAR(out.floats()[i], expected[i], 8 * kEpsilon * std::fabs(expected[i]) + 1e-30)
            << dim << " " << i;
      }
    }
  }
}

TEST_P(Ops, Rope) {
  for (const RopeStyle style : {RopeStyle::interleaved, RopeStyle::half}) {
    for (const std::uint32_t rope_dim : {8U, 64U, 40U}) {
      const std::uint32_t n_heads = 3, head_dim = 64;
      const auto x = random_floats(n_heads * head_dim, 4);
      const auto angles = random_floats(rope_dim / 2, 5);
      std::vector<float> cos_sin;
      for (const float a : angles) cos_sin.insert(cos_sin.end(), {std::cos(a), std::sin(a)});
      std::vector<double> expected(x.begin(), x.end());
      reference::rope(expected.data(), n_heads, head_dim, rope_dim, cos_sin.data(), style);
      Guarded out(x.size() * 4);
      std::memcpy(out.data(), x.data(), x.size() * 4);
      kernels().rope(out.floats(), n_heads, head_dim, rope_dim, cos_sin.data(), style);
      EXPECT_TRUE(out.intact());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(out.floats()[i], expected[i], 16 * kEpsilon) << i;
      EXPECT_EQ(out.floats()[rope_dim % head_dim == 0 ? 0 : rope_dim],
                rope_dim % head_dim == 0 ? out.floats()[0] : x[rope_dim]);
    }
  }
}

TEST_P(Ops, Glu) {
  for (const Activation activation : {Activation::silu, Activation::gelu})
    for (const std::size_t n : kLengths) {
      auto gate = random_floats(n, 6, 4.0F);
      const auto up = random_floats(n, 7);
      if (n > 64) {
        const float hard[] = {0.0F, -0.0F, 88.0F, -88.0F, 200.0F, -200.0F, 1e-20F, -87.4F};
        std::copy(std::begin(hard), std::end(hard), gate.begin());
      }
      std::vector<double> expected(n);
      reference::glu(activation, gate.data(), up.data(), n, expected.data());
      for (const bool in_place : {false, true}) {
        Guarded out(n * 4);
        if (in_place) std::memcpy(out.data(), gate.data(), n * 4);
        kernels().glu(activation, in_place ? out.floats() : gate.data(), up.data(), n, out.floats());
        EXPECT_TRUE(out.intact());
        for (std::size_t i = 0; i < n; ++i) {
          // Below zero gelu's exponent grows by the cube, and with it what its rounding is worth.
          const double x = gate[i], cube = activation == Activation::gelu && x < 0 ? -x * x * x : 0.0;
          ASSERT_NEAR(out.floats()[i], expected[i], (8 + cube) * kEpsilon * std::fabs(expected[i]) + 1e-30)
              << gate[i];
        }
      }
    }
}

TEST_P(Ops, Softcap) {
  for (const std::size_t n : kLengths) {
    auto x = random_floats(n, 6, 40.0F);
    if (n > 64) {
      const float hard[] = {0.0F, 1e-3F, -1e-3F, 1e4F, -1e4F, 3e38F, -3e38F, INFINITY, -INFINITY};
      std::copy(std::begin(hard), std::end(hard), x.begin());
    }
    std::vector<double> expected(x.begin(), x.end());
    reference::softcap(expected.data(), n, 30.0F);
    Guarded out(n * 4);
    std::memcpy(out.data(), x.data(), n * 4);
    kernels().softcap(out.floats(), n, 30.0F);
    EXPECT_TRUE(out.intact());
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(out.floats()[i], expected[i], 1e-5) << x[i];
  }
}

TEST_P(Ops, NonFiniteValuesAreNotHidden) {
  std::vector<float> gate(20, 1.0F), up(20, 1.0F), out(20);
  gate[3] = NAN;
  up[17] = INFINITY;
  gate[19] = NAN;
  for (const Activation activation : {Activation::silu, Activation::gelu}) {
    kernels().glu(activation, gate.data(), up.data(), 20, out.data());
    EXPECT_TRUE(std::isnan(out[3]));
    EXPECT_TRUE(std::isinf(out[17]));
    EXPECT_TRUE(std::isnan(out[19]));
    EXPECT_TRUE(std::isfinite(out[4]));
  }
  kernels().softcap(out.data(), 20, 3.0F);
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_TRUE(std::isnan(out[19]));
  kernels().rms_norm(gate.data(), up.data(), 1, 16, 1e-5F, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
}

TEST_P(Ops, Add) {
  for (const std::size_t n : kLengths) {
    const auto x = random_floats(n, 8);
    const auto y = random_floats(n, 9);
    std::vector<double> expected(x.begin(), x.end());
    reference::add(expected.data(), y.data(), n);
    Guarded out(n * 4);
    std::memcpy(out.data(), x.data(), n * 4);
    kernels().add(out.floats(), y.data(), n);
    EXPECT_TRUE(out.intact());
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out.floats()[i], static_cast<float>(expected[i]));
    kernels().add(out.floats(), out.floats(), n);  // aliasing: x += x
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out.floats()[i], 2 * static_cast<float>(expected[i]));
  }
}

TEST_P(Ops, AddScaled) {
  for (const std::size_t n : kLengths) {
    const auto x = random_floats(n, 8);
    const auto y = random_floats(n, 9);
    std::vector<double> expected(x.begin(), x.end());
    reference::add_scaled(expected.data(), y.data(), 0.3F, n);
    Guarded out(n * 4);
    std::memcpy(out.data(), x.data(), n * 4);
    kernels().add_scaled(out.floats(), y.data(), 0.3F, n);
    EXPECT_TRUE(out.intact());
    for (std::size_t i = 0; i < n; ++i)
      ASSERT_NEAR(out.floats()[i], expected[i], kEpsilon * (std::fabs(x[i]) + std::fabs(y[i])));
  }
}

TEST_P(Ops, MoeRoute) {
  struct Case {
    std::uint32_t n_experts, n_used;
    float spread;
  };
  for (const Case& c : {Case{1, 1, 1.0F}, Case{8, 2, 1.0F}, Case{8, 8, 1.0F}, Case{128, 8, 3.0F},
                        Case{1024, 64, 2.0F}, Case{60, 4, 200.0F}}) {
    for (const bool ties : {false, true}) {
      auto logits = random_floats(c.n_experts, 14 + c.n_experts, c.spread);
      if (ties)
        for (float& l : logits) l = std::round(l);
      std::vector<std::uint32_t> expected(c.n_used);
      std::vector<double> expected_weights(c.n_used);
      reference::moe_route(logits.data(), c.n_experts, c.n_used, expected.data(), expected_weights.data());
      Guarded experts(c.n_used * 4), weights(c.n_used * 4);
      kernels().moe_route(logits.data(), c.n_experts, c.n_used, static_cast<std::uint32_t*>(experts.data()),
                          weights.floats());
      EXPECT_TRUE(experts.intact() && weights.intact());
      EXPECT_EQ(std::memcmp(experts.data(), expected.data(), c.n_used * 4), 0) << c.n_experts << " " << ties;
      for (std::uint32_t i = 0; i < c.n_used; ++i)
        ASSERT_NEAR(weights.floats()[i], expected_weights[i], 1e-6 + 16 * kEpsilon * c.spread);
    }
  }
}

// Whatever the logits: experts that exist, each once, and weights that show what was wrong.
TEST_P(Ops, MoeRouteOfNonNumbers) {
  for (const std::uint32_t bad : {0U, 3U, 7U, 8U}) {
    auto logits = random_floats(8, 15);
    if (bad < 8) {
      logits[bad] = NAN;
    } else {
      logits.assign(8, NAN);
    }
    std::uint32_t experts[3];
    float weights[3];
    kernels().moe_route(logits.data(), 8, 3, experts, weights);
    EXPECT_TRUE(experts[0] != experts[1] && experts[1] != experts[2] && experts[0] != experts[2]);
    for (const std::uint32_t e : experts) EXPECT_LT(e, 8U);
    for (const float w : weights) EXPECT_TRUE(bad < 8 || std::isnan(w));
  }
}

TEST_P(Ops, StoreF16) {
  for (const std::size_t n : kLengths) {
    auto x = random_floats(n, 10, 100.0F);
    if (n > 16) {
      const float hard[] = {0.0F, -0.0F, 65519.0F, 65520.0F, -1e9F, 0x1p-25F, 0x1.8p-24F, 1.0F + 0x1p-11F};
      std::copy(std::begin(hard), std::end(hard), x.begin());
    }
    std::vector<std::uint16_t> expected(n);
    reference::store_f16(x.data(), n, expected.data());
    Guarded out(n * 2);
    kernels().store_f16(x.data(), n, static_cast<std::uint16_t*>(out.data()));
    EXPECT_TRUE(out.intact());
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), n * 2), 0) << n;
  }
}

TEST_P(Ops, StoreQ8_0) {
  for (const std::size_t n : {32U, 64U, 96U, 128U, 512U}) {
    auto x = random_floats(n, 18, 3.0F);
    if (n > 128) {
      std::fill_n(x.begin(), 32, 0.0F);
      const float hard[] = {1e-36F, 3e-6F, 1e-5F,
                            4e-4F,  1e4F,  3e5F};  // scales that are zero, subnormal, large
      for (std::size_t b = 0; b < std::size(hard); ++b)
        for (std::size_t i = 0; i < 32; ++i) x[32 * (b + 1) + i] *= hard[b];
      for (std::size_t i = 0; i < 32; ++i)  // halves between quants, to even
        x[7 * 32 + i] = i == 0 ? 127.0F : static_cast<float>(i) - 15.5F;
    }
    std::vector<std::int8_t> quants(n);
    std::vector<std::uint16_t> scales(n / 32);
    reference::store_q8_0(x.data(), n, quants.data(), scales.data());
    Guarded got_quants(n), got_scales(n / 16);
    kernels().store_q8_0(x.data(), n, static_cast<std::int8_t*>(got_quants.data()),
                         static_cast<std::uint16_t*>(got_scales.data()));
    EXPECT_TRUE(got_quants.intact() && got_scales.intact());
    EXPECT_EQ(std::memcmp(got_quants.data(), quants.data(), n), 0) << n;
    EXPECT_EQ(std::memcmp(got_scales.data(), scales.data(), n / 16), 0) << n;
    for (std::size_t i = 0; i < n; ++i) {  // half a step, and where scales are subnormal what they lack
      const double scale = f16_to_f32(scales[i / 32]);
      EXPECT_NEAR(scale * quants[i], x[i], std::max(0.5 * scale + std::abs(x[i]) * 1e-3, 127 * 0x1p-25)) << i;
    }
  }
}

// A key that is no number, or too large for the format, must not become one.
TEST_P(Ops, StoreQ8_0KeepsWhatIsNotFiniteVisible) {
  for (const float bad : {NAN, INFINITY, -INFINITY, 1e7F}) {
    for (const std::size_t at : {0U, 13U, 31U}) {
      auto x = random_floats(64, 19);
      x[at] = bad;
      std::int8_t quants[64];
      std::uint16_t scales[2];
      kernels().store_q8_0(x.data(), x.size(), quants, scales);
      EXPECT_FALSE(std::isfinite(f16_to_f32(scales[0]))) << bad << " at " << at;
      EXPECT_TRUE(std::isfinite(f16_to_f32(scales[1])));
      reference::store_q8_0(x.data(), x.size(), quants, scales);
      EXPECT_FALSE(std::isfinite(f16_to_f32(scales[0])));
    }
  }
}

TEST_P(Ops, Embed) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    const std::uint32_t cols = 512;
    const FileMatrix row(type, 1, cols, random_floats(cols, 12));
    std::vector<double> expected(cols);
    reference::embed(type, row.rows(), cols, 0.5F, expected.data());
    Guarded out(cols * 4);
    kernels().embed(type, row.rows(), cols, 0.5F, out.floats());
    EXPECT_TRUE(out.intact());
    for (std::uint32_t c = 0; c < cols; ++c) ASSERT_EQ(out.floats()[c], expected[c]);
  }
}

TEST_P(Ops, ReadSumReadsEveryByteOnce) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{255},
                              std::size_t{256}, std::size_t{1000}, std::size_t{4099}}) {
    std::vector<std::uint8_t> bytes(n);  // exact size: asan sees a byte too far
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{3});
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < n; ++i) expected += std::uint64_t{bytes[i]} << (i % 8 * 8);
    EXPECT_EQ(kernels().read_sum(bytes.data(), n), expected) << n;
  }
}

struct Cache {
  std::vector<std::uint8_t> k, v;
  std::vector<std::uint32_t> table;
  std::vector<float> q;
  cpu::AttendArgs args;
};

// Position `at` of a page.
void store_row(DType type, const float* x, std::uint32_t block_size, std::uint32_t dim, std::uint32_t at,
               std::uint8_t* page) {
  if (type == DType::f16) {
    reference::store_f16(x, dim, reinterpret_cast<std::uint16_t*>(page) + std::size_t{at} * dim);
  } else {
    reference::store_q8_0(x, dim, reinterpret_cast<std::int8_t*>(page) + std::size_t{at} * dim,
                          reinterpret_cast<std::uint16_t*>(page + kv_scales_at(block_size, dim, at)));
  }
}

// The pages of positions beyond n_positions, and pages of nobody, hold NaNs.
Cache make_cache(std::uint32_t n_heads, std::uint32_t n_kv, std::uint32_t dim, std::uint32_t block_size,
                 std::uint32_t n_positions, DType type = DType::f16) {
  Cache c;
  const std::uint32_t used = (n_positions + block_size - 1) / block_size;
  const std::uint32_t n_blocks = 2 * used + 1;
  const std::size_t page_bytes = kv_page_bytes(type, block_size, dim);
  c.k.assign(n_blocks * n_kv * page_bytes, 0x7E);  // 0x7E7E: no number
  c.v = c.k;
  const auto values = random_floats(2 * std::size_t{n_positions} * n_kv * dim, 31 + n_positions);
  const float* next = values.data();
  for (std::uint32_t b = 0; b < used; ++b)
    c.table.push_back(2 * (used - 1 - b) + 1);  // backwards, every other
  for (std::uint32_t p = 0; p < n_positions; ++p) {
    for (std::uint32_t h = 0; h < n_kv; ++h, next += 2 * std::size_t{dim}) {
      const std::size_t page = (std::size_t{c.table[p / block_size]} * n_kv + h) * page_bytes;
      store_row(type, next, block_size, dim, p % block_size, c.k.data() + page);
      store_row(type, next + dim, block_size, dim, p % block_size, c.v.data() + page);
    }
  }
  c.q = random_floats(std::size_t{n_heads} * dim, 33, 2.0F);
  c.args = {.q = c.q.data(),
            .k_blocks = c.k.data(),
            .v_blocks = c.v.data(),
            .block_table = c.table.data(),
            .block_size = block_size,
            .n_positions = n_positions,
            .n_heads = n_heads,
            .n_kv_heads = n_kv,
            .head_dim = dim,
            .scale = 1.0F / std::sqrt(static_cast<float>(dim)),
            .kv_type = type};
  return c;
}

std::vector<double> reference_of(const Cache& c) {
  const cpu::AttendArgs& a = c.args;
  std::vector<double> out(c.q.size());
  reference::attend({a.q, a.k_blocks, a.v_blocks, a.block_table, a.block_size, a.n_positions, a.n_heads,
                     a.n_kv_heads, a.head_dim, a.scale, a.kv_type, a.first_position, a.cap},
                    out.data());
  return out;
}

struct AttendCase {
  std::uint32_t n_heads, n_kv, dim, block_size, n_positions, first = 0;
  float cap = 0.0F;
};

void expect_as_the_reference(const cpu::Kernels& kernels, const AttendCase& t, DType type) {
  Cache c = make_cache(t.n_heads, t.n_kv, t.dim, t.block_size, t.n_positions, type);
  c.args.first_position = t.first;
  c.args.cap = t.cap;
  const auto expected = reference_of(c);
  Guarded out(expected.size() * 4);
  c.args.out = out.floats();
  kernels.attend(c.args, {0, t.n_heads});
  EXPECT_TRUE(out.intact());
  // Weights sum to one; scores are off by at most head_dim roundings of |q||k| * scale, exp turns that
  // relative.
  const double tolerance = 4.0 * kEpsilon * (t.dim + 16);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(out.floats()[i], expected[i], 4 * tolerance)
        << to_string(type) << " " << t.dim << " of " << t.n_positions << " at " << i;
  }
  // Split by groups of heads, as threads do: the same bits.
  std::vector<float> split(expected.size());
  c.args.out = split.data();
  const std::uint32_t group = t.n_heads / t.n_kv;
  for (std::uint32_t h = 0; h < t.n_heads; h += group) kernels.attend(c.args, {h, h + group});
  EXPECT_EQ(std::memcmp(split.data(), out.data(), split.size() * 4), 0);
}

TEST_P(Ops, Attend) {
  const AttendCase cases[] = {
      {1, 1, 8, 16, 1},     {4, 4, 24, 16, 17},  {8, 2, 64, 16, 65}, {6, 2, 128, 32, 200}, {7, 1, 40, 8, 63},
      {32, 4, 64, 16, 129}, {20, 1, 16, 16, 70}, {2, 1, 256, 1, 5},  {5, 5, 72, 64, 300},  {9, 3, 80, 5, 64}};
  for (const AttendCase& t : cases) expect_as_the_reference(kernels(), t, DType::f16);
}

TEST_P(Ops, AttendQ8_0) {
  const AttendCase cases[] = {{1, 1, 32, 16, 1},
                              {4, 4, 32, 16, 17},
                              {8, 2, 64, 16, 65},
                              {6, 2, 128, 32, 200},
                              {7, 1, 96, 8, 63},
                              {32, 4, 64, 16, 129},
                              {20, 1, 32, 16, 70},
                              {2, 1, 256, 1, 5},
                              {5, 5, 160, 64, 300},
                              {9, 3, 96, 5, 64},
                              {2, 1, cpu::kMaxQuantizedHeadDim, 7, 100}};
  for (const AttendCase& t : cases) expect_as_the_reference(kernels(), t, DType::q8_0);
}

// What lies before the window may be anything; scores beyond the cap end at it.
TEST_P(Ops, AttendInAWindowWithACap) {
  for (const DType type : {DType::f16, DType::q8_0})
    for (const AttendCase& t :
         {AttendCase{4, 2, 32, 16, 1, 0, 2.0F}, AttendCase{4, 2, 64, 16, 200, 137},
          AttendCase{8, 2, 64, 16, 129, 128}, AttendCase{2, 1, 256, 5, 300, 36, 4.0F},
          AttendCase{6, 3, 96, 16, 65, 1, 0.5F}, AttendCase{4, 4, 32, 16, 64, 0, 50.0F}})
      expect_as_the_reference(kernels(), t, type);
  Cache c = make_cache(2, 1, 32, 16, 40);
  std::fill_n(c.k.begin() + static_cast<std::ptrdiff_t>(c.table[0] * kv_page_bytes(DType::f16, 16, 32)), 64,
              0x7E);
  c.args.first_position = 1;  // position 0 is no number now
  std::vector<float> out(c.q.size());
  c.args.out = out.data();
  kernels().attend(c.args, {0, 2});
  for (const float x : out) EXPECT_TRUE(std::isfinite(x));
}

TEST_P(Ops, AttendWithScoresFarApart) {
  for (const DType type : {DType::f16, DType::q8_0}) {
    Cache c = make_cache(2, 1, 64, 16, 150, type);
    for (float& q : c.q) q *= 100.0F;  // one position takes nearly all; the running maximum moves often
    const auto expected = reference_of(c);
    std::vector<float> out(c.q.size());
    c.args.out = out.data();
    kernels().attend(c.args, {0, 2});
    // Scores reach 1e3: rounding alone moves them by 1e3 * epsilon * a few.
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 2e-3) << i;
  }
}

TEST_P(Ops, AttendLetsNanThrough) {
  for (const DType type : {DType::f16, DType::q8_0}) {
    Cache c = make_cache(2, 2, 32, 16, 20, type);
    c.q[3] = NAN;  // head 0
    std::vector<float> out(c.q.size());
    c.args.out = out.data();
    kernels().attend(c.args, {0, 2});
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isfinite(out[32]));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Ops, all_isas(), isa_name);

TEST(Dispatch, BestIsSupported) {
  EXPECT_TRUE(cpu::supported(cpu::Isa::scalar));
  EXPECT_TRUE(cpu::supported(cpu::best_isa()));
  for (const cpu::Isa isa : cpu::built_isas()) {
    if (!cpu::supported(isa)) continue;
    const cpu::Kernels& k = cpu::kernels_for(isa);
    EXPECT_EQ(k.isa, isa);
    EXPECT_TRUE(k.packed_bytes && k.pack && k.row_group && k.activation_bytes && k.prepare_activations &&
                k.matmul && k.embed && k.rms_norm && k.rope && k.glu && k.softcap && k.add && k.add_scaled &&
                k.moe_route && k.store_f16 && k.store_q8_0 && k.attend && k.read_sum);
  }
}

}  // namespace
}  // namespace flyball::kernels::test
