// Verdicts on the constraints of answers, which either compile or do not, before an engine is asked. The
// latest verdicts of each app are remembered, so that a constraint that it sends again costs one hash. One
// thread owns this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backends/constraint.hpp"
#include "config/error.hpp"

namespace flyball::api {

struct ConstraintVerdict {
  std::string kind = {};              // constrain::to_string
  std::string digest = {};            // constrain::digest_of
  std::optional<Error> refusal = {};  // of a constraint that does not compile, at most kMaxErrorBytes long
  std::uint64_t took_us = 0;          // to find it out
};

class ConstraintVerdicts {
 public:
  // Verdicts of each app: about 0.2 KB each, 1 KB where refused. More are seldom in use at once.
  static constexpr std::size_t kKept = 128;
  static constexpr std::size_t kMaxErrorBytes = 512;  // of message and place each: both quote the constraint

  // Returns nullopt where the constraint compiles, and the error of constrain::compile where it does not.
  // Tests have functions of their own.
  using Compile = std::optional<Error> (*)(const Constraint& constraint);
  static std::optional<Error> compile(const Constraint& constraint);

  explicit ConstraintVerdicts(Compile by) : compile_(by) {}

  // Takes at most about 100 ms where the verdict is not remembered. Each app has verdicts of its own: shared
  // ones would tell it by their time what others send, and would be lost to an app that sends many.
  ConstraintVerdict judge(std::string_view app, const Constraint& constraint);

 private:
  struct Kept {
    std::string digest;
    std::optional<Error> refusal;
  };

  Compile compile_;
  // The verdict used last in front. The apps are those of the configuration: few, and they stay.
  std::map<std::string, std::list<Kept>, std::less<>> by_app_;
};

// The refusal as an answer to a request whose constraint stands at `field`: the message names the field and
// the place in it.
Error refusal_at(const std::string& field, const Error& refusal);

}  // namespace flyball::api
