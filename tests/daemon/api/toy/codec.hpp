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
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/codec.hpp"

namespace flyball::testing::toy {

extern const api::Codec kCodec;

// A place where the parser of /toy/say waits with a body over 16 KiB, on whatever thread, until it is let in.
class Gate {
 public:
  void pass(std::string_view mark, const std::string& body);  // the parser's
  void let_in(std::size_t bodies);                            // so many of all that come; the others wait
  void open() { let_in(SIZE_MAX); }
  void await_entered(std::size_t bodies);
  std::vector<std::string> marks() const;  // the first two characters of each `say`, in order of parsing
  std::vector<std::size_t> rooms() const;  // the capacity of each body, in the same order

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> marks_;
  std::vector<std::size_t> rooms_;
  std::size_t let_in_ = 0;
};
void set_gate(Gate* gate) noexcept;  // nullptr: none

}  // namespace flyball::testing::toy
