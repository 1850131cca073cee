// Recorded times of equal steps, over their median, in the order in which they ran.
#pragma once

namespace flyball::simulation {

#include "tests/bench/simulation/noise.inc"

}  // namespace flyball::simulation
