// A thread for work that would hold up the loop: one parses large bodies and puts large prompts into their
// models' words, another compiles constraints. It does one task at a time. Apps take turns, so that a task
// waits for the one that runs and for at most one task of each other app; an app's own tasks run in order of
// arrival.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

namespace flyball::api {

class AppThread {
 public:
  // Destroyed by the loop's thread.
  struct Task {
    virtual ~Task() = default;
    virtual void work() = 0;  // on this thread
    virtual void done() = 0;  // on the loop, once work() has returned
  };

  // `io` outlives this.
  explicit AppThread(boost::asio::io_context& io);
  ~AppThread();  // waits for the work() that runs; no other task is worked on, or told that it is done
  AppThread(const AppThread&) = delete;
  AppThread& operator=(const AppThread&) = delete;

  // The caller bounds what waits: each task is one connection's request, and its bytes are of the app's
  // HeldBytes.
  void add(const std::string& app, std::shared_ptr<Task> task);
  // Takes back a task that waits. False: its work() has begun.
  bool take_back(const Task& task);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace flyball::api
