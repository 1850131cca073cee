// Opens listening sockets as config.yaml names them: TCP, unix, or passed by systemd. Plain system calls, no
// Asio.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/descriptor.hpp"
#include "config/error.hpp"
#include "daemon/http/message.hpp"

namespace flyball::http {

struct ListeningSocket {
  Descriptor fd;
  int family = 0;  // AF_INET, AF_INET6 or AF_UNIX
  std::string url;
  std::string unlink_path;  // a unix socket of ours: removed when the listener closes
};

// One socket for tcp and unix; any number for systemd (none is an io_error: nothing was passed).
Result<std::vector<ListeningSocket>> open_listener(const config::Listener& listener);

// What the kernel knows about the other end of an accepted socket.
Peer peer_of(int fd, int family);

}  // namespace flyball::http
