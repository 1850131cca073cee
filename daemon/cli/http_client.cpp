#include "daemon/cli/http_client.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <sys/stat.h>
#include <sys/un.h>
#include <charconv>

#include "config/name_list.hpp"
#include "config/units.hpp"
#include "config/yaml.hpp"

namespace flyball::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

template <class Protocol>
using Stream = beast::basic_stream<Protocol, asio::any_io_executor>;

constexpr const char* kNameAnother = "name another URL with --url";
constexpr const char* kNoDaemon = "the server there is no Flyball daemon: name the daemon's URL with --url";

// The cause of a failed exchange with a server that accepted the connection.
Error exchange_error(const error_code& ec, const std::string& base, std::chrono::milliseconds timeout) {
  if (ec == beast::error::timeout)
    return Error{ErrorCode::upstream_timeout,
                 "no answer from " + base + " within " + config::format_duration(timeout) +
                     ": the daemon is overloaded, or " + kNoDaemon,
                 {},
                 {}};
  if (ec == http::error::body_limit || ec == http::error::buffer_overflow)
    return Error{ErrorCode::upstream_invalid,
                 "the answer of " + base + " is over the limit of " + config::format_bytes(kMaxAnswerBytes) +
                     ": " + kNoDaemon,
                 {},
                 {}};
  if (ec == http::error::end_of_stream || ec == http::error::partial_message ||
      ec.category() == boost::system::system_category())
    return Error{ErrorCode::upstream_invalid,
                 base +
                     " closed the connection before its answer was complete: the daemon has just ended, or " +
                     kNoDaemon,
                 {},
                 {}};
  return Error{ErrorCode::upstream_invalid,
               base + " does not answer in HTTP (" + ec.message() + "): " + kNoDaemon,
               {},
               {}};
}

// The cause of a TCP connection that was not made.
Error tcp_error(const error_code& ec, const std::string& base, std::chrono::milliseconds timeout) {
  if (ec == beast::error::timeout)
    return Error{ErrorCode::upstream_timeout,
                 "no connection to " + base + " within " + config::format_duration(timeout) +
                     ": the machine is off, or a firewall drops the connection; " + kNameAnother,
                 {},
                 {}};
  return Error{ErrorCode::upstream_refused,
               "no daemon answers at " + base + " (" + ec.message() +
                   "): start it with `flyball serve`, or " + kNameAnother,
               {},
               {}};
}

// The cause of a connection to the unix socket `path` that was not made.
Error unix_error(const error_code& ec, const std::string& base, const std::string& path,
                 std::chrono::milliseconds timeout) {
  if (ec == beast::error::timeout) return exchange_error(ec, base, timeout);
  std::string cause = "no daemon answers at " + base + " (" + ec.message() + ")";
  struct stat info {};
  if (ec == boost::system::errc::permission_denied)
    return Error{ErrorCode::upstream_refused,
                 "this user may not connect to " + base +
                     ": run the command as the daemon's user, or as a member of the socket's group",
                 {},
                 {}};
  if (ec == boost::system::errc::no_such_file_or_directory)
    cause = "no daemon answers at " + base + ": there is no such socket";
  else if (ec == boost::system::errc::connection_refused)
    cause = ::stat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)
                ? "no daemon answers at " + base + ": that file is no socket"
                : "no daemon answers at " + base + ": the daemon that made this socket has ended";
  return Error{ErrorCode::upstream_refused,
               std::move(cause) + "; start it with `flyball serve`, or " + kNameAnother,
               {},
               {}};
}

// Each step is started with the stream's deadline set and the context run until it has ended.
template <class Protocol>
Result<HttpAnswer> exchange(asio::io_context& io, Stream<Protocol>& stream,
                            const http::request<http::string_body>& request, const std::string& base,
                            std::chrono::milliseconds timeout) {
  error_code failed;
  const auto step = [&](auto start) {
    io.restart();
    start([&](error_code ec, std::size_t) { failed = ec; });
    io.run();
    return !failed;
  };
  if (!step([&](auto done) { http::async_write(stream, request, done); }))
    return std::unexpected(exchange_error(failed, base, timeout));
  beast::flat_buffer buffer(kMaxAnswerBytes);
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxAnswerBytes);
  if (!step([&](auto done) { http::async_read(stream, buffer, parser, done); }))
    return std::unexpected(exchange_error(failed, base, timeout));
  return HttpAnswer{parser.get().result_int(), std::move(parser.get().body())};
}

Result<HttpAnswer> ask(const std::string& base, http::request<http::string_body> request,
                       const std::string& key, std::chrono::milliseconds timeout) {
  request.set(http::field::accept, "application/json");
  request.set(http::field::connection, "close");
  if (!key.empty()) request.set(http::field::authorization, "Bearer " + key);
  asio::io_context io;
  error_code failed;

  if (base.starts_with("unix:/")) {
    request.set(http::field::host, "localhost");
    Stream<asio::local::stream_protocol> stream(io.get_executor());
    const std::string path = base.substr(5);
    constexpr std::size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;
    if (path.size() > kMaxPathBytes)
      return fail(ErrorCode::invalid_value, "the path of the unix socket " + config::quoted(path) + " has " +
                                                std::to_string(path.size()) + " bytes, the limit is " +
                                                std::to_string(kMaxPathBytes));
    stream.expires_after(timeout);
    stream.async_connect(asio::local::stream_protocol::endpoint(path), [&](error_code ec) { failed = ec; });
    io.run();
    if (failed) return std::unexpected(unix_error(failed, base, path, timeout));
    return exchange(io, stream, request, base, timeout);
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
  std::uint16_t number = 0;
  const auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (host.empty() || host.find('/') != std::string::npos || wrong != std::errc{} || number == 0 ||
      end != port.data() + port.size())
    return fail(ErrorCode::invalid_value,
                "expected a URL such as http://127.0.0.1:8080 or unix:/run/flyball/flyball.sock, got " +
                    config::quoted(base));
  request.set(http::field::host, authority);
  asio::ip::tcp::resolver resolver(io);
  const auto endpoints = resolver.resolve(host, port, failed);
  if (failed)
    return fail(ErrorCode::upstream_refused, "the host name " + config::quoted(host) + " of " + base +
                                                 " has no address (" + failed.message() +
                                                 "): correct the name, or give an address such as 127.0.0.1");
  Stream<asio::ip::tcp> stream(io.get_executor());
  stream.expires_after(timeout);
  stream.async_connect(endpoints, [&](error_code ec, const asio::ip::tcp::endpoint&) { failed = ec; });
  io.run();
  if (failed) return std::unexpected(tcp_error(failed, base, timeout));
  return exchange(io, stream, request, base, timeout);
}

}  // namespace

Result<HttpAnswer> http_get(const std::string& base, const std::string& target, const std::string& key,
                            std::chrono::milliseconds timeout) {
  return ask(base, {http::verb::get, target, 11}, key, timeout);
}

Result<HttpAnswer> http_post(const std::string& base, const std::string& target, std::string json,
                             const std::string& key, std::chrono::milliseconds timeout) {
  http::request<http::string_body> request(http::verb::post, target, 11, std::move(json));
  request.set(http::field::content_type, "application/json");
  request.prepare_payload();
  return ask(base, std::move(request), key, timeout);
}

Result<std::string> key_in(const std::filesystem::path& file) {
  constexpr std::size_t kMaxKeyFileBytes = 4096;
  auto key = config::read_text_file(file, kMaxKeyFileBytes);
  while (key && !key->empty() && (key->back() == '\n' || key->back() == '\r')) key->pop_back();
  return key;
}

}  // namespace flyball::cli
