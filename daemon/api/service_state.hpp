// The state that the operations of a Service share. The loop's thread owns it.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "daemon/api/admission.hpp"
#include "daemon/api/readiness.hpp"
#include "daemon/api/request_log.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/measure/outcomes.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/route/dispatcher.hpp"
#include "daemon/route/held_bytes.hpp"
#include "daemon/route/records.hpp"
#include "daemon/store/writer.hpp"
#include "daemon/usage/journal.hpp"

namespace flyball::api {

struct ServiceState {
  ServiceState(boost::asio::io_context& context, std::shared_ptr<const settings::Settings> settings,
               policy::Facts hardware, fleet::Fleet& fleet, store::Writer* writer, usage::Past past,
               measure::Outcomes* predictions)
      : io(context),
        log(io),
        in_force(std::make_shared<const InForce>(std::move(settings))),
        store(writer),
        outcomes(predictions),
        receipt_store(writer),
        journal(io, writer, std::move(past)),
        dispatcher(io, fleet, std::move(hardware), metrics, journal) {}

  static std::int64_t today() { return std::time(nullptr) / 86'400; }  // days since the epoch
  ModelsSeen models_seen(const InForce& state) {
    const fleet::Fleet& fleet = dispatcher.fleet();
    return {state.settings->config, state.settings->files.troubles, fleet.engines(), fleet.status()};
  }

  boost::asio::io_context& io;
  metrics::Metrics metrics;
  RequestLog log;
  route::HeldBytes held;
  std::shared_ptr<const InForce> in_force;  // for new requests; a reload replaces it
  store::Writer* const store;               // nullptr: none
  measure::Outcomes* const outcomes;        // nullptr: none
  route::ReceiptStore receipt_store;
  usage::Journal journal;
  route::Dispatcher dispatcher;
  std::function<metrics::Metrics::ConnectionGauges()> count_connections;  // empty: there is no server
  std::uint64_t finished = 0;                                             // requests of any kind
  bool draining = false;
};

}  // namespace flyball::api
