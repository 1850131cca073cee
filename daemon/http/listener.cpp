#include "daemon/http/listener.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace flyball::http {
namespace {

constexpr int kBacklog = 1024;
constexpr mode_t kSocketMode = 0660;  // who may connect is the operator's choice of group on the directory

// Of a port: what an operator can do about it, too.
std::unexpected<Error> listen_failure(const config::Listener& listener, const std::string& place) {
  const int error = errno;
  std::string message = "Cannot listen: " + std::string(std::strerror(error)) + ".";
  if (error == EADDRINUSE)
    message = "Cannot listen: port " + std::to_string(listener.port) +
              " is taken: name another one for listener " + listener.id +
              " in config.yaml or, if it is the first TCP listener, with --port N (0: any free one).";
  else if (error == EADDRNOTAVAIL)
    message = "Cannot listen: " + listener.address + " is no address of this machine.";
  else if (error == EACCES)
    message = "Cannot listen: this user may not take port " + std::to_string(listener.port) +
              "; those from 1024 on are open to everybody.";
  return fail(ErrorCode::io_error, std::move(message), {}, place);
}

std::unexpected<Error> io_failure(const std::string& what, const std::string& place) {
  return fail(ErrorCode::io_error, what + ": " + std::strerror(errno) + ".", {}, place);
}

std::string tcp_url(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(in6.sin6_port));
  }
  const auto& in4 = reinterpret_cast<const sockaddr_in&>(storage);
  inet_ntop(AF_INET, &in4.sin_addr, text, sizeof text);
  return std::string(text) + ":" + std::to_string(ntohs(in4.sin_port));
}

Result<ListeningSocket> describe(Descriptor fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &size) != 0)
    return io_failure("getsockname", "listener");
  ListeningSocket out;
  out.fd = std::move(fd);
  out.family = storage.ss_family;
  if (storage.ss_family == AF_UNIX) {
    const auto& un = reinterpret_cast<const sockaddr_un&>(storage);
    const std::size_t length =
        size > offsetof(sockaddr_un, sun_path) ? size - offsetof(sockaddr_un, sun_path) : 0;
    std::string path(un.sun_path, length);
    if (!path.empty() && path.front() == '\0') path.front() = '@';
    while (!path.empty() && path.back() == '\0') path.pop_back();
    out.url = "unix:" + path;
  } else if (storage.ss_family == AF_INET || storage.ss_family == AF_INET6) {
    out.url = "http://" + tcp_url(storage);
  } else {
    return fail(ErrorCode::io_error, "The listening socket is neither TCP nor unix.", {}, "listener");
  }
  return out;
}

Result<ListeningSocket> open_tcp(const config::Listener& listener) {
  const std::string place = listener.address + ":" + std::to_string(listener.port);
  const std::string address = listener.address == "localhost" ? "127.0.0.1" : listener.address;
  sockaddr_storage storage{};
  socklen_t size = 0;
  auto& in4 = reinterpret_cast<sockaddr_in&>(storage);
  auto& in6 = reinterpret_cast<sockaddr_in6&>(storage);
  if (inet_pton(AF_INET, address.c_str(), &in4.sin_addr) == 1) {
    in4.sin_family = AF_INET;
    in4.sin_port = htons(listener.port);
    size = sizeof in4;
  } else if (inet_pton(AF_INET6, address.c_str(), &in6.sin6_addr) == 1) {
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(listener.port);
    size = sizeof in6;
  } else {
    return fail(ErrorCode::io_error, "'" + listener.address + "' is not an IP address to listen on.", {},
                place);
  }
  Descriptor fd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return io_failure("socket", place);
  const int on = 1;
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
    return io_failure("SO_REUSEADDR", place);
  // [::] takes IPv6 alone, so that it and 0.0.0.0 at one port are two listeners whatever net.ipv6.bindv6only
  // says.
  if (storage.ss_family == AF_INET6 && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0)
    return io_failure("IPV6_V6ONLY", place);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0)
    return listen_failure(listener, place);
  if (::listen(fd.get(), kBacklog) != 0) return listen_failure(listener, place);
  return describe(std::move(fd));
}

