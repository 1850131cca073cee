// What the kernels of attention share: flash attention [arXiv:2205.14135] over pages of KV (kernels/formats/kv_page.hpp).
// A work-group is one subgroup. For scores an invocation has a position, and the values of q go round; for the sum of
// values it has some of a head's dimensions, and the weights go round. Positions are cut into splits of kSplit (flash
// decoding), merged in order in one way, so that a row's result does not depend on what shares its work-group.
#include "common.glsl"
#include "../formats/format_table.h"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 1) const uint kHeadDim = 64;
layout(constant_id = 2) const uint kGroup = 1;  // query heads of a KV head
layout(constant_id = 3) const uint kBlock = 16;
layout(constant_id = 4) const uint kQ8_0 = 0;
layout(constant_id = 5) const uint kSplit = 256;    // a multiple of kBlock
layout(constant_id = 6) const uint kItemRows = 1;
layout(constant_id = 7) const uint kWindowed = 0;   // 0: push.window is not looked at, every row sees all before it
layout(constant_id = 8) const float kCap = 0.0;     // a score x becomes kCap * tanh(x / kCap); 0: it stays
layout(constant_id = 9) const uint kUnrolled = 0;   // 1: no loops over what a tile has
layout(constant_id = 10) const uint kShuffles = 0;  // 1: shuffles are faster than what reduces a subgroup

PUSH(AttendPush);

const uint kRecord = kHeadDim + 2;               // of `partial`: accumulator, maximum, sum
const uint kVector = kHeadDim % 4 == 0 ? 4 : 2;  // dimensions that an invocation loads at once
const uint kVectors = kHeadDim / kVector;
const uint kMine = (kVectors + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x * kVector;  // dimensions of an invocation
const uint kKept = (kVectors + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;  // vectors of a q that it passes on

struct Item {
  uint first_row, rows, first_position;
  uint positions, splits;           // up to what the last row sees
  uint first_seen, first_split;     // by the first row
  Uints table;
};

// The first position that the row at `position` sees.
uint first_seen(uint position) {
  return kWindowed != 0 && position >= push.window ? position + 1 - push.window : 0;
}

Item item_of(uint i) {
  Uints work = Uints(push.work + 16ul * i);
  Item item;
  item.first_row = work.v[0];
  item.rows = work.v[1];
  item.first_position = work.v[2];
  item.positions = item.first_position + item.rows;
  item.splits = (item.positions + kSplit - 1) / kSplit;
  item.first_seen = first_seen(item.first_position);
  item.first_split = item.first_seen / kSplit;
  item.table = Uints(push.tables + 4ul * work.v[3]);
  return item;
}

Floats out_of(uint row, uint head) { return floats(push.to, row * push.n_kv_heads * kGroup + head, kHeadDim); }

// exp(x - most) that is 0 where nothing was seen: x of -infinity weighs nothing, whatever `most` is.
float weight_of(float x, float most) { return isinf(x) && x < 0.0 ? 0.0 : exp(x - most); }
float minus_infinity() { return uintBitsToFloat(0xff800000u); }

// Values [kVector * i, + kVector) of a position's row in a page, two of them where kVector is 2.
vec4 cached(Address page, uint place, uint i) {
  if (kQ8_0 != 0) {
    const uint quants = Uints(page + uint64_t(place) * kHeadDim).v[i];
    const float scale = f16_of(uint(Halves(page + uint64_t(kBlock) * kHeadDim)
                                        .v[(place * kHeadDim + kVector * i) / FLYBALL_Q8_0_VALUES]));
    return vec4(int(quants << 24) >> 24, int(quants << 16) >> 24, int(quants << 8) >> 24, int(quants) >> 24) * scale;
  }
  if (kVector == 4) {
    const uint64_t four = Words(page + 2ul * place * kHeadDim).v[i];
    return vec4(unpackHalf2x16(uint(four)), unpackHalf2x16(uint(four >> 32)));
  }
  return vec4(unpackHalf2x16(Uints(page + 2ul * place * kHeadDim).v[i]), 0.0, 0.0);
}

Address page_of(Address cache, uint block, uint kv_head) {
  const uint64_t values = uint64_t(kBlock) * kHeadDim;
  const uint64_t bytes = kQ8_0 != 0 ? values / FLYBALL_Q8_0_VALUES * FLYBALL_Q8_0_FILE_BYTES : 2 * values;
  return cache + (uint64_t(block) * push.n_kv_heads + kv_head) * bytes;
}
