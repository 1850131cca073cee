#include "daemon/http/framing.hpp"

#include <array>
#include <string>

#include "daemon/http/message.hpp"

namespace flyball::http {
namespace {

constexpr std::size_t kMaxMethod = 16;
constexpr std::size_t kMaxLengthDigits = 19;  // a longer Content-Length cannot be a 63-bit number

constexpr auto make_token_table() {
  std::array<bool, 256> table{};
  for (char c = '0'; c <= '9'; ++c) table[static_cast<unsigned char>(c)] = true;
  for (char c = 'a'; c <= 'z'; ++c) table[static_cast<unsigned char>(c)] = true;
  for (char c = 'A'; c <= 'Z'; ++c) table[static_cast<unsigned char>(c)] = true;
  for (const char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr auto kToken = make_token_table();  // RFC 9110, section 5.6.2

bool is_token(std::string_view text) noexcept {
  if (text.empty()) return false;
  for (const char c : text)
    if (!kToken[static_cast<unsigned char>(c)]) return false;
  return true;
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::unexpected<Error> bad(std::string message, std::string param = {}) {
  return fail(ErrorCode::bad_framing, std::move(message), std::move(param));
}

// The rest of a target behind "http://" or "https://", in any case; nullopt: the target is no such URL.
std::optional<std::string_view> behind_scheme(std::string_view target) noexcept {
  for (const std::string_view scheme : {"http://", "https://"})
    if (equals_ignoring_case(target.substr(0, scheme.size()), scheme)) return target.substr(scheme.size());
  return std::nullopt;
}

// RFC 9112, section 3.2: a path, or a URL whose authority takes the place of the Host field.
Result<void> read_target(Head& head) {
  if (head.target.starts_with('/')) {
    head.path_and_query = head.target;
    return {};
  }
  const auto rest = behind_scheme(head.target);
  if (!rest) return bad("The request target must begin with '/', 'http://' or 'https://'.");
  if (rest->find('#') != std::string_view::npos) return bad("The request target has a fragment.");
  head.host = rest->substr(0, rest->find_first_of("/?"));
  head.path_and_query = rest->substr(head.host.size());
  if (head.host.empty()) return bad("The request target names no host.");
  if (head.host.find('@') != std::string_view::npos)
    return bad("The request target has user information, which is not accepted.");
  return {};
}

Result<void> read_request_line(std::string_view line, Head& head) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return bad("The request line is not METHOD TARGET VERSION.");
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(head.method) || head.method.size() > kMaxMethod)
    return bad("The request method is malformed.");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return bad("Only HTTP/1.1 and HTTP/1.0 are spoken here.");
  head.http_1_0 = version == "HTTP/1.0";
  head.keep_alive = !head.http_1_0;
  for (const char c : head.target)
    if (c < 0x21 || c > 0x7E) return bad("The request target has a character that is not visible ASCII.");
  return read_target(head);
}

Result<std::uint64_t> read_content_length(std::string_view value) {
  if (value.empty() || value.size() > kMaxLengthDigits)
    return bad("Content-Length is not a number of bytes.", "Content-Length");
  std::uint64_t n = 0;
  for (const char c : value) {
    if (c < '0' || c > '9') return bad("Content-Length is not a number of bytes.", "Content-Length");
    n = n * 10 + static_cast<std::uint64_t>(c - '0');  // 19 digits fit 64 bits
  }
  return n;
}

// Each element of a comma-separated list, for Connection.
template <class F>
void for_each_element(std::string_view list, F&& f) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    f(trim(list.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
}

struct Seen {
  bool host = false, origin = false, length = false, coding = false, close = false, keep = false;
};

Result<void> read_field(std::string_view name, std::string_view value, Head& head, Seen& seen) {
  if (equals_ignoring_case(name, "Host")) {
    if (seen.host) return bad("There is more than one Host field.", "Host");
    seen.host = true;
    if (head.host.empty()) head.host = value;  // else the target names it, and counts
  } else if (equals_ignoring_case(name, "Content-Length")) {
    if (seen.length) return bad("There is more than one Content-Length field.", "Content-Length");
    seen.length = true;
    auto n = read_content_length(value);
    if (!n) return pass(n);
    head.content_length = *n;
  } else if (equals_ignoring_case(name, "Transfer-Encoding")) {
    if (seen.coding || !equals_ignoring_case(value, "chunked"))
      return bad("Transfer-Encoding must be exactly 'chunked', once.", "Transfer-Encoding");
    seen.coding = true;
    head.chunked = true;
  } else if (equals_ignoring_case(name, "Expect")) {
    if (!equals_ignoring_case(value, "100-continue"))
      return bad("The only expectation known is 100-continue.", "Expect");
    head.expect_continue = true;
  } else if (equals_ignoring_case(name, "Origin")) {
    if (seen.origin) return bad("There is more than one Origin field.", "Origin");
    seen.origin = true;
    head.origin = value;
  } else if (equals_ignoring_case(name, "Connection")) {
    for_each_element(value, [&](std::string_view option) {
      seen.close |= equals_ignoring_case(option, "close");
      seen.keep |= equals_ignoring_case(option, "keep-alive");
    });
  }
  return {};
}

// `text` is a head without its blank line; every line of it ends in CRLF and holds no other control character
// but tabs (HeadScanner has seen to that).
Result<Head> judge(std::string_view text, const HeadLimits& limits) {
  Head head;
  Seen seen;
  const auto end_of_request_line = text.find("\r\n");
  if (auto ok = read_request_line(text.substr(0, end_of_request_line), head); !ok) return pass(ok);
  text.remove_prefix(end_of_request_line + 2);
  for (std::size_t n = 0; !text.empty(); ++n) {
    if (n == limits.fields)
      return fail(ErrorCode::headers_too_large,
                  "The request has more than " + std::to_string(limits.fields) + " header fields.");
    const auto eol = text.find("\r\n");
    const std::string_view line = text.substr(0, eol);
    text.remove_prefix(eol + 2);
    if (line.front() == ' ' || line.front() == '\t') return bad("A header field is folded over two lines.");
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return bad("A header field name is malformed.");
    auto ok = read_field(line.substr(0, colon), trim(line.substr(colon + 1)), head, seen);
    if (!ok) return pass(ok);
  }
  if (!seen.host && limits.host_required) return bad("There is no Host field.", "Host");
  if (seen.coding && seen.length) return bad("Both Content-Length and Transfer-Encoding are present.");
  if (seen.coding && head.http_1_0) return bad("HTTP/1.0 has no Transfer-Encoding.");
  if (seen.close)
    head.keep_alive = false;
  else if (seen.keep)
    head.keep_alive = true;
  if (head.http_1_0) head.expect_continue = false;  // RFC 9110, section 10.1.1
  return head;
}

}  // namespace

std::string Head::origin_form() const {
  return (path_and_query.starts_with('/') ? "" : "/") + std::string(path_and_query);
}

std::size_t empty_lines(std::string_view buffered) noexcept {
  std::size_t size = 0;
  while (buffered.substr(size).starts_with("\r\n")) size += 2;
  return size;
}

Result<std::optional<Head>> HeadScanner::scan(std::string_view buffered) {
  for (; scanned_ < buffered.size() && scanned_ < limits_.bytes; ++scanned_) {
    const char c = buffered[scanned_];
    if (c == '\n') {
      if (scanned_ == 0 || buffered[scanned_ - 1] != '\r') return bad("A line ends in a bare line feed.");
      if (scanned_ >= 3 && buffered[scanned_ - 2] == '\n') {
        auto head = judge(buffered.substr(0, scanned_ - 1), limits_);
        if (!head) return pass(head);
        head->size = scanned_ + 1;
        return *head;
      }
    } else if (scanned_ > 0 && buffered[scanned_ - 1] == '\r') {
      return bad("A carriage return stands alone.");
    } else if ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r') || c == 0x7F) {
      return bad("The header has a control character.");
    }
  }
  if (buffered.size() >= limits_.bytes)
    return fail(ErrorCode::headers_too_large,
                "The header is longer than " + std::to_string(limits_.bytes) + " bytes.");
  return std::nullopt;
}

}  // namespace flyball::http
