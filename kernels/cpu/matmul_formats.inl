// How one packed group of each quantized format (kernels/formats/row_groups.hpp) unfolds into vectors of
// quads and scales. Included by matmul.inl, after a simd_*.hpp.
namespace flyball::kernels::cpu {
namespace {

constexpr int kLanes = Simd::kLanes;
constexpr int kGroup = 2 * kLanes;  // rows interleaved in the packed layout: two vectors

struct Head {  // what a block's steps share; [2]: the two row vectors of the group
  Simd::F d[2];
  Simd::F dmin[2];
};

FLYBALL_INLINE Head load_head(const std::uint8_t* p) {
  return {{Simd::load_f16(p), Simd::load_f16(p + 2 * kLanes)}, {}};
}
FLYBALL_INLINE Head load_affine_head(const std::uint8_t* p) {
  return {{Simd::load_f16(p), Simd::load_f16(p + 2 * kLanes)},
          {Simd::load_f16(p + 2 * kGroup), Simd::load_f16(p + 2 * kGroup + 2 * kLanes)}};
}
FLYBALL_INLINE Simd::I load_quad_vector(const std::uint8_t* quads, int index, int g) {
  return Simd::load_quads(quads + (index * 2 + g) * kLanes * 4);
}
template <int kQuad>
FLYBALL_INLINE Simd::I nibble_quad(const std::uint8_t* quads, int g) {
  const Simd::I pair = load_quad_vector(quads, kQuad / 2, g);
  if constexpr (kQuad % 2 == 0) return Simd::low_nibbles(pair);
  return Simd::high_nibbles(pair);
}

// The steps and bytes of one block in a group of rows.
template <DType kType>
struct Block {
  static constexpr int kSteps = row_of(kType).block.values / FLYBALL_STEP_COLUMNS;
  static constexpr int kHeadBytes = row_of(kType).head_bytes * kGroup,
                       kStepBytes = row_of(kType).step_bytes * kGroup;
};

// One for each BLOCKS row of format_table.h, Format and its name: value = scale * (quant - kOffset) - min.
// kHalves: scales a step of 32 columns has.
struct FormatQ4_0 : Block<DType::q4_0> {
  static constexpr int kHalves = 1, kMaxQuant = 15, kOffset = 8;
  static constexpr bool kHasMin = false, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return nibble_quad<kQuad>(step, g);
  }
};

struct FormatQ4_1 : Block<DType::q4_1> {
  static constexpr int kHalves = 1, kMaxQuant = 15, kOffset = 0;
  static constexpr bool kHasMin = true, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_affine_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  FLYBALL_INLINE Simd::F min(const Head& h, const std::uint8_t*, int g) { return h.dmin[g]; }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return nibble_quad<kQuad>(step, g);
  }
};

struct FormatQ5_0 : Block<DType::q5_0> {
  static constexpr int kHalves = 1, kMaxQuant = 31, kOffset = 16;
  static constexpr bool kHasMin = false, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    const Simd::I fifth = load_quad_vector(step, 0, g);
    return Simd::or_shifted<4 - kQuad>(nibble_quad<kQuad>(step + 4 * kGroup, g), fifth, 0x10);
  }
};

struct FormatQ5_1 : Block<DType::q5_1> {
  static constexpr int kHalves = 1, kMaxQuant = 31, kOffset = 0;
  static constexpr bool kHasMin = true, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_affine_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  FLYBALL_INLINE Simd::F min(const Head& h, const std::uint8_t*, int g) { return h.dmin[g]; }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return FormatQ5_0::quad<kQuad>(step, g);
  }
};

struct FormatQ8_0 : Block<DType::q8_0> {
  static constexpr int kHalves = 1, kMaxQuant = 128, kOffset = Simd::kSignedOffset;
  static constexpr bool kHasMin = false, kSigned = true;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return Simd::from_signed(load_quad_vector(step, kQuad, g));
  }
};

struct FormatQ3_K : Block<DType::q3_k> {
  static constexpr int kHalves = 2, kMaxQuant = 7, kOffset = 4;
  static constexpr bool kHasMin = false, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t* step, int half, int g) {
    return Simd::mul(h.d[g], Simd::load_i8(step + half * kGroup + g * kLanes));
  }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    const Simd::I pairs = load_quad_vector(step + 2 * kGroup, kQuad / 4, g);
    const Simd::I lower = Simd::or_shifted<-2 * (kQuad % 4)>(Simd::set1_i32(0), pairs, 0x03);
    return Simd::or_shifted<2 - kQuad>(lower, load_quad_vector(step + 10 * kGroup, 0, g), 0x04);
  }
};

struct FormatQ4_K : Block<DType::q4_k> {
  static constexpr int kHalves = 1, kMaxQuant = 15, kOffset = 0;
  static constexpr bool kHasMin = true, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_affine_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t* step, int, int g) {
    return Simd::mul(h.d[g], Simd::load_u8(step + g * kLanes));
  }
  FLYBALL_INLINE Simd::F min(const Head& h, const std::uint8_t* step, int g) {
    return Simd::mul(h.dmin[g], Simd::load_u8(step + kGroup + g * kLanes));
  }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return nibble_quad<kQuad>(step + 2 * kGroup, g);
  }
};

struct FormatQ5_K : Block<DType::q5_k> {
  static constexpr int kHalves = 1, kMaxQuant = 31, kOffset = 0;
  static constexpr bool kHasMin = true, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_affine_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t* step, int half, int g) {
    return FormatQ4_K::scale(h, step, half, g);
  }
  FLYBALL_INLINE Simd::F min(const Head& h, const std::uint8_t* step, int g) {
    return FormatQ4_K::min(h, step, g);
  }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    const Simd::I fifth = load_quad_vector(step + 2 * kGroup, 0, g);
    return Simd::or_shifted<4 - kQuad>(nibble_quad<kQuad>(step + 6 * kGroup, g), fifth, 0x10);
  }
};

