// What is lent of memory that no engine has: the fleet's side of Loan.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/fleet/fleet_memory.hpp"

namespace flyball::fleet {

class Loans {
 public:
  using Loaded = std::function<void(const LoadReport&)>;
  // changed: something was given back. loaded: as an engine's load is told; absent: to nobody. A Loan may
  // outlive this.
  Loans(FleetMemory& memory, std::function<void()> changed, Loaded loaded)
      : memory_(memory), changed_(std::move(changed)), loaded_(std::move(loaded)) {}

  void ask(Governor::Id id, const config::ModelEntry& model, const std::string& backend,
           const MemoryNeed& need, std::function<void(const std::string& why)> give_back);
  // False: it is none of them.
  bool act(Governor::Action& action);
  // Of one that was asked for, after the governor has decided.
  Lent answer(Governor::Id id);

 private:
  class LentMemory;
  struct Asked {
    std::string model, backend;
    std::function<void(const std::string& why)> give_back;
    std::uint64_t margin_bytes = 0;
    std::uint64_t kv_bytes = 0;
    TimePoint granted{};
    std::optional<NotLent> refused = {};
  };
  void holds(Governor::Id id, std::uint64_t bytes);
  FleetMemory& memory_;
  const std::function<void()> changed_;
  const Loaded loaded_;
  std::map<Governor::Id, Asked> lent_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace flyball::fleet
