#include "daemon/hub/http_source.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <charconv>
#include <thread>
#include <vector>

#include "config/name_list.hpp"
#include "config/terminal_text.hpp"
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

std::unexpected<Failure> exchange_failure(const error_code& ec, const Url& url, const std::string& late) {
  if (ec == beast::error::timeout) return failed(ErrorCode::upstream_timeout, url.shown() + " " + late, true);
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

// One request and its answer on a connection that stands.
class Exchange {
 public:
  using Clock = std::chrono::steady_clock;
  Exchange(asio::io_context& io, Tcp& tcp, const Url& url, std::chrono::seconds idle,
           std::chrono::seconds total)
      : io_(io),
        tcp_(tcp),
        url_(url),
        idle_(idle),
        total_(total),
        end_(total.count() > 0 ? Clock::now() + total : Clock::time_point::max()) {}

  template <class Stream>
  Attempt<Redirect> run(Stream& stream, const http::request<http::empty_body>& request,
                        const HttpSource::OnHead& on_head, const HttpSource::OnBytes& on_bytes) {
    const auto header_end = Clock::now() + idle_;
    const std::string no_header = "sent no header within " + config::format_duration(idle_);
    if (auto ec = step(header_end, [&](auto done) { http::async_write(stream, request, done); }); ec)
      return exchange_failure(ec, url_, no_header);
    beast::flat_buffer buffer(2 * kMaxHeaderBytes);
    buffer.reserve(2 * kMaxHeaderBytes);  // Beast reads no more at once than there is room for
    std::optional<http::response_parser<http::buffer_body>> parsing;
    do {  // answers below 200 come before the one that counts
      parsing.emplace();
      parsing->header_limit(kMaxHeaderBytes);
      parsing->body_limit(boost::none);  // the caller counts
      while (!parsing->is_header_done())
        if (auto ec =
                step(header_end, [&](auto done) { http::async_read_some(stream, buffer, *parsing, done); });
            ec)
          return exchange_failure(ec, url_, no_header);
    } while (parsing->get().result_int() < 200);
    auto& parser = *parsing;
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
                        config::quoted(terminal_text(std::string_view(coding.data(), coding.size()))) +
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
      const auto ec =
          step(Clock::now() + idle_, [&](auto done) { http::async_read_some(stream, buffer, parser, done); });
      const std::size_t bytes = piece.size() - body.size;
      if (bytes > 0)
        if (auto taken = on_bytes(std::span(piece).first(bytes)); !taken)
          return std::unexpected(std::move(taken.error()));
      if (ec && ec != http::error::need_buffer)
        return exchange_failure(ec, url_,
                                Clock::now() >= end_ ? "did not end within " + config::format_duration(total_)
                                                     : "sent nothing for " + config::format_duration(idle_));
    }
    return Redirect{};
  }

  // Runs until the operation has ended, or until this time.
  template <class Start>
  error_code step(Clock::time_point until, const Start& start) {
    error_code result;
    io_.restart();
    tcp_.expires_at(std::min(until, end_));
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
    head.etag = field(http::field::etag);
    head.link = field(http::field::link);
    // The form with a date is not read: the usual pauses are right then.
    if (const auto seconds = number(field(http::field::retry_after)))
      head.retry_after = std::chrono::seconds(
          std::min<std::uint64_t>(*seconds, static_cast<std::uint64_t>(kLongestWait.count())));
    if (head.status == 206) head.range = content_range(field(http::field::content_range));
    return head;
  }

  asio::io_context& io_;
  Tcp& tcp_;
  const Url& url_;
  std::chrono::seconds idle_, total_;
  Clock::time_point end_;
};

bool is_address(const std::string& host) {
  error_code ec;
  asio::ip::make_address(host, ec);
  return !ec;
}

