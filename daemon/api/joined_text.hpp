// The texts of a message's parts as one, with a newline between them.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace flyball::api {

class JoinedText {
 public:
  void add(std::string_view text) {
    if (std::exchange(any_, true)) text_.push_back('\n');
    text_ += text;
  }
  bool any() const noexcept { return any_; }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
  bool any_ = false;
};

}  // namespace flyball::api
