// How far a request, or one attempt at it, has come. The one place that spells it: clients read it in
// receipts, and the store keeps it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "config/error.hpp"

namespace flyball::route {

class RunState {
 public:
  enum class Kind : std::uint8_t {
    waiting,    // for its turn at an engine, or for the engine
    parked,     // no engine of the policy's choice is available; the request is decided again
    running,    // an engine computes it
    explained,  // it was decided only
    done,       // it was answered to its end
    cancelled,  // its client left
    moved,      // an attempt that its request gave up: in line, because it was decided again for another
                // target, or at work, because the chosen engine has loaded the model
    failed,     // code() says why
    foreign,    // recorded by a version of this program that knows more states
  };

  RunState(Kind kind = Kind::waiting)
      : kind_(kind) {}  // NOLINT(google-explicit-constructor); not failed, foreign
  // ErrorCode::cancelled gives Kind::cancelled.
  static RunState failed(ErrorCode code) {
    RunState out(code == ErrorCode::cancelled ? Kind::cancelled : Kind::failed);
    out.code_ = code;
    return out;
  }
  // The reverse of text(). Text that this version does not know comes back as it was.
  static RunState read(std::string_view text);

  Kind kind() const noexcept { return kind_; }
  ErrorCode code() const noexcept { return code_; }  // precondition: failed
  // It may still change.
  bool open() const noexcept {
    return kind_ == Kind::waiting || kind_ == Kind::parked || kind_ == Kind::running;
  }
  // "waiting", "parked", "running", "explained", "done", "cancelled", "moved" or an ErrorCode's spelling. Lives as
  // long as this.
  std::string_view text() const noexcept;

  bool operator==(const RunState& other) const noexcept { return text() == other.text(); }

 private:
  Kind kind_;
  ErrorCode code_ = ErrorCode::internal;
  std::string foreign_;
};

}  // namespace flyball::route
