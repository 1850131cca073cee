// The governor over a machine on which whatever it lets load is ready at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/fleet/governor.hpp"

namespace flyball::fleet {

inline MemoryClaim claim(const std::string& model, std::uint64_t weights, std::uint64_t least_kv = 0,
                         std::uint64_t kv = 0) {
  MemoryClaim c;
  c.model = model;
  c.need = {weights, 0, std::max(kv, least_kv), least_kv};
  return c;
}

// Engines that are ready at once, and what the governor said of each.
struct Machine {
  using Kind = Governor::Action::Kind;
  Governor governor;
  std::map<Governor::Id, std::optional<TimePoint>> ready;  // since when idle; absent: at work
  std::map<Governor::Id, MemoryClaim> claims;
  std::map<Governor::Id, std::string> refused;
  std::vector<Governor::Id> refused_for_good;
  std::map<Governor::Id, std::uint64_t> kv;
  std::vector<Governor::Id> ended;
  std::optional<TimePoint> look_again;
  TimePoint now{};
  std::uint64_t available = Governor::kUnknown;
  bool pressure = false;

  explicit Machine(std::uint64_t capacity) : governor({{"the machine", capacity, true}}) {}

  void decide() {
    std::vector<Governor::Use> uses;
    for (const auto& [id, idle] : ready)
      if (!claims[id].spare) uses.push_back({id, idle});
    const auto step = governor.decide({now, uses, {&available, 1}, pressure});
    look_again = step.look_again;
    bool again = false;
    for (const auto& action : step.actions) {
      again = true;
      switch (action.kind) {
        case Kind::load: {
          kv[action.id] = action.kv_bytes;
          const MemoryNeed& need = claims[action.id].need;
          ready[action.id] = now;
          governor.ready(action.id, claims[action.id],
                         need.weight_bytes + need.scratch_bytes + action.kv_bytes, now);
          break;
        }
        case Kind::refuse:
          refused[action.id] = action.error->message;
          if (action.for_good) refused_for_good.push_back(action.id);
          break;
        case Kind::end:
          ASSERT_TRUE(ready.at(action.id) || claims[action.id].spare) << "a stream is cut";
          ended.push_back(action.id);
          ready.erase(action.id);
          governor.gone(action.id);
          break;
        case Kind::hold:
        case Kind::release:
          break;
      }
    }
    if (again) decide();
  }
  void ask(Governor::Id id, MemoryClaim c) {
    claims[id] = c;
    governor.ask(id, std::move(c), now);
    decide();
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    decide();
  }
  void work(Governor::Id id) { ready[id] = std::nullopt; }
  void rest(Governor::Id id) { ready[id] = now; }
};

}  // namespace flyball::fleet
