#include "daemon/systemd/progress.hpp"

namespace flyball::systemd {

bool ProgressJudge::healthy(const Observation& seen, TimePoint now) {
  const bool moved =
      first_ || !seen.waiting || seen.finished != last_.finished || seen.engine_steps != last_.engine_steps;
  first_ = false;
  last_ = seen;
  if (moved) moved_ = now;
  return now - moved_ <= patience_ && seen.worst_engine <= patience_;
}

}  // namespace flyball::systemd
