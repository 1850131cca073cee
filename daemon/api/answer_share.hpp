// One answer's share of its app's `limits.held_bytes`: the bytes that the daemon holds of it until its client
// has read them.
#pragma once

#include <cstdint>
#include <utility>

#include "config/error.hpp"
#include "daemon/api/operation.hpp"
#include "daemon/route/held_bytes.hpp"

namespace flyball::api {

class AnswerShare {
 public:
  // limit: of the app's held bytes. body_bytes: of the request, whose share the app holds as long as the
  // answer grows.
  AnswerShare(route::HeldBytes::Share held, std::uint64_t limit, std::uint64_t body_bytes, Remedy remedy)
      : held_(std::move(held)), limit_(limit), body_bytes_(body_bytes), remedy_(remedy) {}

  // The answer holds `bytes`. rate_limited: the app holds too much; invalid_value: this answer and its
  // request alone are too much.
  Result<void> cover(std::uint64_t bytes);
  void shrink_to(std::uint64_t bytes) noexcept { held_.shrink_to(bytes); }

 private:
  route::HeldBytes::Share held_;
  const std::uint64_t limit_, body_bytes_;
  const Remedy remedy_;
};

}  // namespace flyball::api