// A socket file that nobody listens behind was left by a daemon that died: it may be replaced. One that
// answers is somebody's, and anything else than a socket is not ours to remove.
Result<void> clear_stale_socket(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode))
    return fail(ErrorCode::io_error, "The path exists and is not a socket.", {}, path);
  Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return io_failure("socket", path);
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN)
    return fail(ErrorCode::io_error, "Another process is listening there.", {}, path);
  if (errno != ECONNREFUSED) return io_failure("Cannot tell whether anybody listens there", path);
  if (::unlink(path.c_str()) != 0) return io_failure("Cannot remove the stale socket", path);
  return {};
}

Result<ListeningSocket> open_unix(const config::Listener& listener) {
  const std::string path = listener.path.string();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(ErrorCode::io_error,
                "A unix socket path has 1 to " + std::to_string(sizeof address.sun_path - 1) + " bytes.", {},
                path);
  std::memcpy(address.sun_path, path.data(), path.size());
  if (auto ok = clear_stale_socket(path, address); !ok) return pass(ok);
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return io_failure("socket", path);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return io_failure("Cannot listen", path);
  SocketFile file(path);
  if (::chmod(path.c_str(), kSocketMode) != 0)
    return io_failure("chmod", path);  // before listen: nobody got in yet
  if (::listen(fd.get(), kBacklog) != 0) return io_failure("Cannot listen", path);
  auto out = describe(std::move(fd));
  if (!out) return pass(out);
  out->file = std::move(file);
  return out;
}

}  // namespace

Result<std::vector<ListeningSocket>> open_listener(const config::Listener& listener) {
  std::vector<ListeningSocket> out;
  if (listener.kind == config::Listener::Kind::systemd) {
    const int n = sd_listen_fds(0);
    if (n <= 0)
      return fail(ErrorCode::io_error, "systemd passed no listening socket.", {}, "systemd listener");
    for (int i = 0; i < n; ++i) {
      const int fd = SD_LISTEN_FDS_START + i;
      if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
        return fail(ErrorCode::io_error, "A descriptor passed by systemd is not a listening stream socket.",
                    {}, "descriptor " + std::to_string(fd));
      auto one = describe(Descriptor(fd));
      if (!one) return pass(one);
      out.push_back(std::move(*one));
    }
    return out;
  }
  auto one = listener.kind == config::Listener::Kind::tcp ? open_tcp(listener) : open_unix(listener);
  if (!one) return pass(one);
  out.push_back(std::move(*one));
  return out;
}

std::string without_ipv4(const config::Listener& one, std::span<const config::Listener> all) {
  const auto is_on = [&](const config::Listener& listener, std::string_view address) {
    return listener.kind == config::Listener::Kind::tcp && listener.address == address &&
           listener.port == one.port;
  };
  if (!is_on(one, "::") ||
      std::ranges::any_of(all, [&](const auto& other) { return is_on(other, "0.0.0.0"); }))
    return {};
  const std::string port = std::to_string(one.port);
  return "[::]:" + port +
         " takes connections of IPv6 alone; for those of IPv4 add a listener on 0.0.0.0:" + port;
}

std::string source_of(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = {};
  constexpr const char* kThisMachine = "127.0.0.0/8";  // a process may connect from any of these
  if (storage.ss_family == AF_INET6) {
    in6_addr address = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      if (address.s6_addr[12] == 127) return kThisMachine;
      inet_ntop(AF_INET, &address.s6_addr[12], text, sizeof text);
      return text;
    }
    std::memset(&address.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &address, text, sizeof text);
    return std::string(text) + "/64";
  }
  const in_addr address = reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
  if (ntohl(address.s_addr) >> 24 == 127) return kThisMachine;
  inet_ntop(AF_INET, &address, text, sizeof text);
  return text;
}

Peer peer_of(int fd, int family) {
  Peer peer;
  if (family == AF_UNIX) {
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
      peer.unix_uid = credentials.uid;
      peer.address = "unix uid " + std::to_string(credentials.uid);
    } else {
      peer.address = "unix";
    }
    peer.source = peer.address;
    return peer;
  }
  const int on = 1;  // a token is a small write that must not wait for the last one's acknowledgement
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return peer;
  peer.address = tcp_url(storage);
  peer.source = source_of(storage);
  if (storage.ss_family == AF_INET) {
    peer.loopback = (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24) == 127;
  } else if (storage.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    peer.loopback =
        IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
  }
  return peer;
}

}  // namespace flyball::http
