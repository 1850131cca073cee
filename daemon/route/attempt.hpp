// What to do when an engine fails under a request: try it again, move to the next target, or give up. Keeps
// what has been delivered, so that the next engine continues where the last one stopped. Pure: actions out,
// events in.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "backends/backend.hpp"
#include "policy/target.hpp"

namespace flyball::route {

class Attempt {
 public:
  // Each engine death costs a worker, and `disable_after` (3) deaths disable it for everybody: a request that
  // kills engines is stopped before it gets there.
  static constexpr std::uint32_t kMaxDeathsWithoutProgress = 2;
  static constexpr std::uint32_t kMaxAttempts = 5;

  struct Acquire {  // ask the fleet for its backend, then start with resume_tokens() and text_bytes()
    const policy::Target* target;
  };
  struct GiveUp {
    Error error;
  };
  using Action = std::variant<Acquire, GiveUp>;

  // In order of preference, the chosen one first, each engine once. They outlive this.
  explicit Attempt(std::vector<const policy::Target*> targets) : targets_(std::move(targets)) {}

  Action begin();
  Action unavailable(const Error& error);  // the fleet could not give it, or it refused to start
  Action failed(const Error& error);       // after it started
  void received(const Delta& delta);
  // The request was decided again and stays at its engine. Precondition: that is the first of both lists, and
  // it has not failed.
  void decided_again(std::vector<const policy::Target*> targets) { targets_ = std::move(targets); }

  const policy::Target& target() const noexcept { return *targets_[at_]; }
  const std::vector<Token>& resume_tokens() const noexcept { return tokens_; }
  std::uint64_t text_bytes() const noexcept { return text_bytes_; }
  std::uint32_t attempts() const noexcept { return attempts_; }

 private:
  Action next_target(const Error& error);
  Action again(const Error& error);
  bool resumable() const noexcept {
    return text_bytes_ == 0 || !tokens_.empty();
  }  // upstreams give no tokens

  std::vector<const policy::Target*> targets_;
  std::size_t at_ = 0;
  std::uint32_t attempts_ = 0;
  std::uint32_t deaths_ = 0;  // since the last token
  std::vector<Token> tokens_;
  std::uint64_t text_bytes_ = 0;
};

}  // namespace flyball::route
