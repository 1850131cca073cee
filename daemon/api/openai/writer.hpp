// Events to the JSON of OpenAI's API: chat completions and legacy completions, whole and in chunks. Pure.
// Reasoning and calls occur among the events of chats alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/openai/token_text.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::openai {

class Writer final : public AnswerWriter {
 public:
  // include_usage: stream_options.include_usage.
  Writer(Generate::Kind kind, bool with_logprobs, bool include_usage)
      : kind_(kind), with_logprobs_(with_logprobs), include_usage_(include_usage) {}

  void begin(const AnswerHead& head) override;
  // The first batch of a chat's choice, even an empty one, gives {"role":"assistant","content":""}.
  void write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) override;
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override;

 private:
  bool chat() const noexcept { return kind_ == Generate::Kind::chat; }
  void open(std::string& out, std::string_view object) const;
  std::string& open_chunk(std::size_t choice, Frames& frames) const;
  void close_chunk(std::string& out, Frames& frames) const;
  void logprobs(std::string& out, std::size_t choice, std::span<const TokenLogprob> tokens);
  void whole_part(Choice& choice, std::string& out);
  bool whole_text(std::string_view text, std::string& out);
  void whole_call(Choice& choice, std::string& out);
  void begin_logprobs(std::string& out);
  void role_chunk(std::size_t choice, Frames& frames) const;
  bool delta_of(const AnswerEvent& event);
  // A chunk with what delta_ has.
  void delta_chunk(std::size_t choice, std::span<const TokenLogprob> list, Frames& frames);
  void finish_chunk(std::size_t choice, FinishReason reason, Frames& frames) const;
  void usage_chunk(const Totals& totals, Frames& frames) const;  // {"choices":[],"usage":{...}}
  static void done(Frames& frames);                              // [DONE]

  const Generate::Kind kind_;
  const bool with_logprobs_, include_usage_;
  std::string id_;  // "chatcmpl-..." or "cmpl-..."
  std::int64_t created_ = 0;
  std::string model_;
  struct Progress {
    bool role_sent = false;
    TextOffsets offsets;  // of the tokens listed in legacy logprobs
  };
  std::vector<Progress> progress_;
  LogprobView token_;  // the one being written
  std::string delta_;  // the members of a chat's delta, or the text of a legacy completion as JSON

  struct Whole {  // how far whole() has come
    enum class At : std::uint8_t { begin, text, reasoning, calls, logprobs, end };
    bool begun = false;
    std::size_t choice = 0;
    At at = At::begin;     // of the choice
    std::size_t text = 0;  // bytes written of the text, the reasoning, or the arguments of a call
    std::size_t call = 0;
    std::size_t list = 0;  // of its logprobs
    PackedLogprobs::Cursor token = {};
  };
  Whole whole_;
};

}  // namespace flyball::api::openai
