// The worker's side: `flyball engine` loads one model on one backend and serves requests from file descriptor
// `fd` until the descriptor closes (the daemon is gone) or it is told to drain. Returns the process exit
// code.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/local/local_backend.hpp"
#include "backends/memory_need.hpp"

namespace flyball::worker {

inline constexpr int kWorkerServed = 0;          // drained, or the daemon went away
inline constexpr int kWorkerLoadFailed = 69;     // told the daemon why in a failed message
inline constexpr int kWorkerDeviceLost = 71;     // told every request so; the next process may find it well
inline constexpr int kWorkerProtocolError = 70;  // the other end does not speak our protocol

int serve_worker(int fd, const local::LocalBackendOptions& options);

// The same over any Backend. `load` runs on a thread of its own, so that heartbeats go out during a long load
// and the end of the daemon ends a load; that thread may outlive the call, then the process should exit
// without waiting.
// It may ask the daemon for memory first, once, and waits there until it has it.
using AskMemory = std::function<std::uint64_t(const MemoryNeed&)>;  // gives Grant::kv_bytes
using BackendLoader = std::function<Result<std::unique_ptr<Backend>>(const AskMemory&)>;
int serve_backend(int fd, BackendLoader load);

}  // namespace flyball::worker
