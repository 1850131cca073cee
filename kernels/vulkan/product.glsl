// y[t, r] = sum_c x[t, c] * w[r, c] for some rows of a matrix and some tokens: multiply(), the body of matmul and its kin,
// and x_bytes(), what x takes for a token. Weights are unfolded once for all the tokens of a work-group.
// With INTEGER_DOT the kernel is for quantized weights and rounded activations: matmul_dot, moe_matmul_dot, ...
#ifdef INTEGER_DOT
#include "dot_product.glsl"
#else
#include "float_product.glsl"
#endif
