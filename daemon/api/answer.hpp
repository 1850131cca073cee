// An answer as typed events, whatever engine gives it and whatever API takes it. This is the one place where
// an engine's Delta, Done and Error become events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/backend.hpp"
#include "daemon/api/packed_logprobs.hpp"

namespace flyball::api {

struct Totals {  // of the whole request
  Usage usage;
  std::uint64_t took_us = 0;           // since its first byte came
  std::uint32_t reasoning_tokens = 0;  // of the completion's
};

// The events of one choice of an answer. Views are valid while the event is being written.
namespace event {

struct Text {
  std::string_view text;
};
struct Reasoning {
  std::string_view text;
};
struct CallBegin {
  std::uint32_t call = 0;  // counts from 0 within the choice
  std::string_view id, name;
};
struct CallArguments {
  std::uint32_t call = 0;
  std::string_view json;  // the next piece
};
struct CallEnd {
  std::uint32_t call = 0;
  // The arguments are a JSON object; false: the answer broke off or went astray in them.
  bool complete = true;
};
struct PromptTokens {  // all of them, where the request wants them instead of an answer
  std::span<const Token> tokens;
};
struct Logprobs {  // of the tokens behind what follows in this batch, or behind text that is held back
  std::span<const TokenLogprob> tokens;
};
struct Used {  // by this choice so far
  Usage usage;
};
struct Ended {  // the whole request; behind the last choice's Finish
  Totals totals;
};
struct Finish {
  FinishReason reason = FinishReason::stop;
  std::string_view stop_text;  // the stop string that ended the choice, "" otherwise
  Timings timings = {};
};
struct Failed {  // ends every choice
  const Error& error;
};

}  // namespace event
using AnswerEvent = std::variant<event::Text, event::Reasoning, event::CallBegin, event::CallArguments,
                                 event::CallEnd, event::PromptTokens, event::Logprobs, event::Used,
                                 event::Finish, event::Ended, event::Failed>;
using AnswerEvents = std::vector<AnswerEvent>;

// Cuts an engine's text into text, reasoning and calls. One for each choice.
class TextParser {
 public:
  virtual ~TextParser() = default;
  // Before the reads of a batch: views into the parser that were given before are gone.
  virtual void begin_batch() {}
  // Appends what `text` completes. `control`: it is the whole spelling of one control token, which shows in
  // no event. Views into `text` and into the parser stay valid until the next batch.
  virtual void parse(std::string_view text, bool control, AnswerEvents& out) = 0;
  virtual void end(AnswerEvents& out) = 0;  // what was held back
  virtual bool in_reasoning() const noexcept = 0;
};
// The parser of a choice whose answer has this form. `ids`: what the ids of its calls are made from, another
// text for each choice of each request.
using MakeParser = std::function<std::unique_ptr<TextParser>(const AnswerForm& form, std::string_view ids)>;

// One choice's engine events to answer events. Each call returns the batch of one engine event, valid until
// the next call; it is empty where nothing can be shown yet.
class ChoiceReader {
 public:
  // Everything is text where `make` is no function. The parser is made with the first delta.
  ChoiceReader(MakeParser make, std::string ids) : make_(std::move(make)), ids_(std::move(ids)) {}

  const AnswerEvents& read(const Delta& delta);
  // `totals`: where this choice is the last to end.
  // An answer that stops behind a complete call ends by tool_calls.
  const AnswerEvents& read(const Done& done, const Totals* totals);
  // An estimate where several tokens come at once: all of a delta's count if it has reasoning in it.
  std::uint32_t reasoning_tokens() const noexcept { return reasoning_tokens_; }

 private:
  bool read_text(const Delta& delta);  // returns whether it has reasoning in it
  void follow_calls();

  MakeParser make_;
  std::string ids_;
  std::unique_ptr<TextParser> parser_;
  AnswerEvents events_;
  std::uint32_t reasoning_tokens_ = 0;
  bool began_ = false, told_used_ = false;
  bool called_ = false;  // the latest call is complete, or has not ended
};

// One choice of an answer that is sent whole.
struct Choice {
  struct Call {
    std::string id, name, arguments;
    bool complete = false;  // the arguments are a JSON object
  };
  std::string text, reasoning;
  std::vector<Call> calls;
  std::vector<Token> prompt;  // its tokens, where the request wants them instead of an answer
  PackedLogprobs logprobs;
  // For the first tokens of `logprobs`: whether each is of reasoning or of a call. Later ones are of the
  // text.
  std::vector<bool> beside_text;
  FinishReason reason = FinishReason::stop;
  std::string stop_text;
  Timings timings;

  std::size_t bytes() const noexcept;  // of memory that grows with the answer
};
void gather(Choice& choice, std::span<const AnswerEvent> events);

}  // namespace flyball::api
