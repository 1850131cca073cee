// The messages of a chat, written in the form that chat templates read.
#pragma once

#include <cstddef>
#include <string_view>

#include "daemon/api/json_rewriter.hpp"

namespace flyball::api {

class MessageWriter : public JsonRewriter {
 public:
  using JsonRewriter::JsonRewriter;

  void member(std::string_view name, std::string_view text) {
    key(name);
    string(text);
  }
  void open_message(std::string_view role) {
    ++written_;
    open(JsonKind::object);
    member("role", role);
  }
  void message(std::string_view role, std::string_view content) {
    open_message(role);
    member("content", content);
    close();
  }
  std::size_t written() const noexcept { return written_; }  // messages

 private:
  std::size_t written_ = 0;
};

}  // namespace flyball::api
