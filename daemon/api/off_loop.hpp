// Requests whose work would hold up the loop, while another thread does it.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_set>
#include <utility>

#include "config/error.hpp"
#include "daemon/api/app_thread.hpp"
#include "daemon/api/call.hpp"
#include "daemon/api/responder.hpp"
#include "daemon/http/connection.hpp"

namespace flyball::api {

// Longer bodies are parsed off the loop. One of this length takes up to 0.2 ms to parse where it is hostile,
// and the way to the other thread and back takes some 0.02 ms.
inline constexpr std::size_t kParsedOnLoop = 16 * 1024;

class OffLoop;

// The requests off the loop; each leaves when its work is done or it has ended.
class OffLoopRequests {
 public:
  explicit OffLoopRequests(Responder& responder) : responder_(responder) {}  // which outlives this

  void begin(const std::shared_ptr<OffLoop>& request);
  // Answers with the error, before the request's thread has done with it.
  void end(OffLoop& request, const Error& error);
  void end_all(const Error& error);
  std::size_t size() const noexcept { return all_.size(); }

 private:
  friend class OffLoop;

  Responder& responder_;
  std::unordered_set<std::shared_ptr<OffLoop>> all_;
};

// A request that waits for another thread. Until done() the loop touches nothing that work() does.
class OffLoop : public AppThread::Task,
                public http::ExchangeObserver,
                public std::enable_shared_from_this<OffLoop> {
 public:
  OffLoop(OffLoopRequests& requests, AppThread& by, Call request)
      : call(std::move(request)), thread(by), requests_(requests) {}

  // AppThread::Task
  void done() final;
  // Gives back what the request holds of the dispatcher: its exchange may keep this for longer.
  virtual void let_go() {}
  // http::ExchangeObserver
  void on_disconnect() final;
  void on_drained() final {}
  void on_quiet() final {}
  void on_first_byte(http::TimePoint) final {}

  const Call call;
  AppThread& thread;
  bool over = false;  // answered, or its client is gone

 protected:
  virtual void go_on() = 0;  // on the loop, with the outcome of work()

 private:
  OffLoopRequests& requests_;
};

}  // namespace flyball::api
