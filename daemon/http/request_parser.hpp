// Boost.Beast's HTTP/1 parser, fed from memory: fields of a head that framing.hpp has passed, then the body
// (Content-Length or chunked). Beast appears in request_parser.cpp only. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "config/error.hpp"
#include "daemon/http/framing.hpp"
#include "daemon/http/message.hpp"

namespace flyball::http {

class RequestParser {
 public:
  // A chunk header (with its extensions) or the trailer section must fit this many bytes.
  static constexpr std::size_t kMaxChunkMeta = 16 * 1024;

  // `head_bytes` are the head.size bytes that HeadScanner judged. bad_framing where Beast disagrees.
  static Result<RequestParser> begin(const Head& head, std::string_view head_bytes, std::uint64_t max_body);
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;
  ~RequestParser();

  // Takes body bytes from the front of `bytes`; how many it used. What it leaves must come again with more
  // behind it. bad_framing (malformed or oversized chunk framing), body_too_large.
  Result<std::size_t> feed(std::string_view bytes);
  // Puts the body into the memory of `room`, whose own bytes are dropped. Before the first feed().
  void put_body_in(std::string room);
  std::uint64_t body_left() const noexcept;  // bytes to come of a Content-Length; 0: none, or chunked
  bool done() const noexcept;

  const Request& request() const noexcept;  // without its body
  Request take();                           // with it; once done()

 private:
  struct State;
  explicit RequestParser(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace flyball::http
