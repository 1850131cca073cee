#include "daemon/hub/http_source.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "config/name_list.hpp"
#include "config/units.hpp"

namespace flyball::hub {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using Tcp = beast::basic_stream<asio::ip::tcp, asio::any_io_executor>;
using Tls = asio::ssl::stream<Tcp&>;

constexpr std::size_t kPieceBytes = 256U << 10;

std::unexpected<Failure> failed(ErrorCode code, std::string message, bool passing) {
  return std::unexpected(Failure{Error{code, std::move(message), {}, {}}, passing});
}

std::unexpected<Failure> exchange_failure(const error_code& ec, const Url& url, std::chrono::seconds idle) {
  if (ec == beast::error::timeout)
    return failed(ErrorCode::upstream_timeout,
                  url.shown() + " sent nothing for " + config::format_duration(idle), true);
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow)
    return failed(ErrorCode::upstream_invalid,
                  url.shown() + " sends a header over the limit of " + config::format_bytes(kMaxHeaderBytes),
                  false);
  if (ec == http::error::end_of_stream || ec == http::error::partial_message || ec == asio::error::eof ||
      ec == asio::ssl::error::stream_truncated || ec.category() == boost::system::system_category())
    return failed(ErrorCode::upstream_invalid,
                  "the connection to " + url.origin() + " broke off (" + ec.message() + ")", true);
  return failed(ErrorCode::upstream_invalid, url.shown() + " does not answer in HTTP (" + ec.message() + ")",
                false);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  return bad == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// "bytes 100-199/1000"; "*" for a total that the server does not know.
std::optional<Head::Range> content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (!text.starts_with(kUnit) || dash == std::string_view::npos || slash == std::string_view::npos ||
      dash > slash)
    return std::nullopt;
  const auto first = number(text.substr(kUnit.size(), dash - kUnit.size()));
  if (!first) return std::nullopt;
  return Head::Range{*first, number(text.substr(slash + 1))};
}

