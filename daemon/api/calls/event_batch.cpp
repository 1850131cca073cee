#include "daemon/api/calls/event_batch.hpp"

#include <utility>

namespace flyball::api::calls {

void EventBatch::finish() {
  if (kind_ == Kind::none) return;
  const std::string_view bytes = keep(std::exchange(piece_, {}));
  switch (std::exchange(kind_, Kind::none)) {
    case Kind::text:
      events_.push_back(event::Text{bytes});
      break;
    case Kind::reasoning:
      events_.push_back(event::Reasoning{bytes});
      break;
    case Kind::arguments:
      events_.push_back(event::CallArguments{calls_ - 1, bytes});
      break;
    case Kind::none:
      break;
  }
}

void EventBatch::begin_call(std::string_view id, std::string_view name) {
  finish();
  const std::string_view kept_id = keep(std::string(id));
  events_.push_back(event::CallBegin{calls_++, kept_id, keep(std::string(name))});
}

void EventBatch::end_call(bool complete) {
  finish();
  events_.push_back(event::CallEnd{calls_ - 1, complete});
}

void EventBatch::move_to(AnswerEvents& out) {
  finish();
  for (const AnswerEvent& event : events_) out.push_back(event);
  events_.clear();
}

}  // namespace flyball::api::calls
