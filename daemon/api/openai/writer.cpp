#include "daemon/api/openai/writer.hpp"

#include <algorithm>
#include <utility>

#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/errors.hpp"

namespace flyball::api::openai {
namespace {

// A logprob of minus infinity has no JSON; the API's own spelling of "impossible" is -9999.
void append_logprob(std::string& out, float value) {
  append_json_number(out, value >= -9999.0F ? value : -9999.0F);
}

void append_bytes(std::string& out, std::string_view bytes) {
  out.push_back('[');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out.push_back(',');
    out.append(std::to_string(static_cast<unsigned char>(bytes[i])));
  }
  out.push_back(']');
}

void append_chat_logprob(std::string& out, std::string_view bytes, float logprob) {
  out.append(R"({"token":)");
  append_json_string(out, bytes);
  out.append(R"(,"logprob":)");
  append_logprob(out, logprob);
  out.append(R"(,"bytes":)");
  append_bytes(out, bytes);
}

void append_chat_logprobs(std::string& out, std::span<const TokenLogprob> list) {
  out.append(R"({"content":[)");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_chat_logprob(out, list[i].bytes, list[i].logprob);
    out.append(R"(,"top_logprobs":[)");
    for (std::size_t k = 0; k < list[i].top.size(); ++k) {
      if (k > 0) out.push_back(',');
      append_chat_logprob(out, list[i].top[k].first, list[i].top[k].second);
      out.push_back('}');
    }
    out.append("]}");
  }
  out.append(R"(],"refusal":null})");
}

template <class F>
void append_list(std::string& out, std::span<const TokenLogprob> list, F&& f) {
  out.push_back('[');
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out.push_back(',');
    f(list[i]);
  }
  out.push_back(']');
}

void append_legacy_logprobs(std::string& out, std::span<const TokenLogprob> list, std::size_t& offset) {
  out.append(R"({"tokens":)");
  append_list(out, list, [&](const TokenLogprob& t) { append_json_string(out, t.bytes); });
  out.append(R"(,"token_logprobs":)");
  append_list(out, list, [&](const TokenLogprob& t) { append_logprob(out, t.logprob); });
  out.append(R"(,"top_logprobs":)");
  append_list(out, list, [&](const TokenLogprob& t) {
    out.push_back('{');
    std::vector<std::string>
        written;  // distinct tokens may be spelled alike once bytes became text; keys may not
    for (const auto& [bytes, logprob] : t.top) {
      std::string key;
      append_json_string(key, bytes);
      if (std::find(written.begin(), written.end(), key) != written.end()) continue;
      if (!written.empty()) out.push_back(',');
      out.append(key).push_back(':');
      append_logprob(out, logprob);
      written.push_back(std::move(key));
    }
    out.push_back('}');
  });
  out.append(R"(,"text_offset":)");
  append_list(out, list, [&](const TokenLogprob& t) {
    out.append(std::to_string(offset));
    offset += t.bytes.size();
  });
  out.push_back('}');
}

void append_usage(std::string& out, const Usage& usage) {
  out.append(R"({"prompt_tokens":)").append(std::to_string(usage.prompt_tokens));
  out.append(R"(,"completion_tokens":)").append(std::to_string(usage.completion_tokens));
  const std::uint64_t total = std::uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  out.append(R"(,"total_tokens":)").append(std::to_string(total));
  out.append(R"(,"prompt_tokens_details":{"cached_tokens":)")
      .append(std::to_string(usage.cached_tokens))
      .append("}}");
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
  const auto flush_logprobs = [&] {
    if (with_logprobs_ && !logprobs.empty()) delta_chunk(choice, {}, std::exchange(logprobs, {}), out);
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
    } else if (const auto* text = std::get_if<event::Text>(&event)) {
      delta_chunk(choice, text->text, std::exchange(logprobs, {}), out);
    } else if (const auto* finish = std::get_if<event::Finish>(&event)) {
      flush_logprobs();
      finish_chunk(choice, finish->reason, out);
    } else if (const auto* used = std::get_if<event::Used>(&event); used != nullptr && used->last) {
      if (include_usage_) usage_chunk(used->usage, out);
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

void Writer::logprobs(std::string& out, std::size_t choice, std::span<const TokenLogprob> list) {
  out.append(R"(,"logprobs":)");
  if (!with_logprobs_)
    out.append("null");
  else if (chat())
    append_chat_logprobs(out, list);
  else
    append_legacy_logprobs(out, list, progress_[choice].text_offset);
}

void Writer::role_chunk(std::size_t choice, Frames& frames) const {
  std::string& out = open_chunk(choice, frames);
  out.append(R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})");
  close_chunk(out, frames);
}

void Writer::delta_chunk(std::size_t choice, std::string_view text, std::span<const TokenLogprob> list,
                         Frames& frames) {
  std::string& out = open_chunk(choice, frames);
  out.append(chat() ? R"(,"delta":{"content":)" : R"(,"text":)");
  append_json_string(out, text);
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

void Writer::usage_chunk(const Usage& usage, Frames& frames) const {
  std::string& out = frames.begin();
  open(out, chat() ? "chat.completion.chunk" : "text_completion");
  out.append(R"(],"usage":)");
  append_usage(out, usage);
  out.push_back('}');
  frames.end();
}

void Writer::done(Frames& frames) {
  frames.begin().append("[DONE]");
  frames.end();
}

std::string Writer::whole(std::span<const Choice> choices, const Usage& usage) {
  std::string out;
  open(out, chat() ? "chat.completion" : "text_completion");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out.push_back(',');
    out.append(R"({"index":)").append(std::to_string(i));
    out.append(chat() ? R"(,"message":{"role":"assistant","content":)" : R"(,"text":)");
    append_json_string(out, choices[i].text);
    if (chat()) out.append(R"(,"refusal":null})");
    logprobs(out, i, choices[i].logprobs);
    out.append(R"(,"finish_reason":")").append(flyball::to_string(choices[i].reason)).append("\"}");
  }
  out.append(R"(],"usage":)");
  append_usage(out, usage);
  out.push_back('}');
  return out;
}

}  // namespace flyball::api::openai
