// An answer as typed events, whatever engine gives it and whatever API takes it. This is the one place where
// an engine's Delta, Done and Error become events.
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::uint64_t took_us = 0;  // since its first byte came
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
using AnswerEvent =
    std::variant<event::Text, event::Reasoning, event::CallBegin, event::CallArguments, event::CallEnd,
                 event::Logprobs, event::Used, event::Finish, event::Ended, event::Failed>;
using AnswerEvents = std::vector<AnswerEvent>;

// Cuts an engine's text into text, reasoning and calls. One for each choice.
class TextParser {
 public:
  virtual ~TextParser() = default;
  // Appends what `text` completes. Views into `text` and into the parser stay valid until the next call.
  virtual void parse(std::string_view text, AnswerEvents& out) = 0;
  virtual void end(AnswerEvents& out) = 0;  // what was held back
};

// One choice's engine events to answer events. Each call returns the batch of one engine event, valid until
// the next call; it is empty where nothing can be shown yet.
class ChoiceReader {
 public:
  // nullptr: everything is text.
  explicit ChoiceReader(std::unique_ptr<TextParser> parser) : parser_(std::move(parser)) {}

  const AnswerEvents& read(const Delta& delta);
  // `totals`: where this choice is the last to end.
  const AnswerEvents& read(const Done& done, const Totals* totals);

 private:
  std::unique_ptr<TextParser> parser_;
  AnswerEvents events_;
  bool began_ = false;
};

// One choice of an answer that is sent whole.
struct Choice {
  struct Call {
    std::string id, name, arguments;
  };
  std::string text, reasoning;
  std::vector<Call> calls;
  PackedLogprobs logprobs;
  FinishReason reason = FinishReason::stop;
  std::string stop_text;
  Timings timings;

  std::size_t bytes() const noexcept;  // of memory that grows with the answer
};
void gather(Choice& choice, std::span<const AnswerEvent> events);

}  // namespace flyball::api
