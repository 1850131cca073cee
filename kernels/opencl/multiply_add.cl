// How fast this device multiplies and adds f32: independent chains of fma in registers, no memory.
// Each work-item does 2 * WIDTH * CHAINS * rounds operations.
#ifndef WIDTH
#define WIDTH 1
#endif
#ifndef CHAINS
#define CHAINS 12  // at least latency x pipes: 4 x 2 on current processors
#endif
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#if WIDTH == 1
#define Floats float
#define STORE(v, i, p) (p)[i] = (v)
#else
#define Floats CAT(float, WIDTH)
#define STORE(v, i, p) CAT(vstore, WIDTH)(v, i, p)
#endif

// in: [2] with |in[0]| < 1; out: [work-items, WIDTH]
__kernel void multiply_add(__global const float* in, __global float* out, uint rounds) {
  const Floats a = in[0], b = in[1];
  Floats sum[CHAINS];
#pragma unroll
  for (int k = 0; k < CHAINS; ++k) sum[k] = (Floats)(k);
  for (uint i = 0; i < rounds; ++i) {
#pragma unroll
    for (int k = 0; k < CHAINS; ++k) sum[k] = fma(sum[k], a, b);
  }
  Floats all = sum[0];
#pragma unroll
  for (int k = 1; k < CHAINS; ++k) all += sum[k];
  STORE(all, get_global_id(0), out);
}