bool is_redirect(unsigned status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

struct Redirect {
  std::string location;  // "": the answer was no redirect
};

// What one connection does once it stands.
class Exchange {
 public:
  Exchange(asio::io_context& io, Tcp& tcp, const Url& url, std::chrono::seconds idle)
      : io_(io), tcp_(tcp), url_(url), idle_(idle) {}

  template <class Stream>
  Attempt<Redirect> run(Stream& stream, const http::request<http::empty_body>& request,
                        const HttpSource::OnHead& on_head, const HttpSource::OnBytes& on_bytes) {
    if (auto ec = step([&](auto done) { http::async_write(stream, request, done); }); ec)
      return exchange_failure(ec, url_, idle_);
    beast::flat_buffer buffer(2 * kMaxHeaderBytes);
    buffer.reserve(2 * kMaxHeaderBytes);  // Beast reads no more at once than there is room for
    http::response_parser<http::buffer_body> parser;
    parser.header_limit(kMaxHeaderBytes);
    parser.body_limit(boost::none);  // the caller counts
    while (!parser.is_header_done())
      if (auto ec = step([&](auto done) { http::async_read_some(stream, buffer, parser, done); }); ec)
        return exchange_failure(ec, url_, idle_);
    const Head head = head_of(parser);
    if (is_redirect(head.status)) {
      const auto location = parser.get().find(http::field::location);
      if (location == parser.get().end() || location->value().empty())
        return failed(
            ErrorCode::upstream_invalid,
            url_.shown() + " redirects (" + std::to_string(head.status) + ") and does not say where", false);
      return Redirect{std::string(location->value())};
    }
    const auto coding = parser.get()[http::field::content_encoding];
    if (!coding.empty() && coding != "identity")
      return failed(ErrorCode::upstream_invalid,
                    url_.shown() + " sends the content coding " +
                        config::quoted(printable(std::string_view(coding.data(), coding.size()))) +
                        ", which nobody asked for",
                    false);
    const auto wanted = on_head(head);
    if (!wanted) return std::unexpected(wanted.error());
    if (!*wanted) return Redirect{};
    std::vector<std::byte> piece(kPieceBytes);
    while (!parser.is_done()) {
      auto& body = parser.get().body();
      body.data = piece.data();
      body.size = piece.size();
      body.more = true;
      const auto ec = step([&](auto done) { http::async_read_some(stream, buffer, parser, done); });
      const std::size_t bytes = piece.size() - body.size;
      if (bytes > 0)
        if (auto taken = on_bytes(std::span(piece).first(bytes)); !taken)
          return std::unexpected(std::move(taken.error()));
      if (ec && ec != http::error::need_buffer) return exchange_failure(ec, url_, idle_);
    }
    return Redirect{};
  }

  // Runs until the operation has ended; the idle time is for this one alone.
  template <class Start>
  error_code step(const Start& start) {
    error_code result;
    io_.restart();
    tcp_.expires_after(idle_);
    start([&](error_code ec, std::size_t = 0) { result = ec; });
    io_.run();
    return result;
  }

 private:
  Head head_of(const http::response_parser<http::buffer_body>& parser) const {
    const auto& message = parser.get();
    const auto field = [&](auto name) {
      const auto value = message[name];
      return std::string(value.data(), value.size());
    };
    Head head;
    head.status = message.result_int();
    head.url = url_;
    if (const auto length = parser.content_length()) head.length = *length;
    head.until_close = !head.length && !parser.chunked();
    head.etag = field(http::field::etag);
    head.link = field(http::field::link);
    if (head.status == 206) head.range = content_range(field(http::field::content_range));
    return head;
  }

  asio::io_context& io_;
  Tcp& tcp_;
  const Url& url_;
  std::chrono::seconds idle_;
};

bool is_address(const std::string& host) {
  error_code ec;
  asio::ip::make_address(host, ec);
  return !ec;
}

// Trusts what the system trusts; SSL_CERT_FILE and SSL_CERT_DIR name another store.
Attempt<void> shake_hands(Exchange& exchange, Tls& tls, const Url& url) {
  if (!is_address(url.host) && SSL_set_tlsext_host_name(tls.native_handle(), url.host.c_str()) != 1)
    return failed(ErrorCode::internal, "TLS refuses the host name " + config::quoted(url.host), false);
  tls.set_verify_mode(asio::ssl::verify_peer);
  tls.set_verify_callback(asio::ssl::host_name_verification(url.host));
  const error_code ec =
      exchange.step([&](auto done) { tls.async_handshake(asio::ssl::stream_base::client, done); });
  if (!ec) return {};
  if (const long verdict = SSL_get_verify_result(tls.native_handle()); verdict != X509_V_OK)
    return failed(ErrorCode::upstream_refused,
                  "the certificate of " + url.origin() +
                      " is refused: " + X509_verify_cert_error_string(verdict) +
                      "; a host of your own needs its authority in the system's store, or SSL_CERT_FILE",
                  false);
  if (ec == beast::error::timeout || ec.category() == boost::system::system_category() ||
      ec == asio::error::eof || ec == asio::ssl::error::stream_truncated)
    return failed(ErrorCode::upstream_refused,
                  "the TLS handshake with " + url.origin() + " broke off (" + ec.message() + ")", true);
  return failed(ErrorCode::upstream_refused,
                "the TLS handshake with " + url.origin() + " fails: " + ec.message(), false);
}

}  // namespace

