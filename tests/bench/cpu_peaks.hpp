// How fast one thread of this processor can multiply and add: independent chains of the instruction the CPU
// kernels live on, in registers. What the benchmarks set the kernels' rates against.
#pragma once

#include "kernels/cpu/kernels.hpp"

namespace flyball::bench {

// Each runs some milliseconds and returns the operations it did; a multiply-add is two.
struct PeakLoops {
  double (*int8)();
  double (*f32)();
};
PeakLoops peak_loops(kernels::cpu::Isa isa);

}  // namespace flyball::bench
