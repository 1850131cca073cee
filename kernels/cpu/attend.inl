// Softmax attention of one token over a paged KV cache, online [arXiv:1805.02867, 2205.14135]: tiles of
// positions in order, query heads of one KV head together so that each K and V row is converted once for
// kAttendHeads heads. Included by ops_<isa>.cpp, after a simd_*.hpp.
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/kernels.hpp"
#include "kernels/formats/kv_page.hpp"
// clang-format off
#include "kernels/cpu/cap.inl"
// clang-format on

namespace flyball::kernels::cpu {
namespace {

constexpr int kTilePositions = 64;    // K and V rows of a tile at head_dim 128: 32 KiB, an L1
constexpr int kMaxHeadsPerPass = 16;  // state on the stack; larger groups take several passes over the cache

// A tile's rows of keys or of values, [head_dim] each, read as f32.
struct F16Rows {
  static constexpr DType kType = DType::f16;
  static constexpr bool kWholeVectors = false;  // head_dim is any number
  struct Row {
    const std::uint16_t* values;
  };
  Row rows[kTilePositions];

  // Rows [at, at + n) of the tile are the page's positions from `first` on.
  void take(const AttendArgs& a, const std::uint8_t* page, std::uint32_t first, int at, int n) {
    const auto* values = reinterpret_cast<const std::uint16_t*>(page) + std::size_t{first} * a.head_dim;
    for (int i = 0; i < n; ++i) rows[at + i].values = values + static_cast<std::size_t>(i) * a.head_dim;
  }
  FLYBALL_INLINE Simd::F load(Row row, int d) { return Simd::load_f16(row.values + d); }
  FLYBALL_INLINE Simd::F load_n(Row row, int d, int n) { return Simd::load_f16_n(row.values + d, n); }
};

struct Q8Rows {
  static constexpr DType kType = DType::q8_0;
  static constexpr bool kWholeVectors = true;  // 32 values have a scale, and no vector is longer
  struct Row {
    const std::int8_t* quants;
    const float* scales;
  };
  Row rows[kTilePositions];
  alignas(64) float scales[kTilePositions * kMaxQuantizedHeadDim / kKvScaleValues];

