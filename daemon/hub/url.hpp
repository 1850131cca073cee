// Addresses that a person types or a server sends, taken apart and joined. Pure: nothing is looked up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/error.hpp"

namespace flyball::hub {

inline constexpr std::size_t kMaxUrlBytes = 8192;  // signed addresses of storage hosts have about 2,000

struct Url {
  bool tls = false;
  std::string host;  // lower case; an IPv6 address without its brackets
  std::uint16_t port = 0;
  std::string target;  // path and query, as they are sent; begins with "/"

  // "huggingface.co", "[::1]:8080": the port is there unless it is the scheme's own.
  std::string authority() const;
  std::string origin() const;  // "https://huggingface.co"
  // For messages: without the query, which may hold a signature.
  std::string shown() const;
  std::string path() const;  // the target without its query
  bool operator==(const Url&) const = default;
};

// http and https alone. invalid_value: another scheme, a user name, a character that no address holds, a port
// out of range, or more than kMaxUrlBytes.
Result<Url> parse_url(std::string_view text);
// The address that a redirect of `from` leads to. upstream_invalid for everything that parse_url refuses, and
// for a redirect from https to http.
Result<Url> redirected(const Url& from, std::string_view location);
// "localhost", 127.0.0.0/8 and ::1: no byte leaves this machine.
bool is_loopback(const Url& url);
bool same_origin(const Url& a, const Url& b) noexcept;

// "a b/c" -> "a%20b/c": the bytes of a path that an address cannot hold as they are.
std::string percent_encoded(std::string_view path);
// An address or a name as it was typed, for messages: without its query and what stands before '@', which may
// be secrets. Fit for a terminal.
std::string without_secrets(std::string_view words);
// True for a name from the network that can name a file within one folder, beside the names made from it.
bool is_file_name(std::string_view name);
// The last part of the path, decoded; "" where it cannot name a file.
std::string file_name_of(const Url& url);

}  // namespace flyball::hub