// Trusts what the system trusts; SSL_CERT_FILE and SSL_CERT_DIR name another store.
Attempt<void> shake_hands(Exchange& exchange, Tls& tls, const Url& url, std::chrono::seconds idle) {
  SSL* const ssl = tls.native_handle();
  const bool named =
      is_address(url.host)
          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), url.host.c_str()) == 1
          : SSL_set_tlsext_host_name(ssl, url.host.c_str()) == 1 && SSL_set1_host(ssl, url.host.c_str()) == 1;
  if (!named)
    return failed(ErrorCode::internal, "TLS refuses the host name " + config::quoted(url.host), false);
  tls.set_verify_mode(asio::ssl::verify_peer);
  const error_code ec = exchange.step(Exchange::Clock::now() + idle, [&](auto done) {
    tls.async_handshake(asio::ssl::stream_base::client, done);
  });
  if (!ec) return {};
  if (const long verdict = SSL_get_verify_result(ssl);
      verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
    return failed(ErrorCode::upstream_refused,
                  "the certificate of " + url.origin() + " is refused: it is not one for " +
                      config::quoted(url.host) + ", so another server answers",
                  false);
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
    Tcp tcp(io.get_executor());
    ec = asio::error::host_not_found;
    for (auto at = endpoints.begin(); ec && at != endpoints.end(); ++at) {
      error_code ignored;
      tcp.socket().close(ignored);
      tcp.expires_after(limits_.connect);
      tcp.async_connect(at->endpoint(), [&](error_code e) { ec = e; });
      io.restart();
      io.run();
    }
    if (ec)
      return failed(ec == beast::error::timeout ? ErrorCode::upstream_timeout : ErrorCode::upstream_refused,
                    "no connection to " + url.origin() + " (" + ec.message() + ")", true);
    Exchange exchange(io, tcp, url, limits_.idle, request.total);
    Attempt<Redirect> end;
    if (url.tls) {
      asio::ssl::context context(asio::ssl::context::tls_client);
      context.set_options(asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, ec);
      context.set_default_verify_paths(ec);
      if (ec)
        return failed(ErrorCode::io_error, "the system's certificates cannot be read: " + ec.message(),
                      false);
      Tls tls(tcp, context);
      if (auto hands = shake_hands(exchange, tls, url, limits_.idle); !hands)
        return std::unexpected(std::move(hands.error()));
      end = exchange.run(tls, message, on_head, on_bytes);
    } else {
      end = exchange.run(tcp, message, on_head, on_bytes);
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
  if (head.status == 429 || head.status == 408 || head.status >= 500) {
    Failure busy =
        failure(ErrorCode::upstream_refused, said + ": the server is busy or broken; try again later", true);
    busy.wait = head.retry_after;
    return busy;
  }
  return failure(ErrorCode::upstream_invalid, said + ", where 200 was expected");
}

namespace {

Attempt<Document> get_document_once(const HttpSource& source, const Url& url, std::size_t max_bytes) {
  Document out;
  const auto taken = source.get(
      {.url = url, .total = kListingTime},
      [&](const Head& head) -> Attempt<bool> {
        // Any answer of another server would choose the files and their digests.
        if (!same_origin(head.url, source.hub()))
          return failed(ErrorCode::upstream_invalid,
                        url.shown() + " redirects to " + head.url.origin() + ", and " +
                            source.hub().origin() +
                            " alone says which files a model has: if that is the hub's address now, name it "
                            "in config.yaml (hub.url)",
                        false);
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

}  // namespace

void Retries::progress() {
  tries_ = 0;
  pause_ = patience_.first_pause;
}

bool Retries::again(const Failure& failure, const Says& says) {
  if (!failure.passing || ++tries_ >= patience_.tries) return false;
  const auto pause = std::max<std::chrono::milliseconds>(pause_, failure.wait);
  if (says)
    says(failure.error.message + "; trying again" +
         (failure.wait.count() > 0 ? " in " + config::format_duration(pause) : ""));
  std::this_thread::sleep_for(pause);
  pause_ = std::min(2 * pause_, patience_.longest_pause);
  return true;
}

Result<Document> get_document(const HttpSource& source, const Url& url, std::size_t max_bytes,
                              const Patience& patience, const Says& says) {
  for (Retries retries(patience);;) {
    auto document = get_document_once(source, url, max_bytes);
    if (document) return std::move(*document);
    if (!retries.again(document.error(), says)) return std::unexpected(std::move(document.error().error));
  }
}

}  // namespace flyball::hub
