// The daemon's side of a worker process: a Backend whose engine is `flyball engine` behind a socketpair.
// Lives on one io_context; every call and every EventSink::push happens on that context's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "backends/backend.hpp"
#include "config/error.hpp"

namespace flyball::worker {

struct WorkerOptions {
  std::string model_id;
  std::string model_path;  // "" means the embedded demo model
  std::string backend = "cpu";
  std::uint32_t threads = 0, context = 0, max_sequences = 8;
  std::string executable = "/proc/self/exe";
  std::chrono::milliseconds ready_timeout{60'000};
  std::chrono::milliseconds heartbeat{1'000}, heartbeat_timeout{10'000};
};

class WorkerClient : public Backend {
 public:
  struct Callbacks {
    std::function<void()> ready;             // once; info() is valid from here on
    std::function<void(Error)> died;         // once, last; every open request has had worker_died (or the real cause)
  };
  // Spawns the process and returns at once.
  static Result<std::unique_ptr<WorkerClient>> spawn(boost::asio::io_context& io, const WorkerOptions& options,
                                                     Callbacks callbacks);
  virtual int pid() const noexcept = 0;
};

}  // namespace flyball::worker
