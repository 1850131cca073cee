#include "daemon/api/anthropic/writer.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "daemon/api/anthropic/errors.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::anthropic {
namespace {

// Without `citations`, whose null the AI SDK refuses.
constexpr std::string_view kNoText = R"({"type":"text","text":""})";
// No signature is checked.
constexpr std::string_view kNoThinking = R"({"type":"thinking","thinking":"","signature":""})";

std::string call_head(std::string_view id, std::string_view name) {
  std::string out = R"({"type":"tool_use","id":)";
  append_json_string(out, id);
  out.append(R"(,"name":)");
  append_json_string(out, name);
  return out.append(R"(,"caller":{"type":"direct"},"input":)");
}

// Without the closing brace. Input tokens are those that had to be computed.
void append_usage(std::string& out, const Usage& usage) {
  const std::uint32_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  out.append(R"("usage":{"input_tokens":)").append(std::to_string(usage.prompt_tokens - cached));
  out.append(R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":)").append(std::to_string(cached));
  out.append(R"(,"output_tokens":)").append(std::to_string(usage.completion_tokens));
  out.append(R"(,"server_tool_use":null,"fallback_credit":null,"iterations":null)");
}

// Members that a message's usage has beside those of a message_delta's.
constexpr std::string_view kUsageOfMessage =
    R"(,"cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null)";

void append_totals(std::string& out, const Totals& totals, std::string_view more) {
  append_usage(out, totals.usage);
  out.append(more);
  out.append(R"(,"output_tokens_details":{"thinking_tokens":)")
      .append(std::to_string(totals.reasoning_tokens))
      .append("}}");
}

void append_stop(std::string& out, FinishReason reason, std::string_view stop_text) {
  out.append(R"("stop_reason":")");
  out.append(reason == FinishReason::tool_calls ? "tool_use"
             : reason == FinishReason::length   ? "max_tokens"
             : stop_text.empty()                ? "end_turn"
                                                : "stop_sequence");
  out.append(R"(","stop_sequence":)");
  if (stop_text.empty() || reason != FinishReason::stop)
    out.append("null");
  else
    append_json_string(out, stop_text);
  out.append(R"(,"stop_details":null)");
}

// A block of a whole message.
struct Part {
  std::string open;
  std::string_view body;
  bool is_json = false;  // the body, which is text otherwise
  std::string_view close;
};

Part part_of(const Choice& choice, std::size_t part) {
  if (part == 0)
    return {R"({"type":"thinking","thinking":")", choice.reasoning, false, R"(","signature":""})"};
  if (part == 1) return {R"({"type":"text","text":")", choice.text, false, R"("})"};
  const Choice::Call& call = choice.calls[part - 2];
  const std::string head = call_head(call.id, call.name);
  if (call.complete) return {head, call.arguments, true, "}"};
  if (call.arguments.empty()) return {head, "{}", true, "}"};
  return {head + R"({"INVALID_JSON":")", call.arguments, false, R"("}})"};
}

}  // namespace

void Writer::begin(const AnswerHead& head) {
  request_id_ = head.request_id;
  id_ = "msg_" + std::string(head.request_id.substr(head.request_id.find('-') + 1));
  model_ = head.model;
}

std::string Writer::message_head() const {
  std::string out = R"({"id":")" + id_ + R"(","type":"message","role":"assistant","model":)";
  append_json_string(out, model_);
  return out.append(R"(,"container":null,"context_management":null,"diagnostics":null,"content":[)");
}

void Writer::start_message(const Usage& used, Frames& out) {
  std::string& frame = out.begin("message_start");
  frame.append(R"({"type":"message_start","message":)").append(message_head());
  frame.append(R"(],"stop_reason":null,"stop_sequence":null,"stop_details":null,)");
  append_usage(frame, used);
  frame.append(kUsageOfMessage).append(R"(,"output_tokens_details":null}}})");
  out.end();
}

std::string& Writer::open_frame(std::string_view name, Frames& out) const {
  return out.begin(name)
      .append(R"({"type":")")
      .append(name)
      .append(R"(","index":)")
      .append(std::to_string(index_));
}

