// Loads an engine that would have won a request if it had been loaded: the request goes elsewhere, and the
// next ones find the engine ready. Which engine, and how often; pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

// Engines of the decision's path that could take the request and have room for its model, but have not loaded
// it, in the path's order. Empty as well if the chosen engine has not loaded it: that load goes first.
// `facts` are those the decision was taken on.
std::vector<std::string> cold_engines(const policy::Decision& decision, const policy::Facts& facts);

// The reason why the policy would choose the engine if it had loaded the model: "would have met the SLO".
// nullopt: the policy would not. `if_loaded`: the facts as they would then be.
std::optional<std::string> gain_if_loaded(const policy::Tree& tree, const std::string& backend,
                                          const policy::Facts& if_loaded);

struct BackgroundLoad {
  std::string backend;
  std::string gain;     // as gain_if_loaded() says
  bool begins = false;  // else it is only explained
};
// Notes the load in the source of the engine's fact `fits_now`, which keeps its value: records keep sources.
// Precondition: `fits_now` is known.
void set_background_load(const BackgroundLoad& load, policy::Facts& facts);
// "vulkan: loading in the background, would have met the SLO". "": the request begins no load.
std::string background_load_text(const policy::Facts& facts);

// The pace of background loads: one at a time, and none of an engine that was loaded in the background a
// short while ago, since whatever ended it would end it again. One thread; time comes in.
class BackgroundPace {
 public:
  // Between two searches for a cold engine worth loading, for each model: one search takes the policy's
  // decision again.
  static constexpr std::chrono::seconds kSearch{1};
  // From one background load of an engine to the next. It doubles with each load in a row that failed or
  // served no request: an engine that ends after its keep-alive without a request costs at most its load in
  // so long.
  static constexpr std::chrono::minutes kRest{10};
  static constexpr std::chrono::hours kMostRest{24};

  // True: no background load runs, and requests of the model may search now. Counts as a search.
  bool may_search(std::string_view model, TimePoint now);
  bool rested(std::string_view model, std::string_view backend, TimePoint now) const;
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
    std::string model;
    TimePoint at{};
  };
  static std::chrono::seconds rest_after(std::uint32_t fruitless) noexcept;

  bool loads_ = false;
  std::vector<Engine> engines_;   // those of the last 2 * kMostRest
  std::vector<Search> searches_;  // those of the last kSearch
};

}  // namespace flyball::route
