// An API that exists in tests alone, to show that a codec is a folder and a row: a key field and an error
// shape of its own, every operation, every event, every framing.
//
//   POST /toy/say[?as=lines|events]  {"say":TEXT,"n":N,"logprobs":true}; streamed where `as` says how;
//                                    there is no memory to parse a TEXT that begins with "too much"
//   POST /toy/upload                 multipart/form-data: the part "text" is the prompt
//   GET  /toy/models, /toy/models/ID, /toy/health, /toy/ready, /toy/metrics, /toy/receipts/ID
//   POST /toy/why                    {"model":ID}: explain
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/codec.hpp"

namespace flyball::testing::toy {

extern const api::Codec kCodec;

// A place where the parser of /toy/say waits with a body over 16 KiB, on whatever thread, until it is opened.
class Gate {
 public:
  void pass(std::string_view mark);  // the parser's
  void open();
  void await_entered(std::size_t bodies);
  std::vector<std::string> marks() const;  // the first two characters of each `say`, in order of parsing

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> marks_;
  bool open_ = false;
};
void set_gate(Gate* gate) noexcept;  // nullptr: none

}  // namespace flyball::testing::toy
