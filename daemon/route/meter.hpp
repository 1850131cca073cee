// What one request needs and what it has used, answer by answer: its demand on the app's limits before it
// starts, its usage while it runs, and what it is charged with once it is over. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "daemon/predict/prompt_tokens.hpp"
#include "daemon/route/limits.hpp"

namespace flyball::route {

using predict::estimated_tokens;

// max_tokens: of each answer; 0: as many as the context leaves. context: tokens of a sequence.
Demand demand_of(std::span<const Prompt> prompts, std::uint32_t n, std::uint32_t max_tokens,
                 std::uint32_t context);

class Meter {
 public:
  // n answers to each prompt; the answers to one follow one another. context: tokens of a sequence, and the
  // most that any prompt counts for.
  Meter(std::span<const Prompt> prompts, std::uint32_t n, std::uint32_t context);

  void began(std::size_t answer) { answers_[answer].with_engine = true; }
  void failed(std::size_t answer) { answers_[answer].with_engine = false; }
  void received(std::size_t answer, const Delta& delta);
  void done(std::size_t answer, const Usage& usage);

  // Prompts once for the answers to them; those that no engine has counted yet as nothing.
  Usage usage() const;
  // The same, but a prompt that an engine is at counts as estimated: who leaves before the first token has
  // had it computed, or part of it.
  std::uint64_t charge() const;

 private:
  struct Answer {
    Usage usage;
    bool with_engine = false;
  };
  std::uint32_t n_;
  std::vector<std::uint64_t> estimates_;  // by prompt
  std::vector<Answer> answers_;
};

}  // namespace flyball::route
