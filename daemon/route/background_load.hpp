// Loads an engine that would have won a request if it had been loaded: the request goes elsewhere, and the
// next ones find the engine ready. Which engine, and how often; pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "config/config.hpp"
#include "daemon/fleet/fleet.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

// Engines of the decision's path that could take the request and have room for its model, but have not loaded
// it, in the path's order. Empty as well if the chosen engine has not loaded it: that load goes first.
// `facts` are those the decision was taken on.
std::vector<std::string> cold_engines(const policy::Decision& decision, const policy::Facts& facts);

// The engine could be started without harm to anybody: it does not run, fail or end now, the operator has not
// unloaded it, and no other model of its group is there, which would have to end for it.
bool stands_still(std::span<const fleet::WorkerStatus> workers, const config::ModelEntry& model,
                  std::string_view backend);

// The reason why the policy would choose the engine if it had loaded the model: "would have met the SLO".
// nullopt: the policy would not, or would merely try the engine while another one is predicted to hold the
// SLO. `if_loaded`: the facts as they would then be.
std::optional<std::string> gain_if_loaded(const policy::Tree& tree, const std::string& backend,
                                          const policy::Facts& if_loaded);

struct BackgroundLoad {
  std::string backend;
  std::string gain;  // as gain_if_loaded() says
};
// "vulkan: loading in the background, would have met the SLO"; with "would be loaded" unless it `begins`.
std::string background_load_text(const BackgroundLoad& load, bool begins);

// The pace of background loads: one at a time, and none of an engine that was loaded in the background a
// short while ago, since whatever ended it would end it again. One thread; time comes in.
class BackgroundPace {
 public:
  // Between two searches for a cold engine worth loading, for each app and model: one search takes the
  // policy's decision again.
  static constexpr std::chrono::seconds kSearch{1};
  // Searches of all apps in kSearch: a few milliseconds of the loop's time.
  static constexpr std::size_t kMostSearches = 64;
  // From one background load of an engine to the next. It doubles with each load in a row that failed or
  // served no request: an engine that ends after its keep-alive without a request costs at most its load in
  // so long.
  static constexpr std::chrono::minutes kRest{10};
  static constexpr std::chrono::hours kMostRest{24};

  // No background load runs, and the app's requests of the model may search now.
  bool may_search(std::string_view app, std::string_view model, TimePoint now) const;
  void searched(std::string_view app, std::string_view model, TimePoint now);
  bool rested(std::string_view model, std::string_view backend, TimePoint now) const;
  // No background load runs, and the engine has rested. Time may pass between a search and the load.
  bool may_begin(std::string_view model, std::string_view backend, TimePoint now) const {
    return !loads_ && rested(model, backend, now);
  }
  void begin(std::string_view model, std::string_view backend, TimePoint now);
  void end() noexcept { loads_ = false; }  // of the load that runs, well or not
  void served(std::string_view model, std::string_view backend) noexcept;

 private:
  struct Engine {
    std::string model, backend;
    TimePoint began{};
    std::uint32_t fruitless = 0;  // loads in a row that served no request so far
  };
  struct Search {
    std::string app, model;
    TimePoint at{};
  };
  static std::chrono::seconds rest_after(std::uint32_t fruitless) noexcept;

  bool loads_ = false;
  std::vector<Engine> engines_;   // those of the last 2 * kMostRest
  std::vector<Search> searches_;  // those of the last kSearch, at most kMostSearches
};

}  // namespace flyball::route
