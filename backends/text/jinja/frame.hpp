// One bounded C++ frame of the interpreter; included by its two translation units.
#pragma once

#include "backends/text/jinja/interpreter.hpp"

namespace flyball::text::jinja {

class Interpreter::Frame {
 public:
  explicit Frame(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter_.frames_left_ == 0) fail_budget("the chat template nests too deeply at run time");
    --interpreter_.frames_left_;
  }
  ~Frame() { ++interpreter_.frames_left_; }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace flyball::text::jinja
