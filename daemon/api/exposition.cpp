#include "daemon/api/exposition.hpp"

#include "daemon/api/views.hpp"
#include "daemon/systemd/log_writer.hpp"

namespace flyball::api {

http::Response exposition(ServiceState& service, const config::AppManifest* viewer) {
  const auto workers = service.dispatcher.fleet().status();
  service.metrics.set_workers(gauges_of(workers));
  tell_memory(service.dispatcher.fleet().memory(), service.metrics);
  service.metrics.set_requests(service.dispatcher.waiting(), service.dispatcher.running());
  service.metrics.set_fairness_gap(service.dispatcher.widest_gap());
  service.metrics.set_apps(
      gauges_of(service.in_force->settings->apps, service.journal.usage(), ServiceState::today()));
  if (service.count_connections) service.metrics.set_connections(service.count_connections());
  tell_prediction_errors(service.dispatcher.predictor(), service.metrics);
  if (service.outcomes != nullptr) tell_predictions(service.outcomes->ledger(), service.metrics);
  if (service.store != nullptr) {
    const store::Writer::Health health = service.store->health();
    service.metrics.set_store(health.written, health.dropped, health.failed);
  }
  service.metrics.set_lost_log_lines(systemd::lost_log_lines());
  http::Response out;
  out.body = viewer == nullptr ? service.metrics.exposition() : service.metrics.exposition_for(viewer->id);
  out.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return out;
}

}  // namespace flyball::api
