// Six engines, three for each of two models, with answers open at each of them: what a decision about one
// more request asks of the queues and the predictor.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/predict/predictor.hpp"
#include "daemon/route/fair_queue.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

class Crowd {
 public:
  static constexpr std::size_t kModels = 2, kEngines = 3;
  struct Size {
    std::uint32_t apps = 4;
    std::uint32_t slots = 32;  // of each engine
    std::uint32_t open = 256;  // answers at each engine; those beyond its slots wait
    bool asks_delay_to_others = false;  // half of the apps are interactive
    std::uint32_t other_models = 0;     // idle at `cpu`; interactive requests should come to each
  };
  explicit Crowd(Size size);

  // The turn of one more request at each engine.
  void forecast();
  // The facts of both models as they are without predictions.
  void forget();
  // The times of that request at each engine, as facts.
  void predict();
  // At each engine an answer has ended and another begins: what is known of them has changed.
  void pass();

  const policy::Facts& facts(std::size_t model) const { return models_[model].facts; }
  std::uint32_t waiting() const;  // at all engines

 private:
  struct Engine {
    std::string backend;
    FairQueue queue;
    std::vector<std::pair<std::uint64_t, predict::Predictor::Place>> open;  // by arrival; some of them wait
  };
  struct Model {
    std::string id;
    std::array<Engine, kEngines> engines;
    policy::Facts facts;
    std::array<predict::LineState, kEngines> lines;
  };
  predict::Query query(const Model& model, std::uint32_t app) const;
  void come(Model& model, Engine& engine, std::uint32_t app);
  void begin(Engine& engine, bool decodes);
  void finish(Engine& engine, std::size_t i);
  TimePoint now() const { return TimePoint{} + std::chrono::milliseconds(ms_); }

  const Size size_;
  std::vector<std::string> apps_;
  std::int64_t ms_ = 1'000'000;
  std::uint64_t requests_ = 0;
  predict::Predictor predictor_{KeyedHash(1, 2)};
  policy::Facts machine_;
  std::array<predict::EngineState, kEngines> states_;
  std::shared_ptr<const predict::PromptPrint> prompt_;
  std::array<Model, kModels> models_;  // their answers leave before the predictor ends
};

void PrintTo(const Crowd::Size& size, std::ostream* out);

}  // namespace flyball::route
