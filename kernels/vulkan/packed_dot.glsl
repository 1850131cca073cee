// OpSDotKHR, its vectors four signed bytes to a word (0): Debian 12's glslc has no GL_EXT_integer_dot_product.
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int packed_dot(uint a, uint b, spirv_literal int format);
