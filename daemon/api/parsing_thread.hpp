// The thread that parses large bodies, so that the loop does not: it parses one at a time. Apps take turns,
// so that a body waits for the one that is parsed and for at most one body of each other app; an app's own
// bodies are parsed in order of arrival.
#pragma once

#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

namespace flyball::api {

class ParsingThread {
 public:
  // One body. Destroyed by the loop's thread.
  struct Task {
    virtual ~Task() = default;
    virtual void parse() = 0;   // on the parsing thread
    virtual void parsed() = 0;  // on the loop, once parse() has returned
  };

  // `io` outlives this.
  explicit ParsingThread(boost::asio::io_context& io);
  ~ParsingThread();  // waits for the parse() that runs; no other task is parsed, or told that it was
  ParsingThread(const ParsingThread&) = delete;
  ParsingThread& operator=(const ParsingThread&) = delete;

  // The caller bounds what waits: each task is one connection's request, and its bytes are of the app's
  // HeldBytes.
  void add(const std::string& app, std::shared_ptr<Task> task);
  // Takes back a task that waits. False: its parse() has begun.
  bool take_back(const Task& task);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace flyball::api
