#include "tests/harness/epoll_fault.hpp"

#include <sys/epoll.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> adds_until_failure = -1;

}  // namespace

extern "C" {
int __real_epoll_ctl(int set, int operation, int fd, epoll_event* event);

int __wrap_epoll_ctl(int set, int operation, int fd, epoll_event* event) {
  if (operation == EPOLL_CTL_ADD && adds_until_failure >= 0 && adds_until_failure-- == 0) {
    errno = ENOSPC;
    return -1;
  }
  return __real_epoll_ctl(set, operation, fd, event);
}
}

namespace flyball::test {

void fail_epoll_add_after(int n) noexcept {
  adds_until_failure = n;
}

}  // namespace flyball::test
