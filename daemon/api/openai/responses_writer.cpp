#include "daemon/api/openai/responses_writer.hpp"

#include <algorithm>
#include <variant>

#include "daemon/api/error_table.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/logprob_json.hpp"
#include "daemon/api/openai/responses_input.hpp"

namespace flyball::api::openai::responses {

// The API's words for a text: "response.PART.added", "response.TEXT.delta", and the member that counts parts.
struct Words {
  std::string_view part, text, index, type;
};

namespace {

// The events that repeat a text: those of the text, its part, its item and the response. The last two have
// encrypted content, too. A call has no parts.
constexpr std::size_t kRepeats = 4, kRepeatsOfCall = 3;
// An item's own memory, and its events without their texts.
constexpr std::size_t kItemBytes = 1024;

constexpr Words kMessage{"content_part", "output_text", "content_index", "output_text"};
constexpr Words kReasoning{"content_part", "reasoning_text", "content_index", "reasoning_text"};
constexpr Words kSummary{"reasoning_summary_part", "reasoning_summary_text", "summary_index", "summary_text"};

std::string event_name(std::string_view what, std::string_view happened) {
  return "response." + std::string(what) + "." + std::string(happened);
}

void append_string(std::string& out, std::string_view name, std::string_view value) {
  out.append(R"(,")").append(name).append(R"(":)");
  append_json_string(out, value);
}

// {"type","text"}, and what a message's has beside it.
void append_part(std::string& out, const Words& words, std::string_view text, std::string_view logprobs) {
  const bool is_message = words.type == kMessage.type;
  out.append(R"({"type":")").append(words.type).append(is_message ? R"(","annotations":[])" : "\"");
  append_string(out, "text", text);
  if (is_message) out.append(R"(,"logprobs":[)").append(logprobs).push_back(']');
  out.push_back('}');
}

std::string_view status_of(bool is_complete) noexcept {
  return is_complete ? "completed" : "incomplete";
}

// The end of a response.
void append_usage(std::string& out, const Totals* totals) {
  out.append(R"(,"usage":)");
  if (totals == nullptr) {
    out.append("null}");
    return;
  }
  const Usage& usage = totals->usage;
  const std::uint64_t all = std::uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  out.append(R"({"input_tokens":)").append(std::to_string(usage.prompt_tokens));
  out.append(R"(,"input_tokens_details":{"cached_tokens":)").append(std::to_string(usage.cached_tokens));
  out.append(R"(,"cache_write_tokens":0},"output_tokens":)").append(std::to_string(usage.completion_tokens));
  out.append(R"(,"output_tokens_details":{"reasoning_tokens":)")
      .append(std::to_string(totals->reasoning_tokens));
  out.append(R"(},"total_tokens":)").append(std::to_string(all)).append("}}");
}

}  // namespace

void Writer::begin(const AnswerHead& head) {
  id_ = head.request_id.substr(head.request_id.find('-') + 1);
  model_ = head.model;
  created_ = head.created;
}

std::size_t Writer::cost(const AnswerEvent& event) const {
  if (const auto* text = std::get_if<event::Text>(&event))
    return text->text.size() + kRepeats * json_text_bytes(text->text);
  if (const auto* thought = std::get_if<event::Reasoning>(&event))
    return thought->text.size() + (kRepeats + (shape_.encrypted ? 2 : 0)) * json_text_bytes(thought->text);
  if (const auto* arguments = std::get_if<event::CallArguments>(&event))
    return arguments->json.size() + kRepeatsOfCall * json_text_bytes(arguments->json);
  if (const auto* call = std::get_if<event::CallBegin>(&event))
    return (1 + kRepeatsOfCall) * (call->id.size() + call->name.size());
  return 0;
}

std::size_t Writer::bytes(std::span<const AnswerEvent> events) const {
  std::size_t n = echo_.bytes(shape_.streamed) + namespaces_bytes_ + held_ + logprobs_.size();
  for (const AnswerEvent& event : events) {
    n += cost(event);
    const auto* logprobs = std::get_if<event::Logprobs>(&event);
    if (logprobs == nullptr || !shape_.logprobs) continue;
    for (const TokenLogprob& token : logprobs->tokens) n += (1 + kRepeats) * most_json_bytes(token);
  }
  return n;
}

// ---- JSON -------------------------------------------------------------------------------------------------

Writer::Item Writer::new_item(Item::Kind kind, std::size_t index) const {
  const std::string_view prefix = kind == Item::Kind::message ? "msg_"
                                  : kind == Item::Kind::call  ? "fc_"
                                                              : "rs_";
  return {.kind = kind, .id = std::string(prefix) + id_ + "_" + std::to_string(index)};
}

Writer::Item Writer::new_call(std::string_view id, std::string_view name, std::size_t index) const {
  Item item = new_item(Item::Kind::call, index);
  item.call_id = id;
  const Namespaces::Name split = namespaces_.split(name);
  item.name_space = split.space;
  item.name = split.name;
  return item;
}

void Writer::append_segments(const Item& item, std::string_view text, std::vector<Segment>& out) const {
  constexpr std::string_view kStates[] = {"in_progress", "completed", "incomplete"};  // as Item::State
  const std::string status = R"(","status":")" + std::string(kStates[static_cast<std::size_t>(item.state)]);
  const bool is_begun = item.state == Item::State::begun;
  std::string json = R"({"id":")" + item.id + R"(","type":")";
  switch (item.kind) {
    case Item::Kind::call:
      json.append("function_call").append(status).push_back('"');
      append_string(json, "call_id", item.call_id);
      if (!item.name_space.empty()) append_string(json, "namespace", item.name_space);
      append_string(json, "name", item.name);
      out.push_back({json + R"(,"arguments":")", text});
      out.push_back({"\"}"});
      return;
    case Item::Kind::message:
      json.append("message").append(status).append(R"(","role":"assistant","content":[)");
      if (is_begun) {
        out.push_back({json + "]}"});
        return;
      }
      out.push_back({json + R"({"type":"output_text","annotations":[],"text":")", text});
      out.push_back({R"(","logprobs":[)", {}, item.logprobs, true});
      out.push_back({"]}]}"});
      return;
    case Item::Kind::reasoning:
      json.append("reasoning").append(status).push_back('"');
      if (is_begun) {
        out.push_back({json + R"(,"summary":[],"content":[]})"});
        return;
      }
      if (shape_.encrypted) {
        json.append(R"(,"encrypted_content":")").append(kReasoningMark);
        out.push_back({std::exchange(json, "\""), text});
      }
      json.append(shape_.summaries ? R"(,"content":[],"summary":[{"type":"summary_text","text":")"
                                   : R"(,"summary":[],"content":[{"type":"reasoning_text","text":")");
      out.push_back({json, text});
      out.push_back({R"("}]})"});
      return;
  }
}

void Writer::append_item(std::string& out, const Item& item) const {
  std::vector<Segment> segments;
  append_segments(item, item.text, segments);
  for (const Segment& segment : segments) {
    out.append(segment.json);
    append_json_text(out, segment.text);
    out.append(segment.more_json);
  }
}

std::string Writer::head_json(std::string_view status, bool is_cut, const Error* error) const {
  std::string out = R"({"id":"resp_)" + id_ + R"(","object":"response","created_at":)" +
                    std::to_string(created_) + R"(,"status":")" + std::string(status) +
                    R"(","background":false,"error":)";
  if (error == nullptr) {
    out.append("null");
  } else {
    out.append(R"({"code":)");
    append_json_string(out, to_string(error_row(error->code).code));
    append_string(out, "message", error->message);
    out.push_back('}');
  }
  out.append(R"(,"incomplete_details":)");
  out.append(is_cut ? R"({"reason":"max_output_tokens"})" : "null");
  append_string(out, "model", model_);
  return out.append(R"(,"output":[)");
}

