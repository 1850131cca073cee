// Constraints compiled for one model, kept under a bound, each owner's apart: the time of a shared one would
// tell an app about the others. One thread's own: the one that compiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "backends/constrain/program.hpp"
#include "backends/constrain/vocabulary.hpp"
#include "backends/constraint.hpp"
#include "backends/engine/marker_tokens.hpp"
#include "backends/text/tokenizer.hpp"
#include "config/error.hpp"

namespace flyball::engine {

struct CompiledConstraint {
  std::shared_ptr<const constrain::Program> program;
  std::shared_ptr<const constrain::Vocabulary> vocabulary;
  std::shared_ptr<const MarkerTokens> markers = nullptr;  // null: no control token stands for text
};

class ConstraintCache {
 public:
  static constexpr std::size_t kPrograms = 256;
  static constexpr std::size_t kBytes = std::size_t{64} << 20U;  // of programs; answers may hold more

  // The tokenizer outlives this; tokens below vocab_size may be sampled.
  ConstraintCache(const text::Tokenizer& tokenizer, std::uint32_t vocab_size,
                  const AnswerForm& form = {}) noexcept
      : tokenizer_(&tokenizer), vocab_size_(vocab_size), form_(form) {}

  // Fails as constrain::compile does. marks_control: as in the request. The first call lays out the
  // vocabulary, and so does the first of those that mark, where the model has markers: some 0.1 s for 150,000
  // tokens.
  Result<CompiledConstraint> compiled(const std::string& owner, const Constraint& constraint,
                                      bool marks_control = false);
  std::size_t size() const noexcept { return programs_.size(); }

 private:
  struct Kept {
    std::string key;  // owner and digest
    std::shared_ptr<const constrain::Program> program;
  };
  CompiledConstraint with(std::shared_ptr<const constrain::Program> program, bool marks_control);
  void keep(std::string key, std::shared_ptr<const constrain::Program> program);

  const text::Tokenizer* tokenizer_;
  std::uint32_t vocab_size_;
  AnswerForm form_;
  std::shared_ptr<const MarkerTokens> markers_;                       // null until they are needed
  std::shared_ptr<const constrain::Vocabulary> vocabulary_, marked_;  // the same
  std::list<Kept> programs_;                                          // the one used last is first
  std::unordered_map<std::string, std::list<Kept>::iterator> by_key_;
  std::size_t bytes_ = 0;
};

}  // namespace flyball::engine
