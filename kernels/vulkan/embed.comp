#version 460
#extension GL_GOOGLE_include_directive : require
// out[i] = row tokens[i] of the embedding table, decoded and scaled; a row a work-group. Built per format.
#include "weights.glsl"

PUSH(EmbedPush);

void main() {
  const uint i = gl_WorkGroupID.y;
  const Row row = row_of(matrix_of(push.table), uint64_t(Ints(push.tokens).v[i]), push.row_bytes, push.cols);
  Floats to = floats(push.to, i, push.cols);
  for (uint chunk = gl_LocalInvocationID.x; chunk * kChunk < push.cols; chunk += WG) {
#if ELEMENTS
    for (uint c = chunk * kChunk; c < min((chunk + 1) * kChunk, push.cols); ++c) to.v[c] = element(row, c) * push.scale;
#else
    const Raw raw = raw_of(row, chunk);
    EACH(part, kChunk / kPart) {
      float w[kPart];
      decode(raw, chunk, part, w);
      EACH(j, kPart) to.v[chunk * kChunk + part * kPart + j] = w[j] * push.scale;
    }
#endif
  }
}
