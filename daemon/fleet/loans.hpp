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
  // changed: something was given back. A Loan may outlive this.
  Loans(FleetMemory& memory, std::function<void()> changed) : memory_(memory), changed_(std::move(changed)) {}

  void ask(Governor::Id id, const config::ModelEntry& model, const std::string& backend,
           const MemoryNeed& need, std::function<void(const std::string& why)> give_back);
  // False: it is none of them.
  bool act(Governor::Action& action);
  // Of one that was asked for, after the governor has decided.
  Result<std::unique_ptr<Loan>> answer(Governor::Id id);

 private:
  class LentMemory;
  struct Lent {
    std::function<void(const std::string& why)> give_back;
    std::uint64_t kv_bytes = 0;
    std::optional<Error> refused = {};
  };
  FleetMemory& memory_;
  const std::function<void()> changed_;
  std::map<Governor::Id, Lent> lent_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace flyball::fleet
