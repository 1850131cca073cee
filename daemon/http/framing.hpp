// Our own framing rules for HTTP/1.1, decided on bytes before any parser sees them. Stricter than RFC 9112
// wherever leniency has been a smuggling vector; docs/http-api.md lists the rules. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/error.hpp"

namespace flyball::http {

struct HeadLimits {
  std::size_t bytes = 16 * 1024;  // request line, fields and the blank line
  std::size_t fields = 100;
  bool host_required = true;  // a Host field, or the head is refused
};

struct Head {
  std::size_t size = 0;  // bytes up to and with the blank line
  std::string_view method;
  std::string_view target;          // as sent: a path, or a URL with http:// or https:// (absolute form)
  std::string_view path_and_query;  // of the target; of a URL without a path it is empty or begins with '?'
  std::string_view host;            // a URL's host and port, else the Host field
  std::string_view origin;          // the Origin field: a browser names the page's origin; "": none
  bool http_1_0 = false;
  bool chunked = false;
  std::optional<std::uint64_t> content_length;  // absent: no body, or chunked
  bool expect_continue = false;
  bool keep_alive = true;

  std::string origin_form() const;  // path_and_query with the path that it must have
};

// Bytes of the empty lines that `buffered` begins with. They are no part of a request (RFC 9112,
// section 2.2): some clients end a body with a line end that its length does not count.
std::size_t empty_lines(std::string_view buffered) noexcept;

// Finds and judges a request head in a growing buffer. Refuses as soon as a byte can no longer be right, so
// that a bad request need not wait for its blank line.
class HeadScanner {
 public:
  explicit HeadScanner(HeadLimits limits) : limits_(limits) {}
  // `buffered` holds all bytes since the request began (each call the same plus more). nullopt: read on.
  // bad_framing or headers_too_large: answer and close; nothing behind the offending byte may be parsed.
  Result<std::optional<Head>> scan(std::string_view buffered);
  void restart() noexcept { scanned_ = 0; }

 private:
  HeadLimits limits_;
  std::size_t scanned_ = 0;  // bytes already known to be free of stray control characters
};

}  // namespace flyball::http
