// Orders (value, index) pairs as floats do, equal ones by falling index, as one integer; none is 0. NaNs have some place
// or other.
#ifndef FLYBALL_RANK_GLSL
#define FLYBALL_RANK_GLSL

uint64_t rank_of(float x, uint i) {
  uint bits = floatBitsToUint(x);
  if (bits == 0x80000000u) bits = 0;  // -0 equals 0
  bits ^= uint(int(bits) >> 31) | 0x80000000u;
  return (uint64_t(bits) << 32) | uint64_t(~i);
}

uint id_of(uint64_t rank) { return ~uint(rank); }

#endif
