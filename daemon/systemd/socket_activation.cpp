#include "daemon/systemd/socket_activation.hpp"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <cstring>
#include <string>

namespace flyball::systemd {

Result<std::vector<PassedSocket>> take_listen_sockets() {
  const int n = sd_listen_fds(1);
  if (n < 0) return fail(ErrorCode::io_error, std::string("sd_listen_fds: ") + std::strerror(-n));
  std::vector<PassedSocket> sockets;
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; ++fd) {
    if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0) {
      return fail(ErrorCode::io_error, "file descriptor " + std::to_string(fd) +
                                           " passed by systemd is no listening stream socket");
    }
    sockets.push_back({fd, sd_is_socket(fd, AF_UNIX, SOCK_STREAM, 1) > 0});
  }
  return sockets;
}

}  // namespace flyball::systemd
