// What one answer takes of its app's `limits.held_bytes`: the bytes that the daemon holds of it until its
// client has read them.
#pragma once

#include <cstdint>
#include <utility>

#include "config/error.hpp"
#include "daemon/route/held_bytes.hpp"

namespace flyball::api {

class AnswerShare {
 public:
  // limit: of the app's held bytes.
  AnswerShare(route::HeldBytes::Share held, std::uint64_t limit, bool is_streamed)
      : held_(std::move(held)), limit_(limit), is_streamed_(is_streamed) {}

  // The answer holds `bytes`. rate_limited: the app holds too much; invalid_value: this answer alone is too
  // much.
  Result<void> cover(std::uint64_t bytes);
  void shrink_to(std::uint64_t bytes) noexcept { held_.shrink_to(bytes); }

 private:
  route::HeldBytes::Share held_;
  const std::uint64_t limit_;
  const bool is_streamed_;
};

}  // namespace flyball::api
