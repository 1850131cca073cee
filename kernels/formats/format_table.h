/* Every element type that a weight or a KV tensor may have, one row each. C++, GLSL and OpenCL C read this file, and
   CMake finds the rows by their form (backends/vulkan/CMakeLists.txt). All else about a type derives from its row, but
   for what its bytes mean: kernels/formats/<enumerator>.cpp, kernels/cpu/matmul_formats.inl, kernels/vulkan/weights.glsl
   and kernels/opencl/weights.cl say that, once for each language.

   FLOATS(enumerator, name, GGUF type, GGUF file type, bytes, texel)
   BLOCKS(enumerator, name, GGUF type, GGUF file type, values, bytes, head bytes, step bytes, texel)
   AFFINE(enumerator, name, bits, group)

   enumerator, name: of kernels::DType; GGUF's spelling where GGUF has the type, else ours.
   GGUF type, GGUF file type: ggml's numbers of a tensor's type and of general.file_type.
   values, bytes: of a block, which is a run of one row.
   head bytes, step bytes: what a row takes of a block, and of each step of 32 columns in it, in row groups
   (row_groups.hpp).
   texel: 1 where software Vulkan devices have kernels that read this type by texel (texel.glsl).
   bits, group: MLX's: bits of a code, codes that share a scale and a bias. */
#ifndef FLYBALL_FORMAT_TABLE_H
#define FLYBALL_FORMAT_TABLE_H

/* clang-format off */
#define FLYBALL_FORMATS(FLOATS, BLOCKS, AFFINE)        \
  FLOATS(f32, F32, 0, 0, 4, 0)                         \
  FLOATS(f16, F16, 1, 1, 2, 1)                         \
  FLOATS(bf16, BF16, 30, 32, 2, 1)                     \
  BLOCKS(q4_0, Q4_0, 2, 2, 32, 18, 2, 16, 1)           \
  BLOCKS(q4_1, Q4_1, 3, 3, 32, 20, 4, 16, 0)           \
  BLOCKS(q5_0, Q5_0, 6, 8, 32, 22, 2, 20, 0)           \
  BLOCKS(q5_1, Q5_1, 7, 9, 32, 24, 4, 20, 0)           \
  BLOCKS(q8_0, Q8_0, 8, 7, 32, 34, 2, 32, 1)           \
  BLOCKS(q3_k, Q3_K, 11, 12, 256, 110, 2, 14, 0)       \
  BLOCKS(q4_k, Q4_K, 12, 15, 256, 144, 4, 18, 0)       \
  BLOCKS(q5_k, Q5_K, 13, 17, 256, 176, 4, 22, 0)       \
  BLOCKS(q6_k, Q6_K, 14, 18, 256, 210, 2, 26, 0)       \
  BLOCKS(iq4_nl, IQ4_NL, 20, 25, 32, 18, 2, 16, 0)     \
  BLOCKS(iq4_xs, IQ4_XS, 23, 30, 256, 136, 2, 17, 0)   \
  BLOCKS(mxfp4, MXFP4, 39, 38, 32, 17, 2, 16, 0)       \
  AFFINE(affine2_g32, AFFINE2_G32, 2, 32)              \
  AFFINE(affine2_g64, AFFINE2_G64, 2, 64)              \
  AFFINE(affine3_g32, AFFINE3_G32, 3, 32)              \
  AFFINE(affine3_g64, AFFINE3_G64, 3, 64)              \
  AFFINE(affine4_g32, AFFINE4_G32, 4, 32)              \
  AFFINE(affine4_g64, AFFINE4_G64, 4, 64)              \
  AFFINE(affine6_g32, AFFINE6_G32, 6, 32)              \
  AFFINE(affine6_g64, AFFINE6_G64, 6, 64)              \
  AFFINE(affine8_g32, AFFINE8_G32, 8, 32)              \
  AFFINE(affine8_g64, AFFINE8_G64, 8, 64)
/* clang-format on */

/* For a reader that wants some kinds of rows only. GLSL has no macros of any number of arguments. */
#define FLYBALL_NO_FLOATS(type, NAME, gguf, file, bytes, texel)
#define FLYBALL_NO_BLOCKS(type, NAME, gguf, file, values, bytes, head, step, texel)
#define FLYBALL_NO_AFFINE(type, NAME, bits, group)

#define FLYBALL_STEP_COLUMNS 32
/* Row groups of affine types: two floats a group of values, and in each step the codes. */
#define FLYBALL_AFFINE_HEAD_BYTES 8
#define FLYBALL_AFFINE_STEP_BYTES(bits) (4 * (bits))

/* The values of the sixteen nibbles of IQ4_NL and IQ4_XS, and of MXFP4, before a scale multiplies them.
   Format data: kvalues_iq4nl of ggml-common.h (llama.cpp, MIT licence), and twice the values of E2M1 (OCP
   Microscaling Formats 1.0). */
#define FLYBALL_NIBBLES_IQ4 -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
#define FLYBALL_NIBBLES_MXFP4 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12

/* Kernels have a row's numbers as constants: FLYBALL_Q4_0_FILE_BYTES. */
#if defined(VULKAN)
#define FLYBALL_BLOCK_CONSTANTS(type, NAME, gguf, file, values, bytes, head, step, texel) \
  const uint FLYBALL_##NAME##_VALUES = values, FLYBALL_##NAME##_FILE_BYTES = bytes;
FLYBALL_FORMATS(FLYBALL_NO_FLOATS, FLYBALL_BLOCK_CONSTANTS, FLYBALL_NO_AFFINE)
#elif defined(__OPENCL_VERSION__)
#define FLYBALL_BLOCK_CONSTANTS(type, NAME, gguf, file, values, bytes, head, step, texel)                         \
  FLYBALL_##NAME##_VALUES = values, FLYBALL_##NAME##_FILE_BYTES = bytes, FLYBALL_##NAME##_HEAD_BYTES = head,      \
  FLYBALL_##NAME##_STEP_BYTES = step,
enum { FLYBALL_FORMATS(FLYBALL_NO_FLOATS, FLYBALL_BLOCK_CONSTANTS, FLYBALL_NO_AFFINE) };
#endif

#endif
