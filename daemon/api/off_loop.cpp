#include "daemon/api/off_loop.hpp"

namespace flyball::api {

void OffLoopRequests::begin(const std::shared_ptr<OffLoop>& request) {
  all_.insert(request);
  request->call.exchange->observe(request);
  request->thread.add(request->call.app->id, request);
}

void OffLoopRequests::end(OffLoop& one, const Error& error) {
  if (std::exchange(one.over, true)) return;
  responder_.answer(one.call, std::unexpected(error));
  // Work that has begun runs to its end, and its request counts as in flight until then.
  if (!one.thread.take_back(one)) return;
  one.let_go();
  all_.erase(one.shared_from_this());
}

void OffLoopRequests::end_all(const Error& error) {
  const auto all = all_;  // each one leaves its set as it ends
  for (const auto& one : all) end(*one, error);
}

void OffLoop::done() {
  const auto self = shared_from_this();
  requests_.all_.erase(self);
  if (over)
    let_go();
  else
    go_on();
}

void OffLoop::on_disconnect() {
  requests_.end(*this, {ErrorCode::cancelled, "The client closed the connection.", {}, {}});
}

}  // namespace flyball::api
