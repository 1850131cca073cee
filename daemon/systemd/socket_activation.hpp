// Listening sockets that systemd passed to this process (sd_listen_fds(3)).
#pragma once

#include <vector>

#include "config/error.hpp"

namespace flyball::systemd {

struct PassedSocket {
  int fd = -1;
  bool unix_socket = false;  // else TCP
};

// Takes them over: the variables are removed from the environment, so a second call finds none and no child
// does. io_error names a descriptor that is no listening stream socket.
Result<std::vector<PassedSocket>> take_listen_sockets();

}  // namespace flyball::systemd
