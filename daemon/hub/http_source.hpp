// One GET at a time over HTTP/1.1, with or without TLS, on the caller's thread. Nothing here knows models.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "config/error.hpp"
#include "daemon/hub/url.hpp"

namespace flyball::hub {

inline constexpr unsigned kMaxRedirects = 10;
inline constexpr std::size_t kMaxHeaderBytes = 64U << 10;  // huggingface.co sends up to 8 KiB

// A failure, and whether the same request may succeed later: the network broke, the server is busy.
struct Failure {
  Error error;
  bool passing = false;
  std::chrono::seconds wait{};  // that the server asks for before the next request
};
template <class T>
using Attempt = std::expected<T, Failure>;

inline constexpr std::chrono::seconds kLongestWait{60};  // whatever a server asks for
inline constexpr std::chrono::seconds kListingTime{60};  // for one page, however it drips

// The number of attempts that bring nothing, and the first pause between two; each pause is twice as long as
// the one before.
struct Patience {
  unsigned tries = 5;
  std::chrono::milliseconds first_pause{250}, longest_pause{10'000};
};
// Sends a note to the person who waits.
using Says = std::function<void(const std::string& note)>;

// Decides after each failure whether the request is sent again, and waits until then.
class Retries {
 public:
  explicit Retries(const Patience& patience) : patience_(patience), pause_(patience.first_pause) {}
  void progress();                                       // the attempts so far do not count
  bool again(const Failure& failure, const Says& says);  // after a pause, where it is true
  unsigned tries() const noexcept { return tries_; }

 private:
  Patience patience_;
  std::chrono::milliseconds pause_;
  unsigned tries_ = 0;
};

// The header of an answer that is no redirect.
struct Head {
  unsigned status = 0;
  Url url;                              // that answered, at the end of all redirects
  std::optional<std::uint64_t> length;  // of the body; absent: chunked, or until the connection closes
  std::string etag, link;
  std::chrono::seconds retry_after{};  // at most kLongestWait
  struct Range {
    std::uint64_t first = 0;
    std::optional<std::uint64_t> total;  // of the whole file
  };
  std::optional<Range> range;  // of a 206
};

class HttpSource {
 public:
  // `connect` is for one address of a server. A server is left that has not sent its header within `idle`, or
  // sends nothing of a body for so long.
  struct Limits {
    std::chrono::seconds connect{10}, idle{60};
  };
  struct Request {
    Url url;
    std::optional<std::uint64_t> from = std::nullopt;  // first byte that is wanted
    std::optional<std::uint64_t> last = std::nullopt;  // last one; absent: all from `from`
    std::string if_range = {};                         // ETag that the server must still have for `from`
    std::chrono::seconds total{};                      // for the header and the body; 0: no limit
  };
  // Gets the header; false: the body is not wanted.
  using OnHead = std::function<Attempt<bool>(const Head&)>;
  using OnBytes = std::function<Attempt<void>(std::span<const std::byte>)>;

  // The token goes to `hub`'s scheme, host and port alone, and to nobody once a redirect has led elsewhere.
  HttpSource(Url hub, std::string token, Limits limits)
      : hub_(std::move(hub)), token_(std::move(token)), limits_(limits) {}

  // Follows redirects, then calls on_head once and on_bytes for each piece of the body. Returns when the body
  // has ended as the server framed it. upstream_refused: no connection, or no certificate that the system
  // trusts. upstream_timeout. upstream_invalid: no HTTP, a redirect too many or one that is not followed, an
  // answer cut off. A callback's failure is passed on.
  Attempt<void> get(const Request& request, const OnHead& on_head, const OnBytes& on_bytes) const;

  const Url& hub() const noexcept { return hub_; }
  bool has_token() const noexcept { return !token_.empty(); }

 private:
  Url hub_;
  std::string token_;
  Limits limits_;
};

// The whole body of an answer 200 of at most max_bytes, with its header, within kListingTime.
struct Document {
  Head head;
  std::string body;
};
Result<Document> get_document(const HttpSource& source, const Url& url, std::size_t max_bytes,
                              const Patience& patience, const Says& says);

// The failure that a status other than 200 and 206 is, with what the person can do about it.
Failure status_failure(const HttpSource& source, const Head& head);

}  // namespace flyball::hub
