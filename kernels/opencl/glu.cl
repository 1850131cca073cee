// A gated linear unit's elementwise part [arXiv:2002.05202]: gate = activation(gate) * up, rows of `cols` f32.
// A work-item takes 8 neighbouring values of one row.
#ifndef GELU
#define GELU 0  // 1: gelu, 0: silu, as kernels/formats/activation.hpp has them
#endif

#if GELU
#define EXPONENT(x) (-1.5957691f * ((x) + 0.044715f * (x) * (x) * (x)))
#else
#define EXPONENT(x) (-(x))
#endif

__kernel void glu(__global float* gate, __global const float* up, uint cols) {
  const uint c = get_global_id(0) * 8;
  const size_t at = get_global_id(1) * (size_t)cols + c;
  if (c + 8 <= cols) {
    const float8 g = vload8(0, gate + at);
    vstore8(g / (1.0f + exp(EXPONENT(g))) * vload8(0, up + at), 0, gate + at);
  } else {
    for (uint i = 0; c + i < cols; ++i) {
      const float g = gate[at + i];
      gate[at + i] = g / (1.0f + exp(EXPONENT(g))) * up[at + i];
    }
  }
}