void Writer::start_block(Block block, std::string_view content, Frames& out) {
  stop_block(out);
  open_ = block;
  open_frame("content_block_start", out).append(R"(,"content_block":)").append(content).append("}");
  out.end();
}

void Writer::stop_block(Frames& out) {
  if (open_ == Block::none) return;
  if (open_ == Block::thinking) delta("signature_delta", "signature", "", out);
  open_frame("content_block_stop", out).append("}");
  out.end();
  open_ = Block::none;
  ++index_;
}

void Writer::delta(std::string_view type, std::string_view member, std::string_view piece,
                   Frames& out) const {
  std::string& frame = open_frame("content_block_delta", out);
  frame.append(R"(,"delta":{"type":")").append(type).append(R"(",")").append(member).append(R"(":)");
  append_json_string(frame, piece);
  frame.append("}}");
  out.end();
}

void Writer::end_message(const Totals& totals, Frames& out) const {
  std::string& frame = out.begin("message_delta");
  frame.append(R"({"type":"message_delta","context_management":null,"delta":{"container":null,)");
  append_stop(frame, reason_, stop_text_);
  frame.append("},");
  append_totals(frame, totals, {});
  frame.push_back('}');
  out.end();
  out.begin("message_stop").append(R"({"type":"message_stop"})");
  out.end();
}

void Writer::write(std::size_t, std::span<const AnswerEvent> events, Frames& out) {
  for (const AnswerEvent& event : events) {
    if (const auto* failed = std::get_if<event::Failed>(&event)) {
      out.begin("error").append(error_json(failed->error, request_id_));
      out.end();
      return;
    }
    const auto* used = std::get_if<event::Used>(&event);
    if (!std::exchange(started_, true)) start_message(used != nullptr ? used->usage : Usage{}, out);
    if (const auto* text = std::get_if<event::Text>(&event)) {
      if (text->text.empty()) continue;
      if (open_ != Block::text) start_block(Block::text, kNoText, out);
      delta("text_delta", "text", text->text, out);
    } else if (const auto* thought = std::get_if<event::Reasoning>(&event)) {
      if (thought->text.empty()) continue;
      if (open_ != Block::thinking) start_block(Block::thinking, kNoThinking, out);
      delta("thinking_delta", "thinking", thought->text, out);
    } else if (const auto* call = std::get_if<event::CallBegin>(&event)) {
      start_block(Block::call, call_head(call->id, call->name) + "{}}", out);
    } else if (const auto* arguments = std::get_if<event::CallArguments>(&event)) {
      delta("input_json_delta", "partial_json", arguments->json, out);
    } else if (const auto* finish = std::get_if<event::Finish>(&event)) {
      reason_ = finish->reason;
      stop_text_ = finish->stop_text;
    }
    if (std::holds_alternative<event::CallEnd>(event) || std::holds_alternative<event::Finish>(event))
      stop_block(out);
    if (const auto* ended = std::get_if<event::Ended>(&event)) end_message(ended->totals, out);
  }
}

bool Writer::whole(std::span<Choice> choices, const Totals& totals, std::string& out) {
  constexpr std::size_t kTextPart = 4 * 1024;
  Choice& choice = choices.front();
  const std::size_t full = out.size() + http::BodySource::kPieceBytes;
  if (!std::exchange(whole_.begun, true)) out.append(message_head());
  while (whole_.part < choice.calls.size() + 2) {
    if (out.size() >= full) return true;
    const Part part = part_of(choice, whole_.part);
    const std::string_view rest = part.body.substr(whole_.written);
    if (whole_.written == 0 && !rest.empty()) {
      if (std::exchange(whole_.any, true)) out.push_back(',');
      out.append(part.open);
    }
    const std::string_view piece = rest.substr(0, cut_of_text(rest, kTextPart));
    if (part.is_json)
      out.append(piece);
    else
      append_json_text(out, piece);
    whole_.written += piece.size();
    if (piece.size() < rest.size()) continue;
    if (!part.body.empty()) out.append(part.close);
    ++whole_.part;
    whole_.written = 0;
  }
  out.append("],");
  append_stop(out, choice.reason, choice.stop_text);
  out.push_back(',');
  append_totals(out, totals, kUsageOfMessage);
  out.push_back('}');
  choice = {};
  return false;
}

}  // namespace flyball::api::anthropic
