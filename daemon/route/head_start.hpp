// Begins an answer at an engine that is loaded while the chosen one loads the model, and goes on at the
// chosen one once that is ready. Whether that pays, by predictions. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace flyball::route {

struct HeadStart {
  const policy::Target* from = nullptr;  // where the answer begins
  const policy::Target* to = nullptr;    // the chosen one, which has to load the model
  double tokens = 0;                     // of the answer, expected
  double prompt = 0;                     // tokens, estimated
  double prefill_us = 0;                 // of the prompt, at `to` once it has loaded the model
  double from_tpot_us = 0, to_tpot_us = 0;
  double from_ttft_us = 0, to_ttft_us = 0;

  // The rest of the answer should end sooner at `to`, which is ready now, than where it is: of a prompt of so
  // many tokens (0: not counted yet) so many have been generated. An answer that has reached its expected
  // length is taken to go on for a quarter of it.
  bool goes_on(std::uint32_t prompt_tokens, std::size_t generated) const noexcept;
  // "at cpu, where the first token should come after 0.2 s, and after 5.3 s at opencl, which loads the model
  // first"
  std::string text() const;
};

// nullopt: the rule of the decision does not ask for it (on_cold), the chosen engine is loaded, or no other
// of the `possible` targets is loaded on this machine, begins clearly earlier and ends the answer no later
// than the chosen one would alone. Of several the one that begins first. `facts` are those the decision was
// taken on; prompt_tokens: estimated.
std::optional<HeadStart> head_start_of(const policy::Decision& decision, const policy::Facts& facts,
                                       std::span<const policy::Target* const> possible, double prompt_tokens);

}  // namespace flyball::route
