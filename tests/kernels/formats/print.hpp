// Element types as GoogleTest prints them, in the names of tests and in failures.
#pragma once

#include <ostream>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels {

inline void PrintTo(DType type, std::ostream* out) {
  *out << to_string(type);
}

}  // namespace flyball::kernels
