// What the HTTP room hands up and takes back: a request whose framing has been checked, and a response.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flyball::http {

// Who is at the other end, as the kernel tells it.
struct Peer {
  bool loopback = false;                  // TCP from 127.0.0.0/8 or ::1
  std::optional<std::uint32_t> unix_uid;  // unix socket: SO_PEERCRED
  std::string address;                    // for the log: "127.0.0.1:51234", "unix uid 1000"
  // Connections from it count together: "192.0.2.1", "2001:db8:1:2::/64", "unix uid 1000".
  std::string source = {};
};

struct Field {
  std::string name, value;  // value without surrounding blanks
};

struct Request {
  std::string id;              // "req-0011223344556677", unique in the process
  std::string method;          // as sent
  std::string target;          // in origin form: path and query, starts with '/'
  std::string host;            // the host it is for: of an absolute target, else the one Host field
  std::vector<Field> fields;   // all, in order, Host among them
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  std::string body;  // complete when Handler::handle is called

  std::string_view path() const noexcept {  // the target up to '?'
    return std::string_view(target).substr(0, target.find('?'));
  }
  std::string_view query() const noexcept {  // what is behind it, as sent
    const auto at = target.find('?');
    return at == std::string::npos ? std::string_view() : std::string_view(target).substr(at + 1);
  }
  // First value of that name (ASCII case does not matter), "" if there is none.
  std::string_view field(std::string_view name) const noexcept;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Field>
      fields;  // beside Content-Type, Content-Length or Transfer-Encoding, Connection, x-request-id
  std::string body;
  bool last = false;  // the connection ends with it
};

// A response's body that is made piece by piece, as its reader takes it.
class BodySource {
 public:
  static constexpr std::size_t kPieceBytes = 64 * 1024;
  virtual ~BodySource() = default;
  // Appends the next piece: at least a byte, and about kPieceBytes unless it is the last. False: it was the
  // last.
  virtual bool next(std::string& out) = 0;
};

std::string_view reason_phrase(int status) noexcept;
bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;

}  // namespace flyball::http
