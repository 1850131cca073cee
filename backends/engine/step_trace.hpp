// What an engine did, step by step, for whoever has to explain why a token came late.
#pragma once

#include <functional>

#include "backends/backend.hpp"
#include "backends/engine/step_cost.hpp"

namespace flyball::engine {

struct StepTrace {
  TimePoint begin, end;  // of planning, and of the last token's delivery
  StepWork work;
  double expected = 0;  // seconds, by what steps had cost before
  bool may_stop = false, stopped = false;
};

// Called on the engine thread after each step, which waits for it; empty: nobody asks.
using StepObserver = std::function<void(const StepTrace&)>;

}  // namespace flyball::engine
