#include "daemon/api/openai/writer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/errors.hpp"
#include "daemon/api/openai/logprob_json.hpp"

namespace flyball::api::openai {
namespace {

void append_chat_token(std::string& out, const LogprobView& token, TextOffsets&) {
  append_token_logprob(out, token);
}

void append_legacy_logprob(std::string& out, const LogprobView& token, TextOffsets&) {
  if (token.known)
    append_logprob(out, token.logprob);
  else
    out.append("null");
}

void append_legacy_top(std::string& out, const LogprobView& token, TextOffsets&) {
  if (!token.known) {
    out.append("null");
    return;
  }
  out.push_back('{');
  const std::string sampled = token_text(token.bytes);
  std::vector<std::string> written;
  const auto write = [&](std::string key, float logprob) {
    if (std::ranges::find(written, key) != written.end()) return;
    if (!written.empty()) out.push_back(',');
    append_json_string(out, key);
    out.push_back(':');
    append_logprob(out, key == sampled ? token.logprob : logprob);
    written.push_back(std::move(key));
  };
  // Distinct tokens may be spelled alike, keys may not: the sampled token has the key, else the likeliest.
  for (const auto& [bytes, logprob] : token.top) write(token_text(bytes), logprob);
  write(sampled, token.logprob);
  out.push_back('}');
}

// A list of logprobs in the API's words: `open`, a part for each token with commas between them, `close`.
struct List {
  std::string_view open;
  void (*part)(std::string& out, const LogprobView& token, TextOffsets& offsets);
  std::string_view close;
};
constexpr std::array kChatLists{List{R"({"content":[)", append_chat_token, R"(],"refusal":null})"}};
constexpr std::array kLegacyLists{
    List{R"({"tokens":[)",
         [](std::string& out, const LogprobView& token, TextOffsets&) {
           append_json_string(out, token_text(token.bytes));
         },
         "]"},
    List{R"(,"token_logprobs":[)", append_legacy_logprob, "]"},
    List{R"(,"top_logprobs":[)", append_legacy_top, "]"},
    List{R"(,"text_offset":[)",
         [](std::string& out, const LogprobView& token, TextOffsets& offsets) {
           out.append(std::to_string(offsets.next(token.in_text ? token.bytes : std::string_view())));
         },
         "]}"},
};
constexpr std::span<const List> lists_of(Generate::Kind kind) {
  return kind == Generate::Kind::chat ? std::span<const List>(kChatLists)
                                      : std::span<const List>(kLegacyLists);
}

void append_usage(std::string& out, const Totals& totals) {
  const Usage& usage = totals.usage;
  out.append(R"({"prompt_tokens":)").append(std::to_string(usage.prompt_tokens));
  out.append(R"(,"completion_tokens":)").append(std::to_string(usage.completion_tokens));
  const std::uint64_t total = std::uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  out.append(R"(,"total_tokens":)").append(std::to_string(total));
  out.append(R"(,"prompt_tokens_details":{"cached_tokens":)")
      .append(std::to_string(usage.cached_tokens))
      .push_back('}');
  if (totals.reasoning_tokens > 0)
    out.append(R"(,"completion_tokens_details":{"reasoning_tokens":)")
        .append(std::to_string(totals.reasoning_tokens))
        .push_back('}');
  out.push_back('}');
}

// The members of a chat's delta that an event makes, written to `out`. False: it makes none.
struct DeltaMembers {
  std::string& out;

  bool operator()(const event::Text& e) const { return member("content", e.text); }
  bool operator()(const event::Reasoning& e) const { return member("reasoning_content", e.text); }
  bool operator()(const event::CallBegin& e) const {
    open_call(e.call);
    out.append(R"(,"id":)");
    append_json_string(out, e.id);
    out.append(R"(,"type":"function","function":{"name":)");
    append_json_string(out, e.name);
    out.append(R"(,"arguments":""}}])");
    return true;
  }
  bool operator()(const event::CallArguments& e) const {
    open_call(e.call);
    out.append(R"(,"function":{"arguments":)");
    append_json_string(out, e.json);
    out.append("}}]");
    return true;
  }
  bool operator()(const auto&) const { return false; }

