#include "daemon/serve/start_signals.hpp"

#include <unistd.h>

#include <csignal>

#include "daemon/systemd/log_writer.hpp"

namespace flyball::serve {
namespace {

void end_at_once(int) {
  systemd::wait_for_log();
  _exit(0);
}

sigset_t hangup() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void hold_signals() {
  const sigset_t set = hangup();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  struct sigaction action {};
  action.sa_handler = end_at_once;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

void release_signals() {
  const sigset_t set = hangup();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace flyball::serve
