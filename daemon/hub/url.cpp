#include "daemon/hub/url.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "config/ascii_lower.hpp"
#include "config/name_list.hpp"
#include "config/percent.hpp"
#include "config/terminal_text.hpp"

namespace flyball::hub {
namespace {

constexpr std::uint16_t kHttpPort = 80, kHttpsPort = 443;
// A component may have 255 bytes; ".part.json" and the like are appended to it.
constexpr std::size_t kMaxFileNameBytes = 200;

bool is_plain(unsigned char c) {
  return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == '~';
}

Error url_error(std::string_view text, const std::string& why) {
  return Error{
      ErrorCode::invalid_value, "the address " + config::quoted(without_secrets(text)) + " " + why, {}, {}};
}

// Characters that may stand in a request line. A space or a line end in one would begin another header.
bool is_sendable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) {
    return c > 0x20 && c < 0x7F && c != '\\' && c != '"' && c != '<' && c != '>';
  });
}

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  });
}

bool is_ipv6(std::string_view host) {
  return host.size() >= 2 && host.size() <= 45 && host.find(':') != std::string_view::npos &&
         std::ranges::all_of(host,
                             [](unsigned char c) { return std::isxdigit(c) != 0 || c == ':' || c == '.'; });
}

// "/a/b/../c" -> "/a/c". The query is no part of it.
std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  bool folder = true;  // ends with a slash
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, slash - at);
    folder = part.empty() || part == "." || part == "..";
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (part != "." && !(part.empty() && slash == path.size())) {
      parts.push_back(part);
    }
    at = slash + 1;
  }
  std::string out;
  for (const std::string_view part : parts) out += "/" + std::string(part);
  return folder || out.empty() ? out + "/" : out;
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.find(':') != std::string::npos ? "[" + host + "]" : host;
  return port == (tls ? kHttpsPort : kHttpPort) ? name : name + ":" + std::to_string(port);
}

std::string Url::origin() const {
  return (tls ? "https://" : "http://") + authority();
}

std::string Url::path() const {
  return target.substr(0, target.find('?'));
}

std::string Url::shown() const {
  return origin() + path();
}

Result<Url> parse_url(std::string_view text) {
  const auto refuse = [&](const std::string& why) { return std::unexpected(url_error(text, why)); };
  if (text.size() > kMaxUrlBytes)
    return refuse("has " + std::to_string(text.size()) + " bytes, the limit is " +
                  std::to_string(kMaxUrlBytes));
  if (!is_sendable(text))
    return refuse("has a character that no address holds: write it as % and two hexadecimal digits");
  const std::size_t colon = text.find("://");
  const std::string scheme =
      colon == std::string_view::npos ? std::string() : ascii_lower(text.substr(0, colon));
  if (scheme != "http" && scheme != "https") return refuse("begins with neither https:// nor http://");
  Url url;
  url.tls = scheme == "https";
  const std::string_view rest = text.substr(colon + 3);
  const std::size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  std::string_view authority = rest.substr(0, end);
  if (authority.find('@') != std::string_view::npos)
    return refuse("holds a user name or password: name a token in config.yaml instead (hub.token)");
  std::string_view port;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return refuse("has a bracket that nothing closes");
    url.host = ascii_lower(authority.substr(1, close - 1));
    port = authority.substr(close + 1);
    if (!is_ipv6(url.host)) return refuse("has no IPv6 address between its brackets");
    if (!port.empty() && !port.starts_with(':')) return refuse("has text behind its bracket");
  } else {
    const std::size_t at = std::min(authority.find(':'), authority.size());
    url.host = ascii_lower(authority.substr(0, at));
    port = authority.substr(at);
    if (!is_host(url.host)) return refuse("has no host name of letters, digits and . - _");
  }
  url.port = url.tls ? kHttpsPort : kHttpPort;
  if (port.size() > 1) {
    port.remove_prefix(1);
    const auto [last, bad] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (bad != std::errc() || last != port.data() + port.size() || url.port == 0)
      return refuse("has a port that is no number from 1 to 65535");
  }
  const std::string_view target = rest.substr(end, std::min(rest.find('#', end), rest.size()) - end);
  const std::size_t query = std::min(target.find('?'), target.size());
  url.target = (query == 0 ? "/" : without_dots(target.substr(0, query))) + std::string(target.substr(query));
  return url;
}

Result<Url> redirected(const Url& from, std::string_view location) {
  std::string whole(location);
  if (location.find("://") == std::string_view::npos ||
      location.find("://") > location.find_first_of("/?#")) {
    const std::string path = from.path();
    if (location.starts_with("//"))
      whole = (from.tls ? "https:" : "http:") + whole;
    else if (location.starts_with('/'))
      whole = from.origin() + whole;
    else if (location.starts_with('?'))
      whole = from.origin() + path + whole;
    else
      whole = from.origin() + path.substr(0, path.rfind('/') + 1) + whole;
  }
  auto url = location.empty() ? fail(ErrorCode::invalid_value, "the address is empty") : parse_url(whole);
  if (!url)
    return fail(ErrorCode::upstream_invalid,
                from.shown() + " redirects to nowhere that is fetched from: " + url.error().message);
  if (from.tls && !url->tls)
    return fail(ErrorCode::upstream_invalid, from.shown() + " redirects from https to " + url->shown() +
                                                 ", which is not encrypted: refused");
  return url;
}

bool is_loopback(const Url& url) {
  const bool digits =
      std::ranges::all_of(url.host, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
  return url.host == "localhost" || url.host == "::1" || (digits && url.host.starts_with("127."));
}

bool same_origin(const Url& a, const Url& b) noexcept {
  return a.tls == b.tls && a.host == b.host && a.port == b.port;
}

std::string percent_encoded(std::string_view path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_plain(byte) || c == '/')
      out += c;
    else
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

std::string without_secrets(std::string_view words) {
  words = words.substr(0, words.find_first_of("?#"));
  const std::size_t scheme = words.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::string_view authority = words.substr(begin, words.find('/', begin) - begin);
  const std::size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return terminal_text(words);
  return terminal_text(words.substr(0, begin)) + "..." + terminal_text(words.substr(begin + at));
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string_view::npos && terminal_text(name) == name;
}

std::string file_name_of(const Url& url) {
  const std::string path = url.path();
  std::string name = percent_decoded(std::string_view(path).substr(path.rfind('/') + 1)).value_or("");
  return is_file_name(name) ? name : std::string();
}

}  // namespace flyball::hub
