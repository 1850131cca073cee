// The one HTTP gateway: listeners, routes and dispatch over the fleet, on one io_context thread.
// Composition root for everything between socket and fleet; daemon/serve builds it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "config/error.hpp"
#include "daemon/api/codec.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/measure/outcomes.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/store/writer.hpp"
#include "daemon/usage/daily_usage.hpp"
#include "policy/facts.hpp"

namespace flyball::api {

class Gateway {
 public:
  // `hardware`: facts of the probe, taken once at start. The fleet outlives the gateway, and so does the
  // store; nullptr: nothing survives a restart. `past`: what is stored of the apps' last days. `outcomes`:
  // told what answers took, and shown in the metrics; outlives the gateway, too; nullptr: nobody is.
  Gateway(boost::asio::io_context& io, std::shared_ptr<const settings::Settings> settings,
          policy::Facts hardware, fleet::Fleet& fleet, Codecs codecs, store::Writer* store = nullptr,
          usage::Past past = {}, measure::Outcomes* outcomes = nullptr);
  ~Gateway();

  Result<void> listen();                  // opens every listener of the config; io_error names it
  std::vector<std::string> urls() const;  // "http://127.0.0.1:8080", "unix:/run/flyball/flyball.sock"
  void reload(std::shared_ptr<const settings::Settings> settings);  // listeners stay as they are
  void reload_failed() noexcept;  // the old settings stay; config_last_reload_success says so
  // Stops accepting, answers new requests on open connections with shutting_down, lets streams finish.
  void drain(TimePoint deadline, std::function<void()> drained);
  std::size_t requests_in_flight() const noexcept;   // that engines are for
  bool computes_prefixes() const noexcept;           // an engine computes one that a manifest keeps
  std::uint64_t requests_finished() const noexcept;  // of any kind: progress, for the watchdog
  // Without health checks, scrapes and whatever else wants no engine, which may come every few seconds
  // although nobody is there.
  std::uint64_t inferences_finished() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball::api
