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
  out.append(shape_ == Shape::chat ? R"("})" : R"(")");
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

void Writer::write(std::size_t, std::span<const AnswerEvent> events, Frames& out) {
  for (const AnswerEvent& event : events) {
    if (const auto* failed = std::get_if<event::Failed>(&event)) {
      out.begin().append(error_json(failed->error));
      out.end();
      return;
    }
    if (const auto* text = std::get_if<event::Text>(&event)) {
      std::string& line = out.begin();
      open(line);
      append_json_text(line, text->text);
      close_text(line);
      line.append(R"(,"done":false})");
      out.end();
    } else if (const auto* finish = std::get_if<event::Finish>(&event)) {
      reason_ = finish->reason;
      timings_ = finish->timings;
    } else if (const auto* ended = std::get_if<event::Ended>(&event)) {
      std::string& line = out.begin();
      open(line);
      close_text(line);
      end(line, reason_, timings_, ended->totals);
      out.end();
    }
  }
}

bool Writer::whole(std::span<Choice> choices, const Totals& totals, std::string& out) {
  Choice& choice = choices.front();
  if (!std::exchange(begun_, true)) open(out);
  const std::string_view rest = std::string_view(choice.text).substr(text_);
  const std::size_t n = cut_of_text(rest, http::BodySource::kPieceBytes);
  append_json_text(out, rest.substr(0, n));
  text_ += n;
  if (n < rest.size()) return true;
  close_text(out);
  end(out, choice.reason, choice.timings, totals);
  choice = {};
  return false;
}

}  // namespace flyball::api::ollama
