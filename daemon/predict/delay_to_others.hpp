// The time that a request adds to interactive answers if it goes to an engine: the fact
// backend.<id>.expected_delay_to_others. It counts each answer that is open now by the tokens that it has
// left, and interactive requests that should come by their rate. It does not count that a delayed answer
// delays others in turn.
#pragma once

#include <cstdint>

#include "daemon/predict/engine_work.hpp"

namespace flyball::predict {

// Seconds, summed over all answers.
struct DelayToOthers {
  double here = 0;     // to answers at the request's engine
  double beside = 0;   // to answers at other engines of its group
  double to_come = 0;  // to answers of requests that should come to any of them
  double sum() const noexcept { return here + beside + to_come; }
};

// The prediction for the request itself. Seconds from now.
struct Course {
  double begins = 0, ends = 0;
  double prompt = 0;  // from its beginning to its first token
  double token = 0;   // between two tokens
};

// The engine's interactive answers count from now on, at the engine itself and at others of its group.
void join_group(EngineWork& work, const EngineModel& model);
// Looks at the interactive answers of a group's engines, those of `request` apart.
void foresee_interactive(Group& group, std::uint64_t request, TimePoint now);
// Precondition: `work.ahead()` has answered for the request, and foresee_interactive() at that time for its
// group.
DelayToOthers delay_to_others(const EngineWork::Asked& asked, const EngineWork::Ahead& ahead,
                              const Course& course, EngineWork& work, const EngineModel& model,
                              TimePoint now);

}  // namespace flyball::predict
