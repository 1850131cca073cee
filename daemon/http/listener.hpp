// Opens listening sockets as config.yaml names them: TCP, unix, or passed by systemd. Plain system calls, no
// Asio.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "config/descriptor.hpp"
#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::http {

// The one owner of a unix socket's name in the file system, which outlives the socket unless it is removed.
class SocketFile {
 public:
  SocketFile() noexcept = default;
  explicit SocketFile(std::string path) noexcept : path_(std::move(path)) {}
  SocketFile(SocketFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  SocketFile& operator=(SocketFile&& other) noexcept {
    const SocketFile old(std::exchange(path_, std::exchange(other.path_, {})));
    return *this;
  }
  ~SocketFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  explicit operator bool() const noexcept { return !path_.empty(); }

 private:
  std::string path_;
};

struct ListeningSocket {
  Descriptor fd;
  int family = 0;  // AF_INET, AF_INET6 or AF_UNIX
  std::string url;
  SocketFile file;  // of a unix socket of ours
};

// One socket for tcp and unix; any number for systemd (none is an io_error: nothing was passed).
Result<std::vector<ListeningSocket>> open_listener(const config::Listener& listener);

// Whether clients of IPv4 are left out although a listener is on all of IPv6's addresses: no other one is on
// all of IPv4's at its port. "": they are not. Else what to say of it.
std::string without_ipv4(const config::Listener& one, std::span<const config::Listener> all);

// The part of a peer's IP address that stands for one client (Peer::source). One client can have all 2^64
// addresses of an IPv6 network.
std::string source_of(const sockaddr_storage& storage);

// What the kernel knows about the other end of an accepted socket.
Peer peer_of(int fd, int family);

}  // namespace flyball::http
