#include "daemon/cli/app_request.hpp"

#include <algorithm>
#include <ctime>

#include "backends/graph/memory_plan.hpp"
#include "backends/model/embedded_demo.hpp"
#include "config/name_list.hpp"
#include "daemon/apps/registry.hpp"
#include "daemon/calibrate/measurements.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/probe/model_files.hpp"
#include "daemon/probe/probe.hpp"
#include "daemon/route/facts.hpp"

namespace flyball::cli {
namespace {

Result<std::unique_ptr<model::ModelFile>> open_model(const config::ModelEntry& entry) {
  return entry.embedded ? model::ModelFile::from_bytes(model::embedded_demo_model())
                        : model::ModelFile::open(entry.path);
}

// The facts that an engine tells of a model which it has loaded, read from the file itself.
Result<void> set_model_facts(const AppRequest& request, policy::Facts& facts) {
  const model::ModelConfig& shape = request.file->config();
  const auto context = graph::serving_context(request.model.context, shape);
  if (!context) return pass(context);
  const auto set = [&](const char* fact, policy::FactValue value) {
    facts.set(fact, std::move(value), "model file");
  };
  set("model.architecture", shape.architecture);
  set("model.bytes", static_cast<std::int64_t>(request.file->weight_bytes()));
  set("model.parameters", static_cast<std::int64_t>(request.file->parameter_count()));
  set("model.quantization", std::string(request.file->main_quantization()));
  set("model.context", std::int64_t{*context});
  set("model.moe", shape.n_experts > 0);
  const std::uint64_t kv = kv_bytes_of(probe::info_of(*request.file), request.model.kv_type, *context);
  set("model.kv_bytes", static_cast<std::int64_t>(kv));
  return {};
}

}  // namespace

Result<AppRequest> app_request(const config::Config& config, const std::string& app,
                               const std::string& model) {
  const auto apps = config::apps_of(config);
  if (!apps) return pass(apps);
  std::vector<std::string_view> ids;
  for (const config::AppManifest& one : *apps) ids.push_back(one.id);
  const std::string& id = app.empty() ? config.default_app : app;
  if (id.empty())
    return fail(ErrorCode::missing_field, "which app? config.yaml has no default_app; give --app");
  const auto found = std::ranges::find(*apps, id, &config::AppManifest::id);
  if (found == apps->end())
    return fail(ErrorCode::invalid_value, "no manifest declares the app " + config::not_among(id, ids));
  const auto named = apps::Registry(*apps, config).model_for(*found, model);
  if (!named) return pass(named);
  auto file = open_model(*named->entry);
  if (!file) return pass(file);
  return AppRequest{*found, *named->entry, std::string(named->name), std::move(*file)};
}

Result<policy::Facts> facts_of(const AppRequest& request, const policy::Facts& hardware,
                               const measure::Book& measured) {
  route::RequestTraits traits;
  traits.operation = "chat";
  traits.model_as_asked = request.model_as_asked;
  policy::Facts facts = route::gather(hardware, {}, request.app, request.model, traits, {}, nullptr, measured,
                                      std::time(nullptr));
  if (auto ok = set_model_facts(request, facts); !ok) return pass(ok);
  derive(facts);
  return facts;
}

Result<ThisMachine> this_machine(const config::Config& config, const AppRequest& request,
                                 const policy::Targets& targets) {
  const probe::HardwareReport probed = probe::probe_hardware();
  auto book =
      calibrate::measured_book(config, calibrate::engines_of(probed, config),
                               {{{request.model.id, calibrate::size_of(request.model, *request.file)}}});
  if (!book) return pass(book);
  return ThisMachine{probe::facts_of(probed, config.devices, targets), std::move(*book)};
}

}  // namespace flyball::cli
