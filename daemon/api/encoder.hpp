// Events to the JSON of the OpenAI API: chat completions and legacy completions, whole and in chunks. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"

namespace flyball::api {

enum class Operation : std::uint8_t { chat, completion };
const char* to_string(Operation operation) noexcept;

struct Envelope {  // what all chunks of one answer have in common
  Operation operation = Operation::chat;
  std::string id;                // "chatcmpl-..." or "cmpl-..."
  std::int64_t created = 0;      // seconds since the epoch
  std::string model;             // as the client named it
  bool usage_in_chunks = false;  // stream_options.include_usage: "usage": null in all but the last
};

struct Choice {  // one finished answer
  std::string text;
  std::vector<TokenLogprob> logprobs;
  FinishReason reason = FinishReason::stop;
};

// Encodes one answer to one request; remembers text offsets per choice for legacy logprobs.
class Encoder {
 public:
  Encoder(Envelope envelope, bool with_logprobs, std::size_t n_choices);

  // One `data: ...` line with its blank line, appended to out.
  void role_chunk(std::string& out, std::size_t index);  // chat only: {"role":"assistant","content":""}
  void delta_chunk(std::string& out, std::size_t index, const Delta& delta);
  void finish_chunk(std::string& out, std::size_t index, FinishReason reason);
  void usage_chunk(std::string& out, const Usage& usage);
  static void error_frame(std::string& out, const Error& error);
  static void done_frame(std::string& out);

  std::string complete(const std::vector<Choice>& choices, const Usage& usage);

 private:
  void begin(std::string& out, std::string_view object) const;
  void end_chunk(std::string& out) const;
  void logprobs(std::string& out, std::size_t index, const std::vector<TokenLogprob>& list);

  Envelope envelope_;
  bool with_logprobs_;
  std::vector<std::size_t> text_offsets_;  // legacy: in bytes of text so far, per choice
};

}  // namespace flyball::api
