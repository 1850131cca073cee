// The values of the sixteen codes of a nibble. Data alone: code for single ISAs includes it.
#pragma once

#include <cstdint>

#include "kernels/formats/format_table.h"

namespace flyball::kernels {

using NibbleValues = std::int8_t[16];
inline constexpr NibbleValues kIq4Values = {FLYBALL_NIBBLES_IQ4};
inline constexpr NibbleValues kMxfp4Values = {FLYBALL_NIBBLES_MXFP4};

}  // namespace flyball::kernels
