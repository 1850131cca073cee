/* Bytes and values of a block of each element type, as integers of the preprocessor: C++, OpenCL C and GLSL read
   this one file. FORMAT numbers are DType's. FILE_BYTES: a block of one row in a GGUF file. HEAD_BYTES and
   STEP_BYTES: what a row takes of a block, and of each STEP of 32 columns in it, in row groups (row_groups.hpp). */
#ifndef FLYBALL_BLOCK_LAYOUT_H
#define FLYBALL_BLOCK_LAYOUT_H

#define FLYBALL_FORMAT_F32 0
#define FLYBALL_FORMAT_F16 1
#define FLYBALL_FORMAT_BF16 2
#define FLYBALL_FORMAT_Q4_0 3
#define FLYBALL_FORMAT_Q8_0 4
#define FLYBALL_FORMAT_Q4_K 5
#define FLYBALL_FORMAT_Q5_K 6
#define FLYBALL_FORMAT_Q6_K 7
/* MLX's affine formats from here on: 2, 3, 4, 6 and 8 bits, each in groups of 32 and of 64 values. */
#define FLYBALL_FORMAT_AFFINE 8
#define FLYBALL_AFFINE_BITS(format) \
  (((format) - 8) / 2 < 3 ? ((format) - 8) / 2 + 2 : ((format) - 8) / 2 * 2)
#define FLYBALL_AFFINE_GROUP(format) (32 + (format) % 2 * 32)
/* Two floats a group, and the codes. */
#define FLYBALL_AFFINE_HEAD_BYTES 8
#define FLYBALL_AFFINE_STEP_BYTES(format) (4 * FLYBALL_AFFINE_BITS(format))

#define FLYBALL_STEP_COLUMNS 32

#define FLYBALL_Q4_0_VALUES 32
#define FLYBALL_Q4_0_FILE_BYTES 18
#define FLYBALL_Q4_0_HEAD_BYTES 2
#define FLYBALL_Q4_0_STEP_BYTES 16

#define FLYBALL_Q8_0_VALUES 32
#define FLYBALL_Q8_0_FILE_BYTES 34
#define FLYBALL_Q8_0_HEAD_BYTES 2
#define FLYBALL_Q8_0_STEP_BYTES 32

#define FLYBALL_Q4_K_VALUES 256
#define FLYBALL_Q4_K_FILE_BYTES 144
#define FLYBALL_Q4_K_HEAD_BYTES 4
#define FLYBALL_Q4_K_STEP_BYTES 18

#define FLYBALL_Q5_K_VALUES 256
#define FLYBALL_Q5_K_FILE_BYTES 176
#define FLYBALL_Q5_K_HEAD_BYTES 4
#define FLYBALL_Q5_K_STEP_BYTES 22

#define FLYBALL_Q6_K_VALUES 256
#define FLYBALL_Q6_K_FILE_BYTES 210
#define FLYBALL_Q6_K_HEAD_BYTES 2
#define FLYBALL_Q6_K_STEP_BYTES 26

#endif
