#include "daemon/api/answer.hpp"

#include <algorithm>

namespace flyball::api {
namespace {

// The last engine event's batch added to a choice.
struct Gatherer {
  Choice& choice;

  void operator()(const event::Text& e) const { choice.text += e.text; }
  void operator()(const event::Reasoning& e) const { choice.reasoning += e.text; }
  void operator()(const event::CallBegin& e) const {
    choice.calls.push_back({std::string(e.id), std::string(e.name), {}});
  }
  void operator()(const event::CallArguments& e) const { choice.calls.at(e.call).arguments += e.json; }
  void operator()(const event::CallEnd&) const {}
  void operator()(const event::Logprobs& e) const {
    for (const TokenLogprob& token : e.tokens) choice.logprobs.append(token);
  }
  void operator()(const event::Used&) const {}
  void operator()(const event::Finish& e) const {
    choice.reason = e.reason;
    choice.stop_text = e.stop_text;
    choice.timings = e.timings;
  }
  void operator()(const event::Ended&) const {}
  void operator()(const event::Failed&) const {}
};

}  // namespace

const AnswerEvents& ChoiceReader::read(const Delta& delta) {
  events_.clear();
  if (!began_ && delta.prompt_tokens > 0)
    events_.push_back(event::Used{{delta.prompt_tokens, 0, delta.cached_tokens}});
  began_ = true;
  if (!delta.logprobs.empty()) events_.push_back(event::Logprobs{delta.logprobs});
  if (delta.text.empty()) return events_;
  if (parser_)
    parser_->parse(delta.text, events_);
  else
    events_.push_back(event::Text{delta.text});
  return events_;
}

const AnswerEvents& ChoiceReader::read(const Done& done, const Totals* totals) {
  events_.clear();
  if (parser_) parser_->end(events_);
  events_.push_back(event::Finish{done.reason, done.stop_text, done.timings});
  if (totals != nullptr) events_.push_back(event::Ended{*totals});
  return events_;
}

std::size_t Choice::bytes() const noexcept {
  std::size_t n = text.capacity() + reasoning.capacity() + logprobs.bytes();
  for (const Call& call : calls)
    n += sizeof call + call.id.capacity() + call.name.capacity() + call.arguments.capacity();
  return n;
}

void gather(Choice& choice, std::span<const AnswerEvent> events) {
  for (const AnswerEvent& event : events) std::visit(Gatherer{choice}, event);
}

}  // namespace flyball::api
