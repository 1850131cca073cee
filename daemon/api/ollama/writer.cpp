#include "daemon/api/ollama/writer.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "daemon/api/date.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/ollama/errors.hpp"

namespace flyball::api::ollama {
namespace {

void append_duration(std::string& out, std::string_view name, std::uint64_t us) {
  out.append(R"(,")").append(name).append(R"(":)").append(std::to_string(us * 1000));
}

void append_count(std::string& out, std::string_view name, std::uint32_t n) {
  out.append(R"(,")").append(name).append(R"(":)").append(std::to_string(n));
}

// {"id":...,"function":{"index":...,"name":...,"arguments":{...}}}. The arguments are the model's own JSON,
// whose line ends would end a line of the stream: those in a JSON object are blanks.
void append_call(std::string& out, const Choice::Call& call, std::size_t index) {
  out.append(R"({"id":)");
  append_json_string(out, call.id);
  out.append(R"(,"function":{"index":)").append(std::to_string(index)).append(R"(,"name":)");
  append_json_string(out, call.name);
  out.append(R"(,"arguments":)");
  for (const char c : call.arguments) out.push_back(c == '\n' || c == '\r' ? ' ' : c);
  out.append("}}");
}

std::string text_of_broken(const Choice::Call& call) {
  std::string out = R"({"name":)";
  append_json_string(out, call.name);
  return out.append(R"(,"arguments":)").append(call.arguments);
}

}  // namespace

void Writer::begin(const AnswerHead& head) {
  head_ = R"({"model":)";
  append_json_string(head_, head.model);
  head_.append(R"(,"created_at":")").append(rfc3339(head.created)).push_back('"');
}

void Writer::open(std::string& out) const {
  out.append(head_).append(shape_ == Shape::chat ? R"(,"message":{"role":"assistant","content":")"
                                                 : R"(,"response":")");
}

void Writer::close_text(std::string& out) const {
  if (shape_ == Shape::chat) out.push_back('}');
}

void Writer::text_line(std::string_view text, Frames& out) const {
  std::string& line = out.begin();
  open(line);
  append_json_text(line, text);
  line.push_back('"');
  close_text(line);
  line.append(R"(,"done":false})");
  out.end();
}

// load_duration is the time outside of the engine. Clients divide by eval_duration.
void Writer::end(std::string& out, FinishReason reason, const Timings& timings, const Totals& totals) {
  out.append(R"(,"done_reason":")")
      .append(reason == FinishReason::length ? "length" : "stop")
      .append(R"(","done":true)");
  const std::uint64_t computed = timings.prefill_us + timings.decode_us;
  append_duration(out, "total_duration", totals.took_us);
  append_duration(out, "load_duration", totals.took_us > computed ? totals.took_us - computed : 0);
  append_count(out, "prompt_eval_count", totals.usage.prompt_tokens);
  append_duration(out, "prompt_eval_duration", timings.prefill_us);
  append_count(out, "eval_count", totals.usage.completion_tokens);
  append_duration(out, "eval_duration", std::max<std::uint64_t>(timings.decode_us, 1));
  out.push_back('}');
}

struct Writer::EventWriter {
  Writer& writer;
  Frames& out;

  void operator()(const event::Text& e) const { writer.text_line(e.text, out); }
  void operator()(const event::Reasoning& e) const {
    line([&](std::string& text) {
      text.append(R"(,"thinking":)");
      append_json_string(text, e.text);
    });
  }
  void operator()(const event::CallBegin& e) const {
    writer.call_ = {std::string(e.id), std::string(e.name), {}, false};
  }
  void operator()(const event::CallArguments& e) const { writer.call_.arguments += e.json; }
  void operator()(const event::CallEnd& e) const {
    if (!e.complete || writer.shape_ == Shape::text)
      return writer.text_line(text_of_broken(writer.call_), out);
    line([&](std::string& text) {
      text.append(R"(,"tool_calls":[)");
      append_call(text, writer.call_, e.call);
      text.push_back(']');
    });
  }
  void operator()(const event::PromptTokens&) const {}
  void operator()(const event::Logprobs&) const {}
  void operator()(const event::Used&) const {}
  void operator()(const event::Finish& e) const {
    writer.reason_ = e.reason;
    writer.timings_ = e.timings;
  }
  void operator()(const event::Ended& e) const {
    std::string& text = out.begin();
    writer.open(text);
    text.push_back('"');
    writer.close_text(text);
    end(text, writer.reason_, writer.timings_, e.totals);
    out.end();
  }
  void operator()(const event::Failed& e) const {
    out.begin().append(error_json(e.error));
    out.end();
  }

 private:
  // A line without text, with what `append` writes beside it.
  void line(auto append) const {
    std::string& text = out.begin();
    writer.open(text);
    text.push_back('"');
    append(text);
    writer.close_text(text);
    text.append(R"(,"done":false})");
    out.end();
  }
};

void Writer::write(std::size_t, std::span<const AnswerEvent> events, Frames& out) {
  for (const AnswerEvent& event : events) std::visit(EventWriter{*this, out}, event);
}

bool Writer::whole(std::span<Choice> choices, const Totals& totals, std::string& out) {
  const std::size_t full = out.size() + http::BodySource::kPieceBytes;
  Choice& choice = choices.front();
  const auto is_text = [&](const Choice::Call& call) { return !call.complete || shape_ == Shape::text; };
  // The next part of `text`. True: it was the last.
  const auto part = [&](std::string_view text) {
    const std::string_view rest = text.substr(whole_.text);
    const std::size_t n = cut_of_text(rest, http::BodySource::kPieceBytes);
    append_json_text(out, rest.substr(0, n));
    whole_.text += n;
    return n == rest.size();
  };
  if (whole_.at == Whole::At::begin) {
    for (const Choice::Call& call : choice.calls)
      if (is_text(call)) choice.text += text_of_broken(call);
    std::erase_if(choice.calls, is_text);
    open(out);
    whole_.at = Whole::At::text;
  }
  if (whole_.at == Whole::At::text) {
    if (!part(choice.text)) return true;
    out.push_back('"');
    whole_ = {.at = choice.reasoning.empty() ? Whole::At::calls : Whole::At::thinking};
    if (!choice.reasoning.empty()) out.append(R"(,"thinking":")");
  }
  if (whole_.at == Whole::At::thinking) {
    if (!part(choice.reasoning)) return true;
    out.push_back('"');
    whole_.at = Whole::At::calls;
  }
  for (; whole_.call < choice.calls.size(); ++whole_.call) {
    if (out.size() >= full) return true;
    out.append(whole_.call == 0 ? R"(,"tool_calls":[)" : ",");
    append_call(out, choice.calls[whole_.call], whole_.call);
  }
  if (!choice.calls.empty()) out.push_back(']');
  close_text(out);
  end(out, choice.reason, choice.timings, totals);
  choice = {};
  return false;
}

}  // namespace flyball::api::ollama
