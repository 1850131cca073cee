// matmul for one ISA: y[t, r] = sum_c x[t, c] * w[r, c] over packed row groups.
// Quantized weights meet activations quantized to int8 with one f32 scale for the columns of a weight block
// (32; 256 of K-quants and IQ4_XS), so that both engines round alike where llama.cpp reads the same file. Sums of 32
// (Q3_K and Q6_K: 16) products are exact integers, then f32 in order of columns: an output element is the same sum in
// the same order whatever tile it falls in, and depends neither on the batch nor on how rows are split.
// Included by matmul_<isa>.cpp.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/kernels.hpp"
#include "kernels/formats/nibble_values.hpp"
#include "kernels/formats/row_groups.hpp"
// clang-format off
#include "kernels/cpu/matmul_formats.inl"
// clang-format on

namespace flyball::kernels::cpu {
namespace {

template <int N>
struct Index {
  static constexpr int value = N;
};
template <typename Body, int... kIndices>
FLYBALL_INLINE void unroll_over(std::integer_sequence<int, kIndices...>, Body&& body) {
  (body(Index<kIndices>{}), ...);
}
// body(Index<0>), ..., body(Index<kCount - 1>): indices the compiler must know, for shifts and registers.
template <int kCount, typename Body>
FLYBALL_INLINE void unroll(Body&& body) {
  unroll_over(std::make_integer_sequence<int, kCount>{}, body);
}
#define FLYBALL_LAMBDA __attribute__((always_inline))

// ---- activations ------------------------------------------------------------------------------------------
// Quantized activations: one record for each token and step of 32 columns, H = Format::kHalves.
// clang-format off
//   at         bytes  type  value
//   0          4      f32   scale of the weight block's columns, equal in all records of the block
//   4          4 * H  i32   for each half: -offset * sum(q); f32 -scale * sum(q) where the format has minima
//   4 + 4 * H  32     int8  q, in order of columns
// clang-format on
// Tokens follow one another at a stride of whole cache lines. Float activations: f32, the same stride rule.
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t round_to_lines(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

template <class Format>
constexpr std::size_t kRecordBytes = 4 + 4 * Format::kHalves + 32;

template <class Format>
constexpr std::size_t int_stride(std::uint32_t cols) {
  return round_to_lines(cols / 32 * kRecordBytes<Format>);
}
constexpr std::size_t float_stride(std::uint32_t cols) {
  return round_to_lines(std::size_t{cols} * 4);
}

FLYBALL_INLINE float read_f32(const std::uint8_t* p) {
  float x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}
FLYBALL_INLINE std::int32_t read_i32(const std::uint8_t* p) {
  std::int32_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

template <class Format>
void quantize_token(const float* x, std::uint32_t cols, std::uint8_t* record) {
  constexpr std::uint32_t kBlock = 32 * Format::kSteps;
  constexpr float kSmallest = 1e-36F;  // a peak below this is zero: the inverse of its scale would overflow
  for (const float* const end = x + cols; x < end;) {
    Simd::F peak = Simd::zero();
    Simd::F bad = Simd::zero();  // NaN where a value is not finite: a maximum may drop it, a sum does not
    for (std::uint32_t c = 0; c < kBlock; c += kLanes) {
      const Simd::F v = Simd::load(x + c);
      peak = Simd::max(peak, Simd::abs(v));
      bad = Simd::fma(v, Simd::zero(), bad);
    }
    const float max = Simd::reduce_max(peak);
    const float scale = max / 127.0F + Simd::reduce_add(bad);
    const Simd::F inverse = Simd::set1(max > kSmallest ? 127.0F / max : 0.0F);
    for (int step = 0; step < Format::kSteps; ++step, x += 32, record += kRecordBytes<Format>) {
      std::int32_t sums[2] = {0, 0};
      std::int8_t q[32];
      for (int i = 0; i < 32; i += kLanes) {
        // max gives its second operand where the first is NaN: every lane has an integer.
        const Simd::I rounded =
            Simd::round_to_int(Simd::max(Simd::mul(Simd::load(x + i), inverse), Simd::set1(-127.0F)));
        Simd::store_i8(q + i, rounded);
        sums[i / 16] += Simd::reduce_add(rounded);
      }
      if constexpr (Format::kHalves == 1) sums[0] += sums[1];
      std::memcpy(record, &scale, 4);
      for (int h = 0; h < Format::kHalves; ++h) {
        if constexpr (Format::kHasMin) {
          const float negated = -scale * static_cast<float>(sums[h]);
          std::memcpy(record + 4 + 4 * h, &negated, 4);
        } else {
          const std::int32_t correction = -Format::kOffset * sums[h];
          std::memcpy(record + 4 + 4 * h, &correction, 4);
        }
      }
      std::memcpy(record + 4 + 4 * Format::kHalves, q, 32);
    }
  }
}

// ---- tiles: kGroup rows by T tokens -----------------------------------------------------------------------
struct TileOut {
  float* y;  // first token, first row of the group
  std::size_t ldy;
  std::uint32_t rows;  // present in the group
};

template <int T>
FLYBALL_INLINE void store_tile(const TileOut& out, const Simd::F (&sum)[2][T]) {
  for (int t = 0; t < T; ++t) {
    float* y = out.y + static_cast<std::size_t>(t) * out.ldy;
    for (int g = 0; g < 2; ++g) {
      const int rows = static_cast<int>(out.rows) - g * kLanes;
      if (rows >= kLanes) {
        Simd::store(y + g * kLanes, sum[g][t]);
      } else if (rows > 0) {
        Simd::store_n(y + g * kLanes, sum[g][t], rows);
      }
    }
  }
}

// One half (or the whole) of a step: exact integer dots of kQuads quads, scaled into sum.
template <class Format, int T, int kHalf>
FLYBALL_INLINE void int_half(const Head& head, const std::uint8_t* step, const std::uint8_t* record,
                             std::size_t stride, Simd::F (&sum)[2][T]) {
  constexpr int kQuads = 8 / Format::kHalves;
  constexpr int kHalfLimit = Simd::quads_per_half(Format::kMaxQuant);
  constexpr int kChunk = kQuads < kHalfLimit ? kQuads : kHalfLimit;
  Simd::I total[2][T];
  unroll<T>([&](auto t) FLYBALL_LAMBDA {
    const Simd::I start = Format::kHasMin || Format::kOffset == 0
                              ? Simd::set1_i32(0)
                              : Simd::set1_i32(read_i32(record + t.value * stride + 4 + 4 * kHalf));
    total[0][t.value] = start;
    total[1][t.value] = start;
  });
  unroll<kQuads / kChunk>([&](auto chunk) FLYBALL_LAMBDA {
    Simd::Half part[2][T];
    unroll<T>([&](auto t) FLYBALL_LAMBDA {
      part[0][t.value] = Simd::begin(total[0][t.value]);
      part[1][t.value] = Simd::begin(total[1][t.value]);
    });
    unroll<kChunk>([&](auto in_chunk) FLYBALL_LAMBDA {
      constexpr int kQuad = kHalf * kQuads + chunk.value * kChunk + in_chunk.value;
      const Simd::I w0 = Format::template quad<kQuad>(step, 0);
      const Simd::I w1 = Format::template quad<kQuad>(step, 1);
      unroll<T>([&](auto t) FLYBALL_LAMBDA {
        const Simd::I a =
            Simd::broadcast_quad(record + t.value * stride + 4 + 4 * Format::kHalves + 4 * kQuad);
        if constexpr (Format::kSigned) {
          part[0][t.value] = Simd::dot_signed(part[0][t.value], w0, a);
          part[1][t.value] = Simd::dot_signed(part[1][t.value], w1, a);
        } else {
          part[0][t.value] = Simd::dot(part[0][t.value], w0, a);
          part[1][t.value] = Simd::dot(part[1][t.value], w1, a);
        }
      });
    });
    unroll<T>([&](auto t) FLYBALL_LAMBDA {
      total[0][t.value] = Simd::end(total[0][t.value], part[0][t.value]);
      total[1][t.value] = Simd::end(total[1][t.value], part[1][t.value]);
    });
  });
  const Simd::F scale[2] = {Format::scale(head, step, kHalf, 0), Format::scale(head, step, kHalf, 1)};
  unroll<T>([&](auto t) FLYBALL_LAMBDA {
    const Simd::F token_scale = Simd::set1(read_f32(record + t.value * stride));
    for (int g = 0; g < 2; ++g) {
      sum[g][t.value] =
          Simd::fma(Simd::to_f32(total[g][t.value]), Simd::mul(scale[g], token_scale), sum[g][t.value]);
    }
  });
  if constexpr (Format::kHasMin) {
    const Simd::F min[2] = {Format::min(head, step, 0), Format::min(head, step, 1)};
    unroll<T>([&](auto t) FLYBALL_LAMBDA {
      const Simd::F negated = Simd::set1(read_f32(record + t.value * stride + 4));
      for (int g = 0; g < 2; ++g) sum[g][t.value] = Simd::fma(min[g], negated, sum[g][t.value]);
    });
  }
}

template <class Format, int T>
[[gnu::noinline]] void int_tile(const std::uint8_t* w, std::uint32_t cols, const std::uint8_t* record,
                                std::size_t stride, TileOut out) {
  Simd::F sum[2][T];
  unroll<T>([&](auto t) FLYBALL_LAMBDA { sum[0][t.value] = sum[1][t.value] = Simd::zero(); });
  for (std::uint32_t c = 0; c < cols; c += 32 * Format::kSteps) {
    const Head head = Format::head(w);
    w += Format::kHeadBytes;
    for (int s = 0; s < Format::kSteps; ++s) {
      unroll<Format::kHalves>(
          [&](auto half) FLYBALL_LAMBDA { int_half<Format, T, half.value>(head, w, record, stride, sum); });
      w += Format::kStepBytes;
      record += kRecordBytes<Format>;
    }
  }
  store_tile(out, sum);
}

template <class Format, int T>
[[gnu::noinline]] void float_tile(const std::uint8_t* w, std::uint32_t cols, const std::uint8_t* x,
                                  std::size_t stride, TileOut out) {
  Simd::F sum[2][T];
  unroll<T>([&](auto t) FLYBALL_LAMBDA { sum[0][t.value] = sum[1][t.value] = Simd::zero(); });
  for (std::uint32_t c = 0; c < cols; ++c, w += kGroup * Format::kBytes, x += 4) {
    const Simd::F w0 = Format::load(w);
    const Simd::F w1 = Format::load(w + kLanes * Format::kBytes);
    unroll<T>([&](auto t) FLYBALL_LAMBDA {
      const Simd::F a = Simd::set1(read_f32(x + t.value * stride));
      sum[0][t.value] = Simd::fma(w0, a, sum[0][t.value]);
      sum[1][t.value] = Simd::fma(w1, a, sum[1][t.value]);
    });
  }
  store_tile(out, sum);
}

// ---- loops over tiles -------------------------------------------------------------------------------------
struct TileArgs {
  const std::uint8_t* w;  // the group
  std::uint32_t cols;
  const std::uint8_t* activations;
  std::size_t stride;
};

template <class Format>
struct IntTiles {
  static constexpr int kTokens = Simd::kIntTileTokens;
  static constexpr std::size_t group_bytes(std::uint32_t cols) {
    return std::size_t{cols} / (32 * Format::kSteps) *
           (Format::kHeadBytes + Format::kSteps * Format::kStepBytes);
  }
  static constexpr std::size_t stride(std::uint32_t cols) { return int_stride<Format>(cols); }
  static void prepare(const float* x, std::uint32_t cols, std::uint8_t* out) {
    quantize_token<Format>(x, cols, out);
  }
  template <int T>
  FLYBALL_INLINE void run(const TileArgs& a, std::size_t token, const TileOut& out) {
    int_tile<Format, T>(a.w, a.cols, a.activations + token * a.stride, a.stride, out);
  }
};

template <class Format>
struct FloatTiles {
  static constexpr int kTokens = Simd::kFloatTileTokens;
  static constexpr std::size_t group_bytes(std::uint32_t cols) {
    return std::size_t{cols} * kGroup * Format::kBytes;
  }
  static constexpr std::size_t stride(std::uint32_t cols) { return float_stride(cols); }
  static void prepare(const float* x, std::uint32_t cols, std::uint8_t* out) {
    std::memcpy(out, x, std::size_t{cols} * 4);
  }
  template <int T>
  FLYBALL_INLINE void run(const TileArgs& a, std::size_t token, const TileOut& out) {
    float_tile<Format, T>(a.w, a.cols, a.activations + token * a.stride, a.stride, out);
  }
};

constexpr int next_smaller_tile(int tokens) {
  return tokens > 4 ? 4 : tokens / 2;
}

// Tokens [begin, end) of one group in tiles of T, the rest in smaller ones.
template <class Tiles, int T>
void run_tokens(const TileArgs& args, std::size_t begin, std::size_t end, TileOut out) {
  float* const y = out.y;
  for (; begin + T <= end; begin += T) {
    out.y = y + begin * out.ldy;
    Tiles::template run<T>(args, begin, out);
  }
  if constexpr (T > 1) {
    out.y = y;
    if (begin < end) run_tokens<Tiles, next_smaller_tile(T)>(args, begin, end, out);
  }
}

// Activations of one pass over the row groups stay in a 1 MiB L2 (Zen 4; Intel has more) beside a group of
// weights.
constexpr std::size_t kActivationBytesPerPass = 384 * 1024;

template <class Tiles>
void run_matmul(const void* packed, std::uint32_t rows, std::uint32_t cols, const void* prepared,
                std::uint32_t n_tokens, float* y, std::uint32_t ldy, Range range) {
  constexpr std::size_t kTile = Tiles::kTokens;
  const std::size_t stride = Tiles::stride(cols);
  const std::size_t fit = kActivationBytesPerPass / (stride + 1) / kTile * kTile;
  const std::size_t pass = fit > kTile ? fit : kTile;
  for (std::size_t first = 0; first < n_tokens; first += pass) {
    const std::size_t last = first + pass < n_tokens ? first + pass : n_tokens;
    for (std::size_t row = range.begin; row < range.end; row += kGroup) {
      const std::size_t end = range.end < rows ? range.end : rows;
      const std::size_t present = end - row < kGroup ? end - row : kGroup;
      const TileArgs args{static_cast<const std::uint8_t*>(packed) + row / kGroup * Tiles::group_bytes(cols),
                          cols, static_cast<const std::uint8_t*>(prepared), stride};
      run_tokens<Tiles, Tiles::kTokens>(args, first, last,
                                        {y + row, ldy, static_cast<std::uint32_t>(present)});
    }
  }
}

// ---- the table's entries ----------------------------------------------------------------------------------
// use(Tiles) with the tiles of a weight's type.
template <class Use>
auto with_tiles(DType type, Use&& use) {
  switch (type) {
#define FLYBALL_FLOATS(type, NAME, ...) \
  case DType::type:                     \
    return use(FloatTiles<Format##NAME>());
#define FLYBALL_BLOCKS(type, NAME, ...) \
  case DType::type:                     \
    return use(IntTiles<Format##NAME>());
#define FLYBALL_AFFINE(type, NAME, bits, group) \
  case DType::type:                             \
    return use(IntTiles<FormatAffine<bits, group>>());
    FLYBALL_FORMATS(FLYBALL_FLOATS, FLYBALL_BLOCKS, FLYBALL_AFFINE)
#undef FLYBALL_FLOATS
#undef FLYBALL_BLOCKS
#undef FLYBALL_AFFINE
  }
  __builtin_unreachable();
}

void matmul(DType type, const void* w, std::uint32_t rows, std::uint32_t cols, const void* prepared,
            std::uint32_t n_tokens, float* y, std::uint32_t ldy, Range range) {
  with_tiles(type, [&](auto tiles) {
    run_matmul<decltype(tiles)>(w, rows, cols, prepared, n_tokens, y, ldy, range);
  });
}

std::size_t activation_bytes(DType type, std::uint32_t cols) {
  return with_tiles(type, [&](auto tiles) { return decltype(tiles)::stride(cols); });
}

void prepare_activations(DType type, const float* x, std::uint32_t n_tokens, std::uint32_t cols,
                         void* prepared) {
  with_tiles(type, [&](auto tiles) {
    const std::size_t stride = decltype(tiles)::stride(cols);
    for (std::size_t t = 0; t < n_tokens; ++t)
      decltype(tiles)::prepare(x + t * cols, cols, static_cast<std::uint8_t*>(prepared) + t * stride);
  });
}

void add_matmul(Kernels& k) {
  k.packed_bytes = [](DType type, std::uint32_t rows, std::uint32_t cols) {
    return grouped_bytes(kGroup, type, rows, cols);
  };
  k.pack = [](DType type, std::uint32_t rows, std::uint32_t cols, const SourceRows& file, void* packed,
              Range range) { group_rows(kGroup, type, rows, cols, file, packed, range.begin, range.end); };
  k.row_group = [](DType) -> std::uint32_t { return kGroup; };
  k.activation_bytes = activation_bytes;
  k.prepare_activations = prepare_activations;
  k.matmul = matmul;
}

}  // namespace
}  // namespace flyball::kernels::cpu
