// A request that an app might send: the app, the model that it would get, and the facts that follow from
// both.
#pragma once

#include <memory>
#include <string>

#include "backends/model/model_file.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "daemon/measure/book.hpp"
#include "policy/facts.hpp"

namespace flyball::cli {

struct AppRequest {
  config::AppManifest app;
  config::ModelEntry model;
  std::string model_as_asked;  // "": the request names none
  std::unique_ptr<model::ModelFile> file;
};
// app "": config.yaml's default_app; model "": the one that a request gets which names none. Errors: no such
// app or model, or a model file that cannot be read.
Result<AppRequest> app_request(const config::Config& config, const std::string& app,
                               const std::string& model);

// The facts of such a chat request: `hardware` and, on top of it, the manifest, the model's file and what was
// measured of it. Derived facts last.
Result<policy::Facts> facts_of(const AppRequest& request, const policy::Facts& hardware,
                               const measure::Book& measured);

// This machine as its probe finds it, and what was measured here of the model.
struct ThisMachine {
  policy::Facts hardware;
  measure::Book measured;
};
Result<ThisMachine> this_machine(const config::Config& config, const AppRequest& request,
                                 const policy::Targets& targets);

}  // namespace flyball::cli
