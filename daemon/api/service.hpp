// The router behind every connection: finds the codec that a request is for, lets it parse, and carries out
// the operation. Knows no API and no sockets: the gateway puts it behind a Server, tests and the fuzzer
// behind http::Connection directly.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "daemon/api/codec.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/gateway.hpp"
#include "daemon/http/connection.hpp"
#include "daemon/metrics/metrics.hpp"

namespace flyball::api {

class Service final : public http::Handler {
 public:
  Service(boost::asio::io_context& io, std::shared_ptr<const settings::Settings> settings,
          policy::Facts hardware, fleet::Fleet& fleet, store::Writer* store, usage::Past past,
          measure::Outcomes* outcomes, Codecs codecs,
          ConstraintVerdicts::Compile compile = &ConstraintVerdicts::compile);
  ~Service() override;

  // http::Handler
  std::string next_request_id() override;
  std::vector<http::Field> fields_for_origin(std::string_view origin) const override;
  std::expected<http::Entry, http::Response> check_head(const http::Request& head,
                                                        const http::Peer& peer) override;
  http::Response refuse(const Error& error, const http::Request* head, const http::Peer& peer) override;
  void handle(std::shared_ptr<http::Exchange> exchange) override;
  bool closing() const override;

  void reload(std::shared_ptr<const settings::Settings> settings);
  void start_draining();
  void abort_all(const Error& error);      // what is still running at the end of a drain
  std::size_t in_flight() const noexcept;  // requests that an engine is for, or off the loop
  // The requests among them whose body is parsed, or whose constraint is compiled, by another thread, or
  // waits for it.
  std::size_t off_loop() const noexcept;
  bool computes_prefixes() const noexcept;
  std::uint64_t finished() const noexcept;             // requests of any kind
  std::uint64_t inferences_finished() const noexcept;  // of them those that an engine was for
  metrics::Metrics& metrics() noexcept;
  // Asked for the server's connections whenever the metrics are.
  void count_connections(std::function<metrics::Metrics::ConnectionGauges()> count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flyball::api
