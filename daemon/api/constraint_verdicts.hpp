// Whether the constraints of answers compile, found out before an engine is asked. The latest verdicts are
// remembered, so that a constraint that an app sends again costs one hash. One thread owns this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

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
  static constexpr std::size_t kKept = 1024;          // about 0.2 KB each, 1 KB where refused
  static constexpr std::size_t kMaxErrorBytes = 512;  // of message and place each: both quote the constraint

  // nullopt: it compiles. As constrain::compile; tests have their own.
  using Compile = std::optional<Error> (*)(const Constraint& constraint);
  static std::optional<Error> compile(const Constraint& constraint);

  explicit ConstraintVerdicts(Compile by) : compile_(by) {}

  // At most about 100 ms where it is not remembered. Each app has verdicts of its own: their time would tell
  // it what others send.
  ConstraintVerdict judge(std::string_view app, const Constraint& constraint);

 private:
  struct Kept {
    std::string key;  // app and digest
    std::optional<Error> refusal;
  };

  Compile compile_;
  std::list<Kept> kept_;  // the one used last in front
  std::unordered_map<std::string_view, std::list<Kept>::iterator> by_key_;
};

// The refusal as an answer to a request whose constraint stands at `field`: the message names the field and
// the place in it.
Error refusal_at(const std::string& field, const Error& refusal);

}  // namespace flyball::api