Attempt<void> HttpSource::get(const Request& request, const OnHead& on_head, const OnBytes& on_bytes) const {
  Url url = request.url;
  bool left = false;  // a redirect has led away from the hub
  for (unsigned redirects = 0;; ++redirects) {
    if (redirects > kMaxRedirects)
      return failed(ErrorCode::upstream_invalid,
                    request.url.shown() + " redirects more than " + std::to_string(kMaxRedirects) + " times",
                    false);
    left = left || !same_origin(url, hub_);
    http::request<http::empty_body> message(http::verb::get, url.target, 11);
    message.set(http::field::host, url.authority());
    message.set(http::field::user_agent, "flyball/" FLYBALL_VERSION);
    message.set(http::field::accept, "*/*");
    message.set(http::field::accept_encoding, "identity");
    message.set(http::field::connection, "close");
    if (!token_.empty() && !left) message.set(http::field::authorization, "Bearer " + token_);
    if (request.from) {
      message.set(http::field::range, "bytes=" + std::to_string(*request.from) + "-" +
                                           (request.last ? std::to_string(*request.last) : ""));
      if (!request.if_range.empty()) message.set(http::field::if_range, request.if_range);
    }

    asio::io_context io;
    error_code ec;
    asio::ip::tcp::resolver resolver(io);
    const auto endpoints = resolver.resolve(url.host, std::to_string(url.port), ec);
    if (ec)
      return failed(ErrorCode::upstream_refused,
                    "the host name " + config::quoted(url.host) + " has no address (" + ec.message() + ")",
                    ec == asio::error::host_not_found_try_again);
    std::optional<Tcp> tcp;
    for (const auto& endpoint : endpoints) {  // each has its own time: a network may swallow IPv6
      tcp.emplace(io.get_executor());
      tcp->expires_after(limits_.connect);
      io.restart();
      tcp->async_connect(endpoint.endpoint(), [&](error_code e) { ec = e; });
      io.run();
      if (!ec) break;
    }
    if (ec)
      return failed(ec == beast::error::timeout ? ErrorCode::upstream_timeout : ErrorCode::upstream_refused,
                    "no connection to " + url.origin() + " (" + ec.message() + ")", true);
    Exchange exchange(io, *tcp, url, limits_.idle);
    Attempt<Redirect> end;
    if (url.tls) {
      asio::ssl::context context(asio::ssl::context::tls_client);
      context.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, ec);
      context.set_default_verify_paths(ec);
      if (ec)
        return failed(ErrorCode::io_error, "the system's certificates cannot be read: " + ec.message(),
                      false);
      Tls tls(*tcp, context);
      if (auto hands = shake_hands(exchange, tls, url); !hands)
        return std::unexpected(std::move(hands.error()));
      end = exchange.run(tls, message, on_head, on_bytes);
    } else {
      end = exchange.run(*tcp, message, on_head, on_bytes);
    }
    if (!end) return std::unexpected(std::move(end.error()));
    if (end->location.empty()) return {};
    auto next = redirected(url, end->location);
    if (!next) return std::unexpected(Failure{std::move(next.error()), false});
    url = std::move(*next);
  }
}

Failure status_failure(const HttpSource& source, const Head& head) {
  const std::string said = head.url.shown() + " answers " + std::to_string(head.status);
  const bool of_hub = same_origin(head.url, source.hub());
  const auto failure = [](ErrorCode code, std::string message, bool passing = false) {
    return Failure{Error{code, std::move(message), {}, {}}, passing};
  };
  if (head.status == 401 || head.status == 403)
    return failure(ErrorCode::upstream_refused,
                   said + ": " +
                       (!of_hub ? "that server refuses, and gets no token: hub.token is for " +
                                      source.hub().origin() + " alone"
                        : source.has_token()
                            ? std::string("the hub refuses this token (hub.token in config.yaml), or its "
                                          "user has not accepted the licence on the model's page")
                            : std::string("the hub refuses: there is no such repository, or it needs a "
                                          "token (hub.token in config.yaml) and acceptance of the "
                                          "licence on its page")));
  if (head.status == 404 || head.status == 410)
    return failure(ErrorCode::unsupported_value, said + ": there is no such repository, revision or file");
  if (head.status == 429 || head.status == 408 || head.status >= 500)
    return failure(ErrorCode::upstream_refused, said + ": the server is busy or broken; try again later",
                   true);
  return failure(ErrorCode::upstream_invalid, said + ", where 200 was expected");
}

Attempt<Document> get_document(const HttpSource& source, const Url& url, std::size_t max_bytes) {
  Document out;
  const auto taken = source.get(
      {url},
      [&](const Head& head) -> Attempt<bool> {
        if (head.status != 200) return std::unexpected(status_failure(source, head));
        out.head = head;
        return true;
      },
      [&](std::span<const std::byte> bytes) -> Attempt<void> {
        if (out.body.size() + bytes.size() > max_bytes)
          return failed(ErrorCode::upstream_invalid,
                        url.shown() + " sends more than " + config::format_bytes(max_bytes) +
                            ", which is the limit for a listing",
                        false);
        out.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return {};
      });
  if (!taken) return std::unexpected(taken.error());
  return out;
}

}  // namespace flyball::hub