struct FormatQ6_K : Block<DType::q6_k> {
  static constexpr int kHalves = 2, kMaxQuant = 63, kOffset = 32;
  static constexpr bool kHasMin = false, kSigned = false;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t* step, int half, int g) {
    return Simd::mul(h.d[g], Simd::load_i8(step + half * kGroup + g * kLanes));
  }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    const Simd::I upper = load_quad_vector(step + 2 * kGroup, kQuad / 4, g);
    return Simd::or_shifted<4 - 2 * (kQuad % 4)>(nibble_quad<kQuad>(step + 10 * kGroup, g), upper, 0x30);
  }
};

// Nibbles that are codes of signed values. from_signed() is applied to the sixteen values instead of each weight.
template <int kQuad>
FLYBALL_INLINE Simd::I table_quad(const NibbleValues& values, const std::uint8_t* quads, int g) {
  return Simd::lookup(Simd::from_signed(Simd::load_table(values)), nibble_quad<kQuad>(quads, g));
}

struct FormatIQ4_NL : Block<DType::iq4_nl> {
  static constexpr int kHalves = 1, kMaxQuant = 127, kOffset = Simd::kSignedOffset;
  static constexpr bool kHasMin = false, kSigned = true;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return table_quad<kQuad>(kIq4Values, step, g);
  }
};

struct FormatIQ4_XS : Block<DType::iq4_xs> {
  static constexpr int kHalves = 1, kMaxQuant = 127, kOffset = Simd::kSignedOffset;
  static constexpr bool kHasMin = false, kSigned = true;
  FLYBALL_INLINE Head head(const std::uint8_t* p) { return load_head(p); }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t* step, int, int g) {
    return Simd::mul(h.d[g], Simd::load_i8(step + g * kLanes));
  }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return table_quad<kQuad>(kIq4Values, step + kGroup, g);
  }
};

struct FormatMXFP4 : Block<DType::mxfp4> {
  static constexpr int kHalves = 1, kMaxQuant = 12, kOffset = Simd::kSignedOffset;
  static constexpr bool kHasMin = false, kSigned = true;
  FLYBALL_INLINE Head head(const std::uint8_t* p) {
    return {{Simd::load_bf16(p), Simd::load_bf16(p + 2 * kLanes)}, {}};
  }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    return table_quad<kQuad>(kMxfp4Values, step, g);
  }
};

template <int kBits, int kColumns>
struct FormatAffine {
  static constexpr int kSteps = kColumns / 32, kHalves = 1, kOffset = 0;
  static constexpr int kMaxQuant = kBits == 8 ? 128 : (1 << kBits) - 1;
  static constexpr bool kHasMin = true, kSigned = kBits == 8;
  static constexpr int kHeadBytes = FLYBALL_AFFINE_HEAD_BYTES * kGroup,
                       kStepBytes = FLYBALL_AFFINE_STEP_BYTES(kBits) * kGroup;
  FLYBALL_INLINE Head head(const std::uint8_t* p) {
    const auto* f = reinterpret_cast<const float*>(p);
    return {{Simd::load(f), Simd::load(f + kLanes)},
            {Simd::load(f + kGroup), Simd::load(f + kGroup + kLanes)}};
  }
  FLYBALL_INLINE Simd::F scale(const Head& h, const std::uint8_t*, int, int g) { return h.d[g]; }
  // scale * code + bias = scale * (code - moved) - (-bias - moved * scale): by what quad() has moved the
  // codes
  FLYBALL_INLINE Simd::F min(const Head& h, const std::uint8_t*, int g) {
    constexpr int kMoved = kBits == 8 ? 128 - Simd::kSignedOffset : 0;
    if constexpr (kMoved == 0) return h.dmin[g];
    return Simd::fnma(Simd::set1(static_cast<float>(kMoved)), h.d[g], h.dmin[g]);
  }
  template <int kQuad>
  FLYBALL_INLINE Simd::I quad(const std::uint8_t* step, int g) {
    if constexpr (kBits == 8) {
      return Simd::from_signed(load_quad_vector(step, kQuad, g));
    } else if constexpr (kBits == 4) {
      return nibble_quad<kQuad>(step, g);
    } else {
      const Simd::I pairs = load_quad_vector(step, kQuad / 4, g);
      constexpr int kPair = 2 * (kQuad % 4);
      if constexpr (kBits == 6)
        return Simd::or_shifted<4 - kPair>(nibble_quad<kQuad>(step + 8 * kGroup, g), pairs, 0x30);
      const Simd::I low = Simd::or_shifted<-kPair>(Simd::set1_i32(0), pairs, 0x03);
      if constexpr (kBits == 2) return low;
      return Simd::or_shifted<2 - kQuad>(low, load_quad_vector(step + 8 * kGroup, 0, g), 0x04);
    }
  }
};

// One for each FLOATS row: one value a row and column.
struct FormatF32 {
  static constexpr int kBytes = 4;
  FLYBALL_INLINE Simd::F load(const std::uint8_t* p) { return Simd::load(reinterpret_cast<const float*>(p)); }
};
struct FormatF16 {
  static constexpr int kBytes = 2;
  FLYBALL_INLINE Simd::F load(const std::uint8_t* p) { return Simd::load_f16(p); }
};
struct FormatBF16 {
  static constexpr int kBytes = 2;
  FLYBALL_INLINE Simd::F load(const std::uint8_t* p) { return Simd::load_bf16(p); }
};

}  // namespace
}  // namespace flyball::kernels::cpu
