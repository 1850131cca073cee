// A place in a word of a grammar: it takes bytes, goes back, and is copied to fork. Not thread-safe; the
// copies share one automaton.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/constrain/automaton.hpp"
#include "config/error.hpp"

namespace flyball::constrain {

class Matcher {
 public:
  // Tokens that rollback() can take back: more than any speculation proposes.
  static constexpr std::size_t kHistory = 64;

  // At the beginning. Fails with unsupported_feature if the grammar is too ambiguous to begin.
  static Result<Matcher> begin(std::shared_ptr<Automaton> automaton);
  Matcher(const Matcher& other);
  Matcher(Matcher&& other) noexcept;
  Matcher& operator=(Matcher other) noexcept;
  ~Matcher();

  // One token's bytes. false: no word goes on so, and the matcher stays where it was. Fails with
  // unsupported_feature where the text meets a limit of the automaton; then, too, it stays.
  Result<bool> accept(std::string_view bytes);
  // Takes back the latest `tokens` accepted ones; false, and nothing is taken back, if there are not as many.
  bool rollback(std::size_t tokens);

  bool can_end() const { return automaton_->can_end(now()); }  // the bytes so far are a word
  bool takes_no_bytes() const { return automaton_->bytes_after(now()).none(); }  // as after a whole word

  Automaton::SetId now() const { return history_.back(); }
  const std::shared_ptr<Automaton>& automaton() const noexcept { return automaton_; }

 private:
  explicit Matcher(std::shared_ptr<Automaton> automaton);

  std::shared_ptr<Automaton> automaton_;
  std::vector<Automaton::SetId> history_;  // held; the last one is now
};

// The error of the latest step that led to Automaton::kOverflow: the limit that it met.
std::unexpected<Error> overflow(const Automaton& automaton);

}  // namespace flyball::constrain
