#include "daemon/api/encoder.hpp"

#include <algorithm>

#include "daemon/api/error_table.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api {
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

void append_chat_logprobs(std::string& out, const std::vector<TokenLogprob>& list) {
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
void append_list(std::string& out, const std::vector<TokenLogprob>& list, F&& f) {
  out.push_back('[');
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out.push_back(',');
    f(list[i]);
  }
  out.push_back(']');
}

void append_legacy_logprobs(std::string& out, const std::vector<TokenLogprob>& list, std::size_t& offset) {
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

const char* to_string(Operation operation) noexcept {
  return operation == Operation::chat ? "chat" : "completion";
}

Encoder::Encoder(Envelope envelope, bool with_logprobs, std::size_t n_choices)
    : envelope_(std::move(envelope)), with_logprobs_(with_logprobs), text_offsets_(n_choices) {}

void Encoder::begin(std::string& out, std::string_view object) const {
  out.append(R"({"id":")").append(envelope_.id).append(R"(","object":")").append(object);
  out.append(R"(","created":)").append(std::to_string(envelope_.created)).append(R"(,"model":)");
  append_json_string(out, envelope_.model);
  out.append(R"(,"choices":[)");
}

void Encoder::end_chunk(std::string& out) const {
  out.push_back(']');
  if (envelope_.usage_in_chunks) out.append(R"(,"usage":null)");
  out.append("}\n\n");
}

void Encoder::logprobs(std::string& out, std::size_t index, const std::vector<TokenLogprob>& list) {
  out.append(R"(,"logprobs":)");
  if (!with_logprobs_)
    out.append("null");
  else if (envelope_.operation == Operation::chat)
    append_chat_logprobs(out, list);
  else
    append_legacy_logprobs(out, list, text_offsets_[index]);
}

void Encoder::role_chunk(std::string& out, std::size_t index) {
  out.append("data: ");
  begin(out, "chat.completion.chunk");
  out.append(R"({"index":)").append(std::to_string(index));
  out.append(R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})");
  end_chunk(out);
}

void Encoder::delta_chunk(std::string& out, std::size_t index, const Delta& delta) {
  const bool chat = envelope_.operation == Operation::chat;
  out.append("data: ");
  begin(out, chat ? "chat.completion.chunk" : "text_completion");
  out.append(R"({"index":)").append(std::to_string(index));
  out.append(chat ? R"(,"delta":{"content":)" : R"(,"text":)");
  append_json_string(out, delta.text);
  if (chat) out.push_back('}');
  logprobs(out, index, delta.logprobs);
  out.append(R"(,"finish_reason":null})");
  end_chunk(out);
}

void Encoder::finish_chunk(std::string& out, std::size_t index, FinishReason reason) {
  const bool chat = envelope_.operation == Operation::chat;
  out.append("data: ");
  begin(out, chat ? "chat.completion.chunk" : "text_completion");
  out.append(R"({"index":)").append(std::to_string(index));
  out.append(chat ? R"(,"delta":{})" : R"(,"text":"")");
  out.append(R"(,"logprobs":null,"finish_reason":")").append(flyball::to_string(reason)).append("\"}");
  end_chunk(out);
}

void Encoder::usage_chunk(std::string& out, const Usage& usage) {
  out.append("data: ");
  begin(out, envelope_.operation == Operation::chat ? "chat.completion.chunk" : "text_completion");
  out.append(R"(],"usage":)");
  append_usage(out, usage);
  out.append("}\n\n");
}

void Encoder::error_frame(std::string& out, const Error& error) {
  out.append("data: ").append(error_json(error)).append("\n\n");
}

void Encoder::done_frame(std::string& out) {
  out.append("data: [DONE]\n\n");
}

std::string Encoder::complete(const std::vector<Choice>& choices, const Usage& usage) {
  const bool chat = envelope_.operation == Operation::chat;
  std::string out;
  begin(out, chat ? "chat.completion" : "text_completion");
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out.push_back(',');
    out.append(R"({"index":)").append(std::to_string(i));
    out.append(chat ? R"(,"message":{"role":"assistant","content":)" : R"(,"text":)");
    append_json_string(out, choices[i].text);
    if (chat) out.append(R"(,"refusal":null})");
    logprobs(out, i, choices[i].logprobs);
    out.append(R"(,"finish_reason":")").append(flyball::to_string(choices[i].reason)).append("\"}");
  }
  out.append(R"(],"usage":)");
  append_usage(out, usage);
  out.append("}\n");
  return out;
}

}  // namespace flyball::api
