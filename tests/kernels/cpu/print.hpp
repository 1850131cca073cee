// Instruction sets as GoogleTest prints them, in the names of tests and in failures.
#pragma once

#include <ostream>

#include "kernels/cpu/kernels.hpp"

namespace flyball::kernels::cpu {

inline void PrintTo(Isa isa, std::ostream* out) {
  *out << to_string(isa);
}

}  // namespace flyball::kernels::cpu
