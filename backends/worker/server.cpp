#include "backends/worker/server.hpp"

namespace flyball::worker {

int serve_worker(int fd, const local::LocalBackendOptions& options) {
  return serve_backend(fd, [options](const AskMemory& ask) -> Result<std::unique_ptr<Backend>> {
    local::LocalBackendOptions asking = options;
    asking.ask_memory = ask;
    return local::make_local_backend(asking);
  });
}

}  // namespace flyball::worker
