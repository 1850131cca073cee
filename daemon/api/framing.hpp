// How payloads become the body of an HTTP answer, and parts come out of the body of a request. Knows no API.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::api {

enum class StreamFraming : std::uint8_t {
  sse,     // server-sent events: "event: NAME" where the payload has a name, "data: PAYLOAD", a blank line
  ndjson,  // a line for each payload; names are left out
};

// The head of a streamed answer: its content type, and that nobody keeps it.
http::Response stream_head(StreamFraming framing);
// Bytes that keep a waiting client's connection alive and that it skips; "" where the framing has none.
std::string_view heartbeat(StreamFraming framing) noexcept;

// Wraps payloads. A payload is written into the string that begin() returns, between begin() and end(), and
// has no line end.
class Frames {
 public:
  Frames(StreamFraming framing, std::string& out) : framing_(framing), out_(out) {}
  std::string& begin(std::string_view name = {});
  void end();

 private:
  StreamFraming framing_;
  std::string& out_;
};

// One part of a multipart/form-data body (RFC 7578); views into it.
struct Part {
  // "" where the part does not say. A name with a backslash in quotes keeps it.
  std::string_view name, filename, content_type, body;
};
// At most 64 parts, each with at most 4 KiB of header. `content_type` is the request's field, which names the
// boundary. invalid_value: the body is not such a document.
Result<std::vector<Part>> read_multipart(std::string_view content_type, std::string_view body);

// One JSON document, with a line end behind it. 200.
http::Response json_response(std::string payload);

}  // namespace flyball::api