 private:
  bool member(std::string_view name, std::string_view text) const {
    out.append("\"").append(name).append("\":");
    append_json_string(out, text);
    return true;
  }
  void open_call(std::uint32_t call) const {
    out.append(R"("tool_calls":[{"index":)").append(std::to_string(call));
  }
};

// True where an answer only calls tools: its content is null.
bool has_no_content(const Choice& choice) noexcept {
  return choice.text.empty() && !choice.calls.empty();
}

}  // namespace

void Writer::begin(const AnswerHead& head) {
  const std::string_view id = head.request_id.substr(head.request_id.find('-') + 1);
  id_ = (chat() ? "chatcmpl-" : "cmpl-") + std::string(id);
  created_ = head.created;
  model_ = head.model;
  progress_.resize(head.choices);
}

void Writer::write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) {
  std::span<const TokenLogprob> logprobs;  // of the text that follows
  const auto tell_role = [&] {
    if (chat() && !std::exchange(progress_[choice].role_sent, true)) role_chunk(choice, out);
  };
  // A chunk for what delta_ has.
  const auto send = [&] { delta_chunk(choice, std::exchange(logprobs, {}), out); };
  const auto flush_logprobs = [&] {
    if (!with_logprobs_ || logprobs.empty()) return;
    delta_of(event::Text{});
    send();
  };
  for (const AnswerEvent& event : events) {
    if (const auto* failed = std::get_if<event::Failed>(&event)) {
      out.begin().append(error_json(failed->error));
      out.end();
      done(out);
      return;
    }
    tell_role();
    if (const auto* tokens = std::get_if<event::Logprobs>(&event)) {
      logprobs = tokens->tokens;
    } else if (delta_of(event)) {
      send();
    } else if (const auto* finish = std::get_if<event::Finish>(&event)) {
      flush_logprobs();
      finish_chunk(choice, finish->reason, out);
    } else if (const auto* ended = std::get_if<event::Ended>(&event)) {
      if (include_usage_) usage_chunk(ended->totals, out);
      done(out);
    }
  }
  tell_role();
  flush_logprobs();
}

void Writer::open(std::string& out, std::string_view object) const {
  out.append(R"({"id":")").append(id_).append(R"(","object":")").append(object);
  out.append(R"(","created":)").append(std::to_string(created_)).append(R"(,"model":)");
  append_json_string(out, model_);
  out.append(R"(,"choices":[)");
}

std::string& Writer::open_chunk(std::size_t choice, Frames& frames) const {
  std::string& out = frames.begin();
  open(out, chat() ? "chat.completion.chunk" : "text_completion");
  return out.append(R"({"index":)").append(std::to_string(choice));
}

void Writer::close_chunk(std::string& out, Frames& frames) const {
  out.push_back(']');
  if (include_usage_) out.append(R"(,"usage":null)");
  out.push_back('}');
  frames.end();
}

void Writer::logprobs(std::string& out, std::size_t choice, std::span<const TokenLogprob> tokens) {
  out.append(R"(,"logprobs":)");
  if (!with_logprobs_) {
    out.append("null");
    return;
  }
  for (const List& list : lists_of(kind_)) {
    out.append(list.open);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) out.push_back(',');
      token_.read(tokens[i]);
      list.part(out, token_, progress_[choice].offsets);
    }
    out.append(list.close);
  }
}

void Writer::role_chunk(std::size_t choice, Frames& frames) const {
  std::string& out = open_chunk(choice, frames);
  out.append(R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})");
  close_chunk(out, frames);
}

// delta_ for an event. False: it makes none.
bool Writer::delta_of(const AnswerEvent& event) {
  delta_.clear();
  if (chat()) return std::visit(DeltaMembers{delta_}, event);
  const auto* const text = std::get_if<event::Text>(&event);
  if (text != nullptr) append_json_string(delta_, text->text);
  return text != nullptr;
}

void Writer::delta_chunk(std::size_t choice, std::span<const TokenLogprob> list, Frames& frames) {
  std::string& out = open_chunk(choice, frames);
  out.append(chat() ? R"(,"delta":{)" : R"(,"text":)").append(delta_);
  if (chat()) out.push_back('}');
  logprobs(out, choice, list);
  out.append(R"(,"finish_reason":null})");
  close_chunk(out, frames);
}

void Writer::finish_chunk(std::size_t choice, FinishReason reason, Frames& frames) const {
  std::string& out = open_chunk(choice, frames);
  out.append(chat() ? R"(,"delta":{})" : R"(,"text":"")");
  out.append(R"(,"logprobs":null,"finish_reason":")").append(flyball::to_string(reason)).append("\"}");
  close_chunk(out, frames);
}

