// How the interpreter stops: a Failure is thrown anywhere inside jinja/ and turned into a flyball::Error by
// chat_template.cpp; it never leaves this room. The Budget is what a render may still spend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "config/error.hpp"

namespace flyball::text::jinja {

struct Failure {
  ErrorCode code;
  std::string message;
  std::uint32_t line = 0;  // 1-based; 0 where the thrower does not know it
};

[[noreturn]] void fail_template(std::string message, std::uint32_t line = 0);
[[noreturn]] void fail_budget(std::string message, std::uint32_t line = 0);

// Every step, element and 16 bytes copied cost one unit; spending comes before the work it pays for.
class Budget {
 public:
  explicit Budget(std::uint64_t fuel) : fuel_(fuel), total_(fuel) {}
  void spend(std::uint64_t units) {
    if (units > fuel_) exhausted();
    fuel_ -= units;
  }
  void spend_bytes(std::size_t bytes) { spend(bytes / 16 + 1); }
  std::uint64_t left() const noexcept { return fuel_; }

 private:
  [[noreturn]] void exhausted() const;
  std::uint64_t fuel_, total_;
};

}  // namespace flyball::text::jinja