// ---- a stream ---------------------------------------------------------------------------------------------

std::string& Writer::open_event(std::string_view name, Frames& out) {
  return out.begin(name)
      .append(R"({"type":")")
      .append(name)
      .append(R"(","sequence_number":)")
      .append(std::to_string(sequence_++));
}

std::string& Writer::open_item_event(std::string_view name, Frames& out) {
  std::string& frame = open_event(name, out);
  frame.append(R"(,"item_id":")").append(items_.back().id);
  return frame.append(R"(","output_index":)").append(std::to_string(items_.size() - 1));
}

std::string& Writer::open_part_event(std::string_view name, Frames& out) {
  std::string& frame = open_item_event(name, out);
  return frame.append(",\"").append(words().index).append("\":0");
}

const Words& Writer::words() const noexcept {
  return items_.back().kind == Item::Kind::message ? kMessage : shape_.summaries ? kSummary : kReasoning;
}

void Writer::part_event(std::string_view happened, std::string_view text, std::string_view logprobs,
                        Frames& out) {
  std::string& frame = open_part_event(event_name(words().part, happened), out);
  frame.append(R"(,"part":)");
  append_part(frame, words(), text, logprobs);
  frame.push_back('}');
  out.end();
}

void Writer::item_event(std::string_view happened, Frames& out) {
  std::string& frame = open_event(event_name("output_item", happened), out);
  frame.append(R"(,"output_index":)").append(std::to_string(items_.size() - 1)).append(R"(,"item":)");
  append_item(frame, items_.back());
  frame.push_back('}');
  out.end();
}

