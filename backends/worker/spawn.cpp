#include "backends/worker/spawn.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "config/child_environment.hpp"

namespace flyball::worker {
namespace {

Error system_error(const char* what, int error) {
  return {ErrorCode::model_unavailable,
          std::string("cannot start an engine process: ") + what + ": " + std::strerror(error), "", ""};
}

// In the forked child: only async-signal-safe calls.
[[noreturn]] void become_worker(const char* executable, char* const* argv, char* const* environment,
                                pid_t parent, int socket, int dev_null) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before the line above
  setpgid(0, 0);                      // Ctrl-C is for the daemon, which drains its workers
  dup2(dev_null, STDIN_FILENO);
  dup2(dev_null, STDOUT_FILENO);
  if (socket == kWorkerFd) {
    fcntl(socket, F_SETFD, 0);
  } else {
    dup2(socket, kWorkerFd);
  }
  syscall(SYS_close_range, kWorkerFd + 1, ~0U, 0);
  for (const int s : {SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGCHLD}) signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(executable, argv, environment);
  _exit(127);
}

}  // namespace

Result<Spawned> spawn_worker(const std::string& executable, const std::vector<std::string>& argv) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return std::unexpected(system_error("socketpair", errno));
  }
  Descriptor ours(pair[0]);
  const Descriptor theirs(pair[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  const Descriptor dev_null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!dev_null) return std::unexpected(system_error("/dev/null", errno));

  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  auto entries = config::child_environment();
  const auto environment = config::environment_block(entries);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return std::unexpected(system_error("fork", errno));
  if (pid == 0)
    become_worker(executable.c_str(), args.data(), environment.data(), parent, theirs.get(), dev_null.get());

  // The child is ours to reap, so its pid cannot be reused before this line.
  Descriptor pid_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pid_fd) {
    const int error = errno;
    end_worker(pid);
    return std::unexpected(system_error("pidfd_open", error));
  }
  return Spawned{pid, std::move(pid_fd), std::move(ours)};
}

std::string reap_worker(int pid_fd) {
  siginfo_t info{};
  if (waitid(P_PIDFD, static_cast<id_t>(pid_fd), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
    return {};
  if (info.si_code == CLD_EXITED) {
    if (info.si_status == 127) return "could not be executed";
    return "exited with code " + std::to_string(info.si_status);
  }
  return "was killed by signal " + std::to_string(info.si_status) + " (" + strsignal(info.si_status) + ")";
}

void kill_worker(int pid_fd) noexcept {
  syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, nullptr, 0);
}

void end_worker(int pid) noexcept {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace flyball::worker
