// One engine process: fork and exec with nothing inherited but a socket, stderr and the variables of
// config/child_environment.hpp, dying with its parent.
#pragma once

#include <string>
#include <vector>

#include "config/descriptor.hpp"
#include "config/error.hpp"

namespace flyball::worker {

inline constexpr int kWorkerFd = 3;  // where the child finds its end of the socketpair

struct Spawned {
  int pid = 0;
  Descriptor pid_fd;  // readable when the process has ended
  Descriptor socket;  // our end, non-blocking
};

// argv[0] is only what the process calls itself. The child is killed when the calling thread ends: call it on
// a thread that lives as long as the daemon. io_error with the system's reason.
Result<Spawned> spawn_worker(const std::string& executable, const std::vector<std::string>& argv);

// "exited with code 70", "was killed by signal 9 (Killed)". Reaps; empty when it has not ended yet.
std::string reap_worker(int pid_fd);
void kill_worker(int pid_fd) noexcept;  // SIGKILL
// SIGKILL, and waits for the end: of a process that has only just been made.
void end_worker(int pid) noexcept;

}  // namespace flyball::worker