  void take(const AttendArgs& a, const std::uint8_t* page, std::uint32_t first, int at, int n) {
    const auto* quants = reinterpret_cast<const std::int8_t*>(page) + std::size_t{first} * a.head_dim;
    const std::size_t row_scales = a.head_dim / kKvScaleValues;
    float* to = scales + static_cast<std::size_t>(at) * row_scales;
    for (int i = 0; i < n; ++i) {
      const auto row = static_cast<std::size_t>(i);
      rows[at + i] = {quants + row * a.head_dim, to + row * row_scales};
    }
    const std::uint8_t* from = page + kv_scales_at(a.block_size, a.head_dim, first);
    int left = n * static_cast<int>(row_scales);
    for (; left >= Simd::kLanes; left -= Simd::kLanes, from += 2 * Simd::kLanes, to += Simd::kLanes)
      Simd::store(to, Simd::load_f16(from));
    if (left > 0) Simd::store_n(to, Simd::load_f16_n(from, left), left);
  }
  FLYBALL_INLINE Simd::F load(Row row, int d) {
    const float scale = row.scales[static_cast<std::uint32_t>(d) / kKvScaleValues];
    return Simd::mul(Simd::load_i8(row.quants + d), Simd::set1(scale));
  }
};

template <class Rows>
struct AttendTile {
  Rows k, v;
  int n;  // positions present
};

struct HeadState {
  float max;
  float sum;      // of exp(score - max)
  float rescale;  // of what earlier tiles summed
};

struct AttendPass {
  const AttendArgs& args;
  std::uint32_t first_head;
  int n_heads;
  HeadState state[kMaxHeadsPerPass];
  alignas(64) float scores[kMaxHeadsPerPass][kTilePositions];
};

// scores[h][p] = scale * q[h] . k[p], capped, for H heads from `head` and all positions of the tile.
template <int H, class Rows>
[[gnu::noinline]] void score_tile(AttendPass& pass, int head, const AttendTile<Rows>& tile) {
  constexpr int kLanes = Simd::kLanes;
  constexpr int P = kLanes / H;  // kLanes sums, one lane of the result each
  const AttendArgs& a = pass.args;
  const auto dim = static_cast<int>(a.head_dim);
  const float* q = a.q + std::size_t{pass.first_head + static_cast<std::uint32_t>(head)} * a.head_dim;
  for (int p0 = 0; p0 < tile.n; p0 += P) {
    typename Rows::Row k[P];
    for (int p = 0; p < P; ++p)
      k[p] = tile.k.rows[p0 + p < tile.n ? p0 + p : tile.n - 1];  // surplus results are dropped
    Simd::F sums[kLanes];
    for (int i = 0; i < kLanes; ++i) sums[i] = Simd::zero();
    int d = 0;
    for (; d + kLanes <= dim; d += kLanes) {
      Simd::F qv[H];
      for (int h = 0; h < H; ++h) qv[h] = Simd::load(q + h * dim + d);
      for (int p = 0; p < P; ++p) {
        const Simd::F kv = Rows::load(k[p], d);
        for (int h = 0; h < H; ++h) sums[h * P + p] = Simd::fma(qv[h], kv, sums[h * P + p]);
      }
    }
    if constexpr (!Rows::kWholeVectors) {
      for (int p = 0; p < P && d < dim; ++p) {
        const Simd::F kv = Rows::load_n(k[p], d, dim - d);
        for (int h = 0; h < H; ++h) {
          sums[h * P + p] = Simd::fma(Simd::load_n(q + h * dim + d, dim - d), kv, sums[h * P + p]);
        }
      }
    }
    float lanes[kLanes];
    const Simd::F scores = Simd::mul(Simd::reduce_lanes(sums), Simd::set1(a.scale));
    Simd::store(lanes, a.cap == 0.0F ? scores : capped(scores, a.cap));
    // kTilePositions is a multiple of P: the surplus stays within the row.
    for (int h = 0; h < H; ++h) {
      for (int p = 0; p < P; ++p) pass.scores[head + h][p0 + p] = lanes[h * P + p];
    }
  }
}

// Scores to exp(score - max); the head's running maximum and sum move on.
void soften(AttendPass& pass, int head, int n) {
  constexpr int kLanes = Simd::kLanes;
  float* s = pass.scores[head];
  HeadState& state = pass.state[head];
  float max = state.max;
  for (int p = 0; p < n; ++p) max = s[p] > max ? s[p] : max;
  const int padded = (n + kLanes - 1) / kLanes * kLanes;
  for (int p = n; p < padded; ++p) s[p] = max;
  const Simd::F old = exp_of(Simd::set1(state.max - max));
  float first[kLanes];
  Simd::store(first, old);
  state.rescale = first[0];
  state.max = max;
  for (int p = 0; p < padded; p += kLanes) {
    Simd::store(s + p, exp_of(Simd::sub(Simd::load(s + p), Simd::set1(max))));
  }
  for (int p = n; p < padded; ++p) s[p] = 0.0F;
  Simd::F sum = Simd::zero();
  for (int p = 0; p < padded; p += kLanes) sum = Simd::add(sum, Simd::load(s + p));
  state.sum = state.sum * state.rescale + Simd::reduce_add(sum);
}

// out[h] = out[h] * rescale + sum_p scores[h][p] * v[p] for H heads and D vectors of head_dim from d.
// n: lanes of the last vector that head_dim has.
template <int H, int D, class Rows>
[[gnu::noinline]] void mix_columns(AttendPass& pass, int head, const AttendTile<Rows>& tile, int d, int n) {
  constexpr int kLanes = Simd::kLanes;
  const std::uint32_t dim = pass.args.head_dim;
  float* out = pass.args.out + std::size_t{pass.first_head + static_cast<std::uint32_t>(head)} * dim + d;
  Simd::F sums[H][D];
  for (int h = 0; h < H; ++h) {
    const Simd::F rescale = Simd::set1(pass.state[head + h].rescale);
    for (int i = 0; i < D; ++i) {
      const float* from = out + h * dim + i * kLanes;
      sums[h][i] = Simd::mul(i + 1 < D || n == kLanes ? Simd::load(from) : Simd::load_n(from, n), rescale);
    }
  }
  for (int p = 0; p < tile.n; ++p) {
    const typename Rows::Row row = tile.v.rows[p];
    Simd::F v[D];
    for (int i = 0; i < D; ++i) {
      if constexpr (Rows::kWholeVectors) {
        v[i] = Rows::load(row, d + i * kLanes);
      } else {
        v[i] =
            i + 1 < D || n == kLanes ? Rows::load(row, d + i * kLanes) : Rows::load_n(row, d + i * kLanes, n);
      }
    }
    for (int h = 0; h < H; ++h) {
      const Simd::F weight = Simd::set1(pass.scores[head + h][p]);
      for (int i = 0; i < D; ++i) sums[h][i] = Simd::fma(weight, v[i], sums[h][i]);
    }
  }
  for (int h = 0; h < H; ++h) {
    for (int i = 0; i < D; ++i) {
      float* to = out + h * dim + i * kLanes;
      if (i + 1 < D || n == kLanes) {
        Simd::store(to, sums[h][i]);
      } else {
        Simd::store_n(to, sums[h][i], n);
      }
    }
  }
}

template <int H, class Rows>
void mix_tile(AttendPass& pass, int head, const AttendTile<Rows>& tile) {
  constexpr int kLanes = Simd::kLanes;
  constexpr int D = Simd::kAttendVectors;
  const auto dim = static_cast<int>(pass.args.head_dim);
  int d = 0;
  for (; d + D * kLanes <= dim; d += D * kLanes) mix_columns<H, D>(pass, head, tile, d, kLanes);
  for (; d + kLanes <= dim; d += kLanes) mix_columns<H, 1>(pass, head, tile, d, kLanes);
  if (d < dim) mix_columns<H, 1>(pass, head, tile, d, dim - d);
}

template <int H, class Rows>
void attend_tile(AttendPass& pass, int head, const AttendTile<Rows>& tile) {
  for (; head + H <= pass.n_heads; head += H) {
    score_tile<H>(pass, head, tile);
    for (int h = 0; h < H; ++h) soften(pass, head + h, tile.n);
    mix_tile<H>(pass, head, tile);
  }
  if constexpr (H > 1) {
    if (head < pass.n_heads) attend_tile<H / 2>(pass, head, tile);
  }
}

// Up to kMaxHeadsPerPass query heads that share KV head kv_head.
template <class Rows>
void attend_pass(const AttendArgs& args, std::uint32_t kv_head, std::uint32_t first_head, int n_heads) {
  AttendPass pass{args, first_head, n_heads, {}, {}};
  constexpr float kLowest = -3.4e38F;  // below any score; finite, so that max - max is never NaN
  for (int h = 0; h < n_heads; ++h) pass.state[h] = {kLowest, 0.0F, 0.0F};
  float* out = args.out + std::size_t{first_head} * args.head_dim;
  const std::size_t n_out = static_cast<std::size_t>(n_heads) * args.head_dim;
  for (std::size_t i = 0; i < n_out; ++i) out[i] = 0.0F;

  const std::size_t page_bytes = kv_page_bytes(Rows::kType, args.block_size, args.head_dim);
  AttendTile<Rows> tile;
  for (std::uint32_t first = args.first_position; first < args.n_positions; first += kTilePositions) {
    const std::uint32_t left = args.n_positions - first;
    tile.n = static_cast<int>(left < kTilePositions ? left : kTilePositions);
    std::uint32_t block = first / args.block_size;
    std::uint32_t in_block = first % args.block_size;
    for (int p = 0; p < tile.n; ++block, in_block = 0) {
      const auto there = static_cast<int>(args.block_size - in_block);
      const int n = there < tile.n - p ? there : tile.n - p;
      const std::size_t page =
          (std::size_t{args.block_table[block]} * args.n_kv_heads + kv_head) * page_bytes;
      tile.k.take(args, static_cast<const std::uint8_t*>(args.k_blocks) + page, in_block, p, n);
      tile.v.take(args, static_cast<const std::uint8_t*>(args.v_blocks) + page, in_block, p, n);
      p += n;
    }
    attend_tile<Simd::kAttendHeads>(pass, 0, tile);
  }
  for (int h = 0; h < n_heads; ++h) {
    const float inverse = 1.0F / pass.state[h].sum;
    for (std::uint32_t d = 0; d < args.head_dim; ++d) *out++ *= inverse;
  }
}

void attend(const AttendArgs& args, Range heads) {
  const std::uint32_t group = args.n_heads / args.n_kv_heads;
  while (heads.begin < heads.end) {
    const std::uint32_t kv_head = heads.begin / group;
    const std::uint32_t group_end = (kv_head + 1) * group;
    std::uint32_t n = (group_end < heads.end ? group_end : heads.end) - heads.begin;
    n = n < kMaxHeadsPerPass ? n : kMaxHeadsPerPass;
    if (args.kv_type == DType::q8_0) {
      attend_pass<Q8Rows>(args, kv_head, heads.begin, static_cast<int>(n));
    } else {
      attend_pass<F16Rows>(args, kv_head, heads.begin, static_cast<int>(n));
    }
    heads.begin += n;
  }
}

}  // namespace
}  // namespace flyball::kernels::cpu