void Writer::start(Frames& out) {
  if (std::exchange(started_, true)) return;
  for (const std::string_view name : {"response.created", "response.in_progress"}) {
    std::string& frame = open_event(name, out);
    frame.append(R"(,"response":)").append(head_json("in_progress", false, nullptr));
    frame.append("]").append(echo_.settings());
    if (echo_.is_short()) frame.append(echo_.texts());
    append_usage(frame, nullptr);
    frame.push_back('}');
    out.end();
  }
}

void Writer::last_event(std::string_view status, const Totals* totals, const Error* error, Frames& out) {
  std::string& frame = open_event("response." + std::string(status), out);
  frame.append(R"(,"response":)");
  frame.append(head_json(status, error == nullptr && reason_ == FinishReason::length, error));
  for (const Item& item : items_) {
    if (&item != &items_.front()) frame.push_back(',');
    append_item(frame, item);
  }
  frame.append("]").append(echo_.settings()).append(echo_.texts());
  append_usage(frame, totals);
  frame.push_back('}');
  out.end();
}

void Writer::start_item(Item item, Frames& out) {
  end_item(Item::State::completed, out);
  items_.push_back(std::move(item));
  held_ += kItemBytes;
  open_ = true;
  item_event("added", out);
  if (items_.back().kind != Item::Kind::call) part_event("added", "", "", out);
}

void Writer::add_text(Item::Kind kind, std::string_view piece, Frames& out) {
  if (piece.empty()) return;
  if (kind == Item::Kind::reasoning) logprobs_.clear();
  if (!open_ || items_.back().kind != kind) start_item(new_item(kind, items_.size()), out);
  delta(piece, out);
}

void Writer::delta(std::string_view piece, Frames& out) {
  Item& item = items_.back();
  item.text += piece;
  std::string& frame = item.kind == Item::Kind::call
                           ? open_item_event("response.function_call_arguments.delta", out)
                           : open_part_event(event_name(words().text, "delta"), out);
  append_string(frame, "delta", piece);
  if (item.kind == Item::Kind::message) {
    frame.append(R"(,"logprobs":[)").append(logprobs_).push_back(']');
    if (!item.logprobs.empty() && !logprobs_.empty()) item.logprobs.push_back(',');
    held_ += (1 + kRepeats) * logprobs_.size();
    item.logprobs += std::exchange(logprobs_, {});
  }
  frame.push_back('}');
  out.end();
}

void Writer::end_item(Item::State state, Frames& out) {
  if (!std::exchange(open_, false)) return;
  Item& item = items_.back();
  item.state = state;
  if (item.kind == Item::Kind::call) {
    std::string& frame = open_item_event("response.function_call_arguments.done", out);
    append_string(frame, "name", item.name);
    append_string(frame, "arguments", item.text);
    frame.push_back('}');
    out.end();
  } else {
    if (item.kind == Item::Kind::message && !logprobs_.empty()) delta("", out);
    std::string& frame = open_part_event(event_name(words().text, "done"), out);
    append_string(frame, "text", item.text);
    if (item.kind == Item::Kind::message)
      frame.append(R"(,"logprobs":[)").append(item.logprobs).push_back(']');
    frame.push_back('}');
    out.end();
    part_event("done", item.text, item.logprobs, out);
  }
  item_event("done", out);
}

void Writer::fail(const Error& error, Frames& out) {
  end_item(Item::State::incomplete, out);
  std::string& frame = open_event("error", out);
  append_string(frame, "code", to_string(error_row(error.code).code));
  append_string(frame, "message", error.message);
  if (error.param.empty())
    frame.append(R"(,"param":null)");
  else
    append_string(frame, "param", error.param);
  frame.push_back('}');
  out.end();
  last_event("failed", nullptr, &error, out);
}

