// Operations that answer with a receipt: how a request would be decided, and how one was.
#pragma once

#include <memory>
#include <optional>
#include <unordered_set>

#include "config/error.hpp"
#include "daemon/api/call.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/api/responder.hpp"
#include "daemon/api/service_state.hpp"
#include "daemon/route/receipts.hpp"

namespace flyball::api {

class ReceiptOperations {
 public:
  ReceiptOperations(ServiceState& service, Responder& responder)  // both outlive this
      : service_(service), responder_(responder) {}

  void run(const Call& call, Explain question);
  void run(const Call& call, FindReceipt operation);

 private:
  void found(const std::shared_ptr<Call>& lookup, Result<std::optional<route::Receipt>> receipt);

  ServiceState& service_;
  Responder& responder_;
  std::unordered_set<std::shared_ptr<Call>> lookups_;  // receipts that are being looked for in the store
};

}  // namespace flyball::api
