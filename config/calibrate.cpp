#include "config/calibrate.hpp"

namespace flyball::config {

using namespace std::chrono_literals;

const std::vector<Bound<CalibrateRules>>& calibrate_table() {
  static const std::vector<Bound<CalibrateRules>> table = {
      {{"idle", duration(0ms, 24h * 7),
        "without a request for so long the daemon measures models that flyball calibrate has not, one at a "
        "time, until one comes; 0s: never"},
       [](CalibrateRules& c, const Node& n) { c.idle = as_duration(n); }},
      {{"ceilings", boolean(),
        "after a start and before its figures expire, when no request was there for 2s, the daemon measures "
        "what the devices of GPU engines can do at best, which takes less than a second each; "
        "false: `flyball calibrate` alone does"},
       [](CalibrateRules& c, const Node& n) { c.ceilings = as_bool(n); }},
      {{"max_load", integer(1, 1'000'000),
        "but not while the machine's load average of a minute is above so many percent of its processors"},
       [](CalibrateRules& c, const Node& n) { c.max_load = as<std::uint32_t>(n); }},
  };
  return table;
}

}  // namespace flyball::config
