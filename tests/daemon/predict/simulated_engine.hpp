// One engine, simulated step by step, and a Predictor that sees it as the daemon does. Its costs are its own:
// the predictor is told of tokens and times alone.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "daemon/predict/predictor.hpp"

namespace flyball::predict {

struct Costs {  // seconds
  double step = 4e-3, stream = 0.5e-3, token = 0.2e-3, overhead = 1e-3;
  double noise = 0.05;  // standard deviation of a step's logarithm
};

// A request, and its times beside those predicted. Seconds.
struct Simulated {
  std::string app;
  double at = 0;
  std::uint32_t prompt = 100, output = 32;  // tokens
  std::uint32_t answers = 1, prompts = 1;   // as many answers to each of its prompts
  bool interactive = true;
  bool queued = false;                      // another one was there
  Prediction predicted;
  bool known = false;  // there was a prediction
  double began = 0;    // when it got its slot
  double ttft = 0, tpot = 0;
  double total = 0;  // until its last answer has ended
};

// The order in which requests get their turn at the engine. Numbers are those of requests.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void come(std::uint64_t number, const Simulated& request) = 0;
  virtual std::optional<std::uint64_t> next() = 0;
  virtual void token(std::uint64_t number) = 0;
  virtual void leave(std::uint64_t number) = 0;
  virtual TurnForecast forecast(const Simulated& coming) const = 0;
  virtual TurnForecast forecast(std::uint64_t number) const = 0;
};

class SimulatedEngine {
 public:
  SimulatedEngine(Predictor& predictor, std::uint32_t slots, std::uint64_t seed)
      : predictor_(predictor), slots_(slots), draw_(seed) {}
  Costs costs;
  Queue* line = nullptr;    // absent: requests get their turns in order of arrival
  bool asks_again = false;  // about those that wait, when the last one has come
  // Requests in order of `at`; they are filled in.
  void run(std::vector<Simulated>& requests);
  double now() const noexcept { return now_; }

 private:
  struct Open {
    Simulated* request;
    std::uint64_t number = 0;
    Predictor::Place place;
    std::uint32_t prompt_left = 0, generated = 0;
    bool follows = false;  // an earlier answer computes its prompt
    double first = 0;
  };
  Query query_of(const Simulated& request, std::uint64_t number) const;
  void arrive(Simulated& request);
  void ask_about_waiting();
  void begin();
  void step();

  Predictor& predictor_;
  std::uint32_t slots_;
  std::mt19937_64 draw_;
  double now_ = 0;
  std::uint64_t numbers_ = 0;
  std::deque<Open> waiting_;
  std::vector<Open> open_;
};

TimePoint at(double seconds);
// A machine with a processor and no GPU; both of its engines are available, and have the model.
policy::Facts machine();

}  // namespace flyball::predict
