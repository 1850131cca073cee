// The worker's side: `flyball engine` loads one model on one backend and serves requests from file descriptor `fd`
// until the descriptor closes (the daemon is gone) or it is told to drain. Returns the process exit code.
#pragma once

#include "backends/engine/local_backend.hpp"

namespace flyball::worker {

int serve_worker(int fd, const engine::LocalBackendOptions& options);

}  // namespace flyball::worker
