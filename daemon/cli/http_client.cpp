#include "daemon/cli/http_client.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "config/yaml.hpp"

namespace flyball::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

template <class Protocol>
using Stream = beast::basic_stream<Protocol, asio::any_io_executor>;

Error error_of(const error_code& ec, const std::string& base) {
  const ErrorCode code = ec == beast::error::timeout ? ErrorCode::upstream_timeout
                         : ec.category() == http::make_error_code(http::error::end_of_stream).category()
                             ? ErrorCode::upstream_invalid
                             : ErrorCode::upstream_refused;
  return Error{code, base + ": " + ec.message(), {}, {}};
}

// Each step is started with the stream's deadline set and the context run until it has ended.
template <class Protocol>
Result<HttpAnswer> exchange(asio::io_context& io, Stream<Protocol>& stream,
                            const http::request<http::empty_body>& request, const std::string& base) {
  error_code failed;
  const auto step = [&](auto start) {
    io.restart();
    start([&](error_code ec, std::size_t) { failed = ec; });
    io.run();
    return !failed;
  };
  if (!step([&](auto done) { http::async_write(stream, request, done); }))
    return std::unexpected(error_of(failed, base));
  beast::flat_buffer buffer(kMaxAnswerBytes);
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxAnswerBytes);
  if (!step([&](auto done) { http::async_read(stream, buffer, parser, done); }))
    return std::unexpected(error_of(failed, base));
  return HttpAnswer{parser.get().result_int(), std::move(parser.get().body())};
}

}  // namespace

Result<HttpAnswer> http_get(const std::string& base, const std::string& target, const std::string& key,
                            std::chrono::milliseconds timeout) {
  http::request<http::empty_body> request(http::verb::get, target, 11);
  request.set(http::field::accept, "application/json");
  request.set(http::field::connection, "close");
  if (!key.empty()) request.set(http::field::authorization, "Bearer " + key);
  asio::io_context io;
  error_code failed;

  if (base.starts_with("unix:/")) {
    request.set(http::field::host, "localhost");
    Stream<asio::local::stream_protocol> stream(io.get_executor());
    const std::string path = base.substr(5);
    if (path.size() >= 108)
      return fail(ErrorCode::invalid_value, "the path of the unix socket is too long: " + path);
    stream.expires_after(timeout);
    stream.async_connect(asio::local::stream_protocol::endpoint(path), [&](error_code ec) { failed = ec; });
    io.run();
    if (failed) return std::unexpected(error_of(failed, base));
    return exchange(io, stream, request, base);
  }

  constexpr std::string_view kScheme = "http://";
  std::string authority = base.starts_with(kScheme) ? base.substr(kScheme.size()) : std::string();
  while (authority.ends_with('/')) authority.pop_back();
  std::string host = authority, port = "80";
  if (const std::size_t colon = authority.rfind(':');
      colon != std::string::npos && !authority.ends_with(']')) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find('/') != std::string::npos ||
      port.find_first_not_of("0123456789") != std::string::npos)
    return fail(ErrorCode::invalid_value,
                "expected a URL such as http://127.0.0.1:8080 or unix:/run/flyball/flyball.sock, got \"" +
                    base + "\"");
  request.set(http::field::host, authority);
  asio::ip::tcp::resolver resolver(io);
  const auto endpoints = resolver.resolve(host, port, failed);
  if (failed) return std::unexpected(error_of(failed, base));
  Stream<asio::ip::tcp> stream(io.get_executor());
  stream.expires_after(timeout);
  stream.async_connect(endpoints, [&](error_code ec, const asio::ip::tcp::endpoint&) { failed = ec; });
  io.run();
  if (failed) return std::unexpected(error_of(failed, base));
  return exchange(io, stream, request, base);
}

Result<std::string> key_in(const std::filesystem::path& file) {
  constexpr std::size_t kMaxKeyFileBytes = 4096;
  auto key = config::read_text_file(file, kMaxKeyFileBytes);
  while (key && !key->empty() && (key->back() == '\n' || key->back() == '\r')) key->pop_back();
  return key;
}

}  // namespace flyball::cli
