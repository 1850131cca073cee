#include "tests/bench/simulation/engine.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "backends/engine/step_budget.hpp"
#include "tests/bench/simulation/hash.hpp"
#include "tests/bench/simulation/noise.hpp"

namespace flyball::simulation {

SimEngine::SimEngine(const EngineSpec& spec, const ModelSpec& model, std::optional<std::uint64_t> noise_seed)
    : spec_(spec), model_(model), noise_at_(noise_seed), cost_(engine::cost_guess()) {}

void SimEngine::load(std::uint64_t kv_bytes) {
  engine::SchedulerLimits limits;
  limits.max_sequences = kSlots;
  kv_blocks_ = static_cast<std::uint32_t>(static_cast<double>(kv_bytes) /
                                          (model_.kv_bytes_per_token * limits.block_size));
  limits.kv_blocks = kv_blocks_;
  scheduler_.emplace(limits);
  cost_ = engine::StepCostFit(engine::cost_guess());
}

void SimEngine::unload() {
  scheduler_.reset();
}

Result<void> SimEngine::submit(std::uint64_t request, const std::string& app, std::vector<Token> prompt,
                               std::uint32_t output_tokens, const config::RequestSettings& settings) {
  Sequence sequence;
  sequence.request = request;
  sequence.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  sequence.output_tokens = output_tokens;
  const std::uint32_t most = sequence.prompt_tokens + output_tokens;
  if (auto taken = scheduler_->submit({++last_id_, app, std::move(prompt), most, settings}); !taken)
    return pass(taken);
  sequences_.emplace(last_id_, sequence);
  // Whoever arrives stops a step that may be stopped, at the end of a layer.
  if (plan_ && plan_->may_stop) give_up();
  return {};
}

void SimEngine::hold(bool held) noexcept {
  held_ = held;
  if (held && plan_) give_up();
}

void SimEngine::give_up() noexcept {
  if (std::exchange(given_up_, true)) return;
  left_ = std::min(left_, layer_);
}

void SimEngine::begin_step(double now) {
  if (plan_ || held_ || !scheduler_ || sequences_.empty()) return;
  engine::StepPlan plan = scheduler_->plan(engine::step_budget(cost_.cost(), true));
  if (plan.empty()) return;
  for (const engine::PlannedSequence& part : plan.sequences) {
    Sequence& sequence = sequences_.at(part.id);
    if (sequence.first_step) continue;
    sequence.first_step = now;
    sequence.cached = std::min(part.first_position, sequence.prompt_tokens);
  }
  began_ = now;
  left_ = step_seconds(spec_, model_, plan) * noise(plan);
  layer_ = left_ / model_.layers;
  given_up_ = false;
  plan_ = std::move(plan);
}

std::vector<Produced> SimEngine::end_step(double now) {
  const engine::StepPlan plan = *std::exchange(plan_, std::nullopt);
  std::vector<Produced> produced;
  if (given_up_) {
    scheduler_->retract();
    return produced;
  }
  ++steps_;
  std::vector<engine::StepResult> results;
  for (const engine::PlannedSequence& part : plan.sequences) {
    if (!part.want_logits) continue;
    Sequence& sequence = sequences_.at(part.id);
    ++sequence.made;
    const bool last = sequence.made == sequence.output_tokens;
    results.push_back(
        {.id = part.id,
         .ended = last,
         .token = static_cast<Token>(mixed((sequence.request << 20U) + sequence.made) & 0x7fffffffU)});
    produced.push_back(
        {sequence.request, sequence.made == 1, last, sequence.cached, sequence.made, *sequence.first_step});
  }
  scheduler_->commit(results);
  for (const engine::StepResult& result : results)
    if (result.ended) sequences_.erase(result.id);
  cost_.measured(plan.work, now - began_);
  return produced;
}

// Steps replay the recorded run in its order, so that slow moments of the host stay together.
double SimEngine::noise(const engine::StepPlan& plan) {
  if (!noise_at_) return 1;
  const bool decode = plan.work.tokens == plan.sequences.size();
  const std::span<const float> recorded = decode ? std::span<const float>(kDecodeNoise) : kPrefillNoise;
  return recorded[(*noise_at_)++ % recorded.size()];
}

}  // namespace flyball::simulation
