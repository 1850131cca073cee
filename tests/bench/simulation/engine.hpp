// One simulated engine: the real Scheduler, StepCostFit and step budget of backends/engine over steps whose
// time comes from a cost model and recorded noise.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/engine/scheduler.hpp"
#include "backends/engine/step_cost.hpp"
#include "config/request_settings.hpp"
#include "tests/bench/simulation/machine.hpp"

namespace flyball::simulation {

// Tokens that a step gave one sequence.
struct Produced {
  std::uint64_t request = 0;
  bool first = false, last = false;
  std::uint32_t cached_tokens = 0;  // of the prompt, when its first step began
  std::uint32_t output_tokens = 0;  // so far
  double first_step = 0;            // when its first step began
};

class SimEngine {
 public:
  // Both outlive it. noise_seed: where in the recorded noise it begins; nullopt: steps have none.
  SimEngine(const EngineSpec& spec, const ModelSpec& model, std::optional<std::uint64_t> noise_seed);

  void load(std::uint64_t kv_bytes);
  void unload();  // precondition: no sequence is here
  bool loaded() const noexcept { return scheduler_.has_value(); }

  // A request of the app, which generates output_tokens.
  Result<void> submit(std::uint64_t request, const std::string& app, std::vector<Token> prompt,
                      std::uint32_t output_tokens, const config::RequestSettings& settings = {});
  // Begins a step if none is in flight and there is work.
  void begin_step(double now);
  bool stepping() const noexcept { return plan_.has_value(); }
  // Seconds that the step in flight still takes at full speed.
  double left() const noexcept { return left_; }
  void work(double seconds) noexcept { left_ -= seconds; }
  // Nothing is computed until it is released; a step in flight is given up at the end of a layer.
  void hold(bool held) noexcept;
  bool held() const noexcept { return held_; }
  // The step in flight is over.
  std::vector<Produced> end_step(double now);

  std::uint32_t open() const noexcept { return static_cast<std::uint32_t>(sequences_.size()); }
  std::uint32_t running() const noexcept { return scheduler_ ? scheduler_->running() : 0; }
  std::uint32_t kv_blocks() const noexcept { return kv_blocks_; }
  std::uint32_t kv_blocks_used() const noexcept { return scheduler_ ? scheduler_->kv().used() : 0; }
  std::uint64_t steps() const noexcept { return steps_; }
  bool balanced() const { return !scheduler_ || scheduler_->balanced(); }

  static constexpr std::uint32_t kSlots = 8;  // a model's max_sequences, as shipped

 private:
  struct Sequence {
    std::uint64_t request = 0;
    std::uint32_t prompt_tokens = 0, output_tokens = 0, made = 0, cached = 0;
    std::optional<double> first_step;
  };
  double noise(const engine::StepPlan& plan);
  void give_up() noexcept;

  const EngineSpec& spec_;
  const ModelSpec& model_;
  std::optional<std::uint64_t> noise_at_;
  std::optional<engine::Scheduler> scheduler_;
  engine::StepCostFit cost_;
  std::map<engine::SequenceId, Sequence> sequences_;
  engine::SequenceId last_id_ = 0;
  std::optional<engine::StepPlan> plan_;
  double began_ = 0, left_ = 0, layer_ = 0;
  bool given_up_ = false, held_ = false;
  std::uint32_t kv_blocks_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace flyball::simulation
