// The events of one batch and the bytes that they show: pieces of one kind become one event.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "daemon/api/answer.hpp"

namespace flyball::api::calls {

class EventBatch {
 public:
  void begin() { strings_.clear(); }  // views that were given before are gone

  void text(std::string_view bytes) { add(Kind::text, bytes); }
  void reasoning(std::string_view bytes) { add(Kind::reasoning, bytes); }
  void arguments(std::string_view json) { add(Kind::arguments, json); }  // of the latest call
  void begin_call(std::string_view id, std::string_view name);
  void end_call(bool complete);
  std::uint32_t calls() const noexcept { return calls_; }  // that have begun

  // Moves the events so far to `out`. Their views are valid until begin().
  void move_to(AnswerEvents& out);

 private:
  enum class Kind : std::uint8_t { none, text, reasoning, arguments };

  void add(Kind kind, std::string_view bytes) {
    if (bytes.empty()) return;
    if (kind != kind_) {
      finish();
      kind_ = kind;
    }
    piece_ += bytes;
  }
  void finish();
  std::string_view keep(std::string bytes) { return strings_.emplace_back(std::move(bytes)); }

  Kind kind_ = Kind::none;
  std::string piece_;  // of this kind
  std::deque<std::string> strings_;
  AnswerEvents events_;
  std::uint32_t calls_ = 0;
};

}  // namespace flyball::api::calls