void Writer::usage_chunk(const Totals& totals, Frames& frames) const {
  std::string& out = frames.begin();
  open(out, chat() ? "chat.completion.chunk" : "text_completion");
  out.append(R"(],"usage":)");
  append_usage(out, totals);
  out.push_back('}');
  frames.end();
}

void Writer::done(Frames& frames) {
  frames.begin().append("[DONE]");
  frames.end();
}

bool Writer::whole(std::span<Choice> choices, const Totals& totals, std::string& out) {
  const std::size_t full = out.size() + http::BodySource::kPieceBytes;
  if (!std::exchange(whole_.begun, true)) open(out, chat() ? "chat.completion" : "text_completion");
  while (whole_.choice < choices.size()) {
    if (out.size() >= full) return true;
    whole_part(choices[whole_.choice], out);
  }
  out.append(R"(],"usage":)");
  append_usage(out, totals);
  out.push_back('}');
  return false;
}

// The next part of `text`, a JSON string. True: it was the last.
bool Writer::whole_text(std::string_view text, std::string& out) {
  constexpr std::size_t kTextPart = 4 * 1024;
  if (whole_.text == 0) out.push_back('"');
  const std::string_view rest = text.substr(whole_.text);
  const std::size_t n = cut_of_text(rest, kTextPart);
  append_json_text(out, rest.substr(0, n));
  whole_.text += n;
  if (n < rest.size()) return false;
  out.push_back('"');
  whole_.text = 0;
  return true;
}

// The next part of the calls, and what ends the message.
void Writer::whole_call(Choice& choice, std::string& out) {
  if (whole_.call == choice.calls.size()) {
    if (!choice.calls.empty()) out.push_back(']');
    out.push_back('}');
    begin_logprobs(out);
    return;
  }
  const Choice::Call& call = choice.calls[whole_.call];
  if (whole_.text == 0) {
    out.append(whole_.call == 0 ? R"(,"tool_calls":[{"id":)" : R"(,{"id":)");
    append_json_string(out, call.id);
    out.append(R"(,"type":"function","function":{"name":)");
    append_json_string(out, call.name);
    out.append(R"(,"arguments":)");
  }
  if (!whole_text(call.arguments, out)) return;
  out.append("}}");
  ++whole_.call;
}

void Writer::begin_logprobs(std::string& out) {
  out.append(R"(,"logprobs":)").append(with_logprobs_ ? lists_of(kind_)[0].open : "null");
  whole_.at = with_logprobs_ ? Whole::At::logprobs : Whole::At::end;
}

// The next part of the choice that whole() is at.
void Writer::whole_part(Choice& choice, std::string& out) {
  const std::span<const List> lists = lists_of(kind_);
  switch (whole_.at) {
    case Whole::At::begin:
      if (whole_.choice > 0) out.push_back(',');
      out.append(R"({"index":)").append(std::to_string(whole_.choice));
      out.append(chat() ? R"(,"message":{"role":"assistant","content":)" : R"(,"text":)");
      whole_.at = Whole::At::text;
      return;
    case Whole::At::text:
      if (chat() && has_no_content(choice))
        out.append("null");
      else if (!whole_text(choice.text, out))
        return;
      if (!chat()) return begin_logprobs(out);
      out.append(R"(,"refusal":null)");
      if (!choice.reasoning.empty()) out.append(R"(,"reasoning_content":)");
      whole_.at = choice.reasoning.empty() ? Whole::At::calls : Whole::At::reasoning;
      return;
    case Whole::At::reasoning:
      if (whole_text(choice.reasoning, out)) whole_.at = Whole::At::calls;
      return;
    case Whole::At::calls:
      whole_call(choice, out);
      return;
    case Whole::At::logprobs:
      if (const bool first = whole_.token.block == 0 && whole_.token.at == 0;
          choice.logprobs.read(whole_.token, token_)) {
        if (!first) out.push_back(',');
        lists[whole_.list].part(out, token_, progress_[whole_.choice].offsets);
        return;
      }
      out.append(lists[whole_.list].close);
      whole_.token = {};
      if (++whole_.list < lists.size())
        out.append(lists[whole_.list].open);
      else
        whole_.at = Whole::At::end;
      return;
    case Whole::At::end:
      out.append(R"(,"finish_reason":")").append(flyball::to_string(choice.reason)).append("\"}");
      choice = {};
      whole_ = {.begun = true, .choice = whole_.choice + 1};
      return;
  }
}

}  // namespace flyball::api::openai
