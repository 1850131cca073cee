#include "daemon/api/gateway.hpp"

#include <chrono>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "daemon/api/service.hpp"
#include "daemon/http/server.hpp"

namespace flyball::api {
namespace {

// How often a drain looks whether the last answer has left. Nothing runs at this pace otherwise.
constexpr std::chrono::milliseconds kDrainLook{10};

metrics::Metrics::ConnectionGauges gauges_of(const http::Server::Connections& open) {
  const auto gauge = [](std::uint64_t n) { return static_cast<double>(n); };
  return {.silent = gauge(open.table.silent),
          .idle = gauge(open.table.idle),
          .working = gauge(open.table.working),
          .leaving = gauge(open.leaving),
          .strangers = gauge(open.table.strangers),
          .refused = gauge(open.table.refused),
          .closed_silent = gauge(open.table.closed_silent),
          .closed_idle = gauge(open.table.closed_idle)};
}

}  // namespace

struct Gateway::Impl {
  Impl(boost::asio::io_context& context, std::shared_ptr<const settings::Settings> settings,
       policy::Facts hardware, fleet::Fleet& fleet, Codecs codecs, store::Writer* store, usage::Past past,
       measure::Outcomes* outcomes)
      : io(context),
        listeners(settings->config.listeners),
        service(io, settings, std::move(hardware), fleet, store, std::move(past), outcomes, codecs),
        server(io, settings->config.http, service),
        drain_timer(io) {
    service.count_connections([this] { return gauges_of(server.connections()); });
  }

  void look() {
    const bool overdue = std::chrono::steady_clock::now() >= drain_deadline;
    if (overdue) service.abort_all({ErrorCode::shutting_down, "The daemon is shutting down.", {}, {}});
    // One more look after the deadline lets the last frames leave.
    if ((service.in_flight() == 0 && !server.busy()) || (overdue && std::exchange(gave_up, true))) {
      server.close_all();
      if (drained) std::exchange(drained, nullptr)();
      return;
    }
    drain_timer.expires_after(kDrainLook);
    drain_timer.async_wait([this](const boost::system::error_code& ec) {
      if (!ec) look();
    });
  }

  boost::asio::io_context& io;
  std::vector<config::Listener> listeners;
  Service service;
  http::Server server;  // destroyed first: its connections call the service
  boost::asio::steady_timer drain_timer;
  TimePoint drain_deadline;
  std::function<void()> drained;
  bool gave_up = false;
};

Gateway::Gateway(boost::asio::io_context& io, std::shared_ptr<const settings::Settings> settings,
                 policy::Facts hardware, fleet::Fleet& fleet, Codecs codecs, store::Writer* store,
                 usage::Past past, measure::Outcomes* outcomes)
    : impl_(std::make_unique<Impl>(io, std::move(settings), std::move(hardware), fleet, codecs, store,
                                   std::move(past), outcomes)) {}
Gateway::~Gateway() = default;

Result<void> Gateway::listen() {
  return impl_->server.listen(impl_->listeners);
}

std::vector<std::string> Gateway::urls() const {
  return impl_->server.urls();
}

void Gateway::reload(std::shared_ptr<const settings::Settings> settings) {
  impl_->server.set_limits(settings->config.http);
  impl_->service.reload(std::move(settings));
}

void Gateway::reload_failed() noexcept {
  impl_->service.metrics().reload_succeeded(false);
}

void Gateway::drain(TimePoint deadline, std::function<void()> drained) {
  impl_->service.start_draining();
  impl_->server.stop_accepting();
  impl_->drain_deadline = deadline;
  impl_->drained = std::move(drained);
  impl_->drain_timer.expires_after(std::chrono::milliseconds(0));  // never from inside this call
  impl_->drain_timer.async_wait([impl = impl_.get()](const boost::system::error_code& ec) {
    if (!ec) impl->look();
  });
}

std::size_t Gateway::requests_in_flight() const noexcept {
  return impl_->service.in_flight();
}
bool Gateway::computes_prefixes() const noexcept {
  return impl_->service.computes_prefixes();
}
std::uint64_t Gateway::requests_finished() const noexcept {
  return impl_->service.finished();
}
std::uint64_t Gateway::inferences_finished() const noexcept {
  return impl_->service.inferences_finished();
}

}  // namespace flyball::api
