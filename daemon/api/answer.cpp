#include "daemon/api/answer.hpp"

#include <algorithm>
#include <utility>

namespace flyball::api {
namespace {

// The last engine event's batch added to a choice.
struct Gatherer {
  Choice& choice;

  // The latest tokens, which no event has told yet.
  void place_tokens(bool beside_text) const {
    choice.beside_text.resize(choice.logprobs.size(), beside_text);
  }

  void operator()(const event::Text& e) const {
    choice.text += e.text;
    if (!e.text.empty()) place_tokens(false);
  }
  void operator()(const event::Reasoning& e) const {
    choice.reasoning += e.text;
    if (!e.text.empty()) place_tokens(true);
  }
  void operator()(const event::CallBegin& e) const {
    choice.calls.push_back({std::string(e.id), std::string(e.name), {}, false});
    place_tokens(true);
  }
  void operator()(const event::CallArguments& e) const {
    choice.calls.at(e.call).arguments += e.json;
    place_tokens(true);
  }
  void operator()(const event::CallEnd& e) const { choice.calls.at(e.call).complete = e.complete; }
  // Another engine that takes over tells them again.
  void operator()(const event::PromptTokens& e) const {
    choice.prompt.assign(e.tokens.begin(), e.tokens.end());
  }
  void operator()(const event::Logprobs& e) const {
    for (const TokenLogprob& token : e.tokens) choice.logprobs.append(token);
  }
  void operator()(const event::Used&) const {}
  void operator()(const event::Finish& e) const {
    if (!choice.calls.empty()) place_tokens(true);
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
  if (delta.prompt_tokens > 0 && !std::exchange(told_used_, true))
    events_.push_back(event::Used{{delta.prompt_tokens, 0, delta.cached_tokens}});
  if (!began_ && make_) parser_ = make_(delta.form.value_or(AnswerForm{}), ids_);
  began_ = true;
  if (parser_) parser_->begin_batch();
  if (!delta.prompt.empty()) events_.push_back(event::PromptTokens{delta.prompt});
  if (!delta.logprobs.empty()) events_.push_back(event::Logprobs{delta.logprobs});
  if (read_text(delta)) reasoning_tokens_ += static_cast<std::uint32_t>(delta.tokens.size());
  follow_calls();
  return events_;
}

void ChoiceReader::follow_calls() {
  for (const AnswerEvent& event : events_)
    if (std::holds_alternative<event::CallBegin>(event))
      called_ = true;
    else if (const auto* end = std::get_if<event::CallEnd>(&event))
      called_ = end->complete;
}

bool ChoiceReader::read_text(const Delta& delta) {
  const std::string_view text = delta.text;
  bool reasons = false;
  const auto read_part = [&](std::size_t begin, std::size_t end, bool control) {
    if (begin == end) return;
    const std::string_view part = text.substr(begin, end - begin);
    if (parser_) {
      parser_->parse(part, control, events_);
      reasons |= parser_->in_reasoning();
    } else if (!control) {
      events_.push_back(event::Text{part});
    }
  };
  std::size_t at = 0;
  for (const ControlSpan& span : delta.control) {
    read_part(at, span.begin, false);
    read_part(span.begin, span.end, true);
    at = span.end;
  }
  read_part(at, text.size(), false);
  if (parser_) reasons |= parser_->in_reasoning();
  return reasons || std::ranges::any_of(events_, [](const AnswerEvent& event) {
           return std::holds_alternative<event::Reasoning>(event);
         });
}

const AnswerEvents& ChoiceReader::read(const Done& done, const Totals* totals) {
  events_.clear();
  if (parser_) {
    parser_->begin_batch();
    parser_->end(events_);
  }
  follow_calls();
  const bool called = called_ && done.reason == FinishReason::stop;
  events_.push_back(
      event::Finish{called ? FinishReason::tool_calls : done.reason, done.stop_text, done.timings});
  if (totals != nullptr) events_.push_back(event::Ended{*totals});
  return events_;
}

std::size_t Choice::bytes() const noexcept {
  std::size_t n = text.capacity() + reasoning.capacity() + prompt.capacity() * sizeof(Token) +
                  logprobs.bytes() + beside_text.capacity() / 8;
  for (const Call& call : calls)
    n += sizeof call + call.id.capacity() + call.name.capacity() + call.arguments.capacity();
  return n;
}

void gather(Choice& choice, std::span<const AnswerEvent> events) {
  for (const AnswerEvent& event : events) std::visit(Gatherer{choice}, event);
}

}  // namespace flyball::api