void Writer::write(std::size_t, std::span<const AnswerEvent> events, Frames& out) {
  for (const AnswerEvent& event : events) {
    start(out);
    held_ += cost(event);
    if (const auto* failed = std::get_if<event::Failed>(&event)) {
      fail(failed->error, out);
      return;
    }
    if (const auto* tokens = std::get_if<event::Logprobs>(&event)) {
      add_logprobs(tokens->tokens);
    } else if (const auto* text = std::get_if<event::Text>(&event)) {
      add_text(Item::Kind::message, text->text, out);
    } else if (const auto* thought = std::get_if<event::Reasoning>(&event)) {
      add_text(Item::Kind::reasoning, thought->text, out);
    } else if (const auto* call = std::get_if<event::CallBegin>(&event)) {
      logprobs_.clear();
      start_item(new_call(call->id, call->name, items_.size()), out);
    } else if (const auto* arguments = std::get_if<event::CallArguments>(&event)) {
      logprobs_.clear();
      delta(arguments->json, out);
    } else if (const auto* end = std::get_if<event::CallEnd>(&event)) {
      end_item(end->complete ? Item::State::completed : Item::State::incomplete, out);
    } else if (const auto* finish = std::get_if<event::Finish>(&event)) {
      reason_ = finish->reason;
      end_item(reason_ == FinishReason::length ? Item::State::incomplete : Item::State::completed, out);
    } else if (const auto* ended = std::get_if<event::Ended>(&event)) {
      const bool is_complete =
          reason_ != FinishReason::length &&
          std::ranges::all_of(items_, [](const Item& item) { return item.state == Item::State::completed; });
      last_event(status_of(is_complete), &ended->totals, nullptr, out);
    }
  }
}

void Writer::add_logprobs(std::span<const TokenLogprob> tokens) {
  if (!shape_.logprobs) return;
  for (const TokenLogprob& token : tokens) {
    if (!token.in_text) continue;
    if (!logprobs_.empty()) logprobs_.push_back(',');
    token_.read(token);
    append_token_logprob(logprobs_, token_);
  }
}

// ---- a whole response -------------------------------------------------------------------------------------

void Writer::lay_out(const Choice& choice, const Totals& totals) {
  const bool is_cut = choice.reason == FinishReason::length;
  const bool is_all_complete = !is_cut && std::ranges::all_of(choice.calls, &Choice::Call::complete);
  std::vector<Segment>& segments = whole_.segments;
  segments.push_back({head_json(status_of(is_all_complete), is_cut, nullptr)});
  std::size_t items = 0;
  const auto add = [&](Item item, bool is_complete, std::string_view text) {
    item.state = is_complete ? Item::State::completed : Item::State::incomplete;
    if (items++ > 0) segments.push_back({","});
    append_segments(item, text, segments);
  };
  if (!choice.reasoning.empty())
    add(new_item(Item::Kind::reasoning, items), !is_cut || !choice.text.empty() || !choice.calls.empty(),
        choice.reasoning);
  if (!choice.text.empty())
    add(new_item(Item::Kind::message, items), !is_cut || !choice.calls.empty(), choice.text);
  for (const Choice::Call& call : choice.calls)
    add(new_call(call.id, call.name, items), call.complete, call.arguments);
  std::string usage;
  append_usage(usage, &totals);
  segments.push_back({"]" + std::string(echo_.settings()), {}, echo_.texts()});
  segments.push_back({std::move(usage)});
}

// The next part of the document. False: there is none.
bool Writer::whole_part(const Choice& choice, std::string& out) {
  constexpr std::size_t kPart = 4 * 1024;
  if (whole_.segment == whole_.segments.size()) return false;
  const Segment& segment = whole_.segments[whole_.segment];
  if (const std::string_view json = std::string_view(segment.json).substr(whole_.json); !json.empty()) {
    out.append(json.substr(0, kPart));
    whole_.json += std::min(kPart, json.size());
  } else if (const std::string_view text = segment.text.substr(whole_.text); !text.empty()) {
    const std::size_t n = cut_of_text(text, kPart);
    append_json_text(out, text.substr(0, n));
    whole_.text += n;
  } else if (const std::string_view more = segment.more_json.substr(whole_.more_json); !more.empty()) {
    out.append(more.substr(0, kPart));
    whole_.more_json += std::min(kPart, more.size());
  } else if (segment.has_logprobs && shape_.logprobs && choice.logprobs.read(whole_.token, token_)) {
    const std::size_t i = whole_.tokens++;
    if (!token_.in_text || (i < choice.beside_text.size() && choice.beside_text[i])) return true;
    if (std::exchange(whole_.any_token, true)) out.push_back(',');
    append_token_logprob(out, token_);
  } else {
    ++whole_.segment;
    whole_.json = whole_.text = whole_.more_json = 0;
  }
  return true;
}

bool Writer::whole(std::span<Choice> choices, const Totals& totals, std::string& out) {
  Choice& choice = choices.front();
  const std::size_t full = out.size() + http::BodySource::kPieceBytes;
  if (whole_.segments.empty()) lay_out(choice, totals);
  while (whole_part(choice, out))
    if (out.size() >= full) return true;
  choice = {};
  return false;
}

}  // namespace flyball::api::openai::responses
