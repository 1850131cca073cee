// How long a step may take, given what things cost. Whoever arrives while a long prompt is computed waits for
// the step in flight, streams get a token a step, and what is cancelled ends with one: so a step is about as
// long as a short prompt's own, whatever the device. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>

#include "backends/engine/step_cost.hpp"

namespace flyball::engine {

// No step aims at more, however slow the device, unless kLeastStepTokens take longer.
inline constexpr std::chrono::milliseconds kLongestStep{150};
inline constexpr std::uint32_t kLeastStepTokens = 16;  // below it weights are read for too few tokens
// Nobody notices a wait of so long: a fast device gains more by filling its steps.
inline constexpr std::chrono::milliseconds kUnnoticed{5};
// A prompt of so many tokens is short: it is computed in one step.
inline constexpr std::uint32_t kShortPrompt = 64;
// Part of a longer prompt adds this share of the time that a short prompt adds to a step without decodes. The
// step's own time (reading the weights) is not counted: on a GPU it left no room for prompts. Beside decodes
// a part has what they leave of it, and at least a quarter of the step.
inline constexpr double kPartShare = 0.8;
// Of a short prompt's time, what the rest of a guest's prompt may take to be computed in one step, whatever
// decodes beside it. Each step more would cost it those decodes once more.
inline constexpr double kGuestShare = 2;

struct StepBudget {
  StepCost cost;
  double whole = 0;       // seconds of a step beyond which no further prompt is computed to its end
  double part = 0;        // beyond which no further part of one is
  double alone = 0;       // the same where nobody waits for the step's end
  bool can_stop = false;  // the device can give up a step
  double guest = 0;       // `whole` for a guest's prompt, what decodes beside it not counted
  // Beyond which nothing is added to a step, decodes and guests' prompts counted; but the first prompt adds
  // what kLeastStepTokens take.
  double most = std::numeric_limits<double>::infinity();
  // If more than `alone`: instead of it, of a step that is given up when somebody arrives.
  double stoppable = 0;
};

// The step budgets of the sequences at the engine (config::RequestSettings).
struct AskedBudgets {
  std::uint32_t sequences = 0;
  std::uint32_t longer = 0;  // budgets over kLongestStep
  bool usual_waits = false;  // one that waits for a slot asks for no longer step
  std::optional<std::chrono::milliseconds> strictest;

  // Of a sequence that the step may hold.
  void add(const std::optional<std::chrono::milliseconds>& budget) noexcept;
  void add(const AskedBudgets& more) noexcept;
  // Of one that waits for a slot.
  void add_waiting(const std::optional<std::chrono::milliseconds>& budget) noexcept;
};

// Before anything is measured: a device on which kLeastStepTokens take kLongestStep.
StepCost cost_guess() noexcept;
StepBudget step_budget(const StepCost& cost, bool can_stop) noexcept;
// `usual` within the strictest of the budgets asked for. A budget up to kLongestStep only shortens a step,
// and not that of a sequence which is alone: it guards the sequence from prompts of others. A longer one
// lengthens `stoppable` alone, if every sequence at the engine asks for a longer one: whoever arrives waits
// no longer than without it.
StepBudget step_budget(const StepBudget& usual, const AskedBudgets& asked) noexcept;
// Where a token is the measure.
StepBudget token_budget(std::uint32_t n_tokens) noexcept;

}  // namespace flyball::engine
