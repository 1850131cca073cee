#include "daemon/http/request_parser.hpp"

#include <exception>
#include <string>
#include <utility>

#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>

#include "daemon/http/spare_body.hpp"

namespace flyball::http {

namespace beast_http = boost::beast::http;

struct RequestParser::State {
  // A body in a string. Beast's string_body writes zeros over each piece's place before it copies the piece.
  struct AppendedBody {
    using value_type = std::string;

    class reader {  // Beast's name
     public:
      template <bool isRequest, class Fields>
      reader(beast_http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
      void init(const boost::optional<std::uint64_t>& length, boost::beast::error_code& ec) {
        // begin() has looked at http.body_bytes.
        if (length && body_.capacity() < *length) body_.reserve(SpareBody::room_for(*length));
        ec = {};
      }
      template <class Buffers>
      std::size_t put(const Buffers& pieces, boost::beast::error_code& ec) {
        const std::size_t before = body_.size();
        for (const boost::asio::const_buffer piece : boost::beast::buffers_range_ref(pieces))
          body_.append(static_cast<const char*>(piece.data()), piece.size());
        ec = {};
        return body_.size() - before;
      }
      void finish(boost::beast::error_code& ec) { ec = {}; }

     private:
      value_type& body_;
    };
  };

  beast_http::request_parser<AppendedBody> parser;
  Request request;
  std::uint64_t max_body = 0;
};

namespace {

constexpr std::size_t kShortestChunked = 5;

Error bad(const char* what) {
  return Error{ErrorCode::bad_framing, what, {}, {}};
}

Error too_large(std::uint64_t limit) {
  return Error{
      ErrorCode::body_too_large, "The body is longer than " + std::to_string(limit) + " bytes.", {}, {}};
}

// Beast reports some refusals by exception (a trailer field over 64 KiB throws std::length_error): nothing of
// it may leave this file.
Result<std::size_t> put(auto& parser, std::string_view bytes, std::uint64_t max_body) {
  boost::beast::error_code ec;
  std::size_t used = 0;
  try {
    used = parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), ec);
  } catch (const std::exception&) {
    return std::unexpected(bad("The message framing is malformed."));
  }
  if (!ec || ec == beast_http::error::need_more) return used;
  if (ec == beast_http::error::body_limit || ec == beast_http::error::buffer_overflow)
    return std::unexpected(too_large(max_body));
  return std::unexpected(bad("The message framing is malformed."));
}

}  // namespace

RequestParser::RequestParser(std::unique_ptr<State> state) : state_(std::move(state)) {}
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;
RequestParser::~RequestParser() = default;

Result<RequestParser> RequestParser::begin(const Head& head, std::string_view head_bytes,
                                           std::uint64_t max_body) {
  if (head.content_length && *head.content_length > max_body) return std::unexpected(too_large(max_body));
  auto state = std::make_unique<State>();
  auto& parser = state->parser;
  parser.header_limit(static_cast<std::uint32_t>(head_bytes.size() + 1));
  parser.body_limit(max_body);
  parser.eager(false);
  auto used = put(parser, head_bytes, max_body);
  if (!used) return pass(used);
  if (*used != head_bytes.size() || !parser.is_header_done())
    return std::unexpected(bad("The header is malformed."));
  parser.eager(true);

  Request& request = state->request;
  const auto& message = parser.get();
  request.method.assign(message.method_string().data(), message.method_string().size());
  request.target = head.origin_form();
  request.host.assign(head.host);
  request.content_length = head.content_length;
  request.chunked = head.chunked;
  for (const auto& field : message)
    request.fields.push_back({std::string(field.name_string().data(), field.name_string().size()),
                              std::string(field.value().data(), field.value().size())});
  state->max_body = max_body;
  // Beast and our own reading of the same bytes must agree, or neither can be trusted.
  const std::string_view target(message.target().data(), message.target().size());
  const bool agrees = request.method == head.method && target == head.target &&
                      parser.chunked() == head.chunked &&
                      parser.content_length().has_value() == head.content_length.has_value() &&
                      (!head.content_length || *parser.content_length() == *head.content_length);
  if (!agrees) return std::unexpected(bad("The header is ambiguous."));
  return RequestParser(std::move(state));
}

Result<std::size_t> RequestParser::feed(std::string_view bytes) {
  // Beast 1.81 asserts when it has seen "0\r\n" and is given the fourth byte alone; no chunked body is
  // shorter than "0\r\n\r\n", so it gets to see none that short.
  if (state_->request.chunked && !done() && bytes.size() < kShortestChunked) return 0;
  std::size_t total = 0;
  while (!done() && total < bytes.size()) {
    auto used = put(state_->parser, bytes.substr(total), state_->max_body);
    if (!used) return pass(used);
    if (*used == 0) break;
    total += *used;
  }
  if (!done() && bytes.size() - total > kMaxChunkMeta)
    return std::unexpected(bad("A chunk extension or trailer is too long."));
  return total;
}

void RequestParser::put_body_in(std::string room) {
  room.clear();
  state_->parser.get().body() = std::move(room);
}

std::uint64_t RequestParser::body_left() const noexcept {
  return state_->parser.content_length_remaining().value_or(0);
}

bool RequestParser::done() const noexcept {
  return state_->parser.is_done();
}

const Request& RequestParser::request() const noexcept {
  return state_->request;
}

Request RequestParser::take() {
  Request out = std::move(state_->request);
  out.body = std::move(state_->parser.get().body());
  return out;
}

}  // namespace flyball::http
