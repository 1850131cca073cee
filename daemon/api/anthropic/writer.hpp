// Events to the JSON of Anthropic's API: the events of a stream, or one message. Pure.
//
// A message is a list of blocks: thinking, text, tool_use. In a stream a block begins with the first piece of
// it, so that there is none for a text that is empty, and ends where another one begins. A whole message has
// its thinking first, then its text, then its calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/api/operation.hpp"

namespace flyball::api::anthropic {

class Writer final : public AnswerWriter {
 public:
  void begin(const AnswerHead& head) override;
  // A request asks for one choice. A call whose arguments broke off or went astray is streamed as it came.
  void write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) override;
  // Such a call has the input {"INVALID_JSON": text}, in which Anthropic's documents have clients report such
  // a text to a model. Nothing is lost, and no tool takes it for a call without arguments.
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override;
  Remedy remedy() const noexcept override { return {"max_tokens", "Stream it, or ask for fewer tokens."}; }

 private:
  enum class Block : std::uint8_t { none, text, thinking, call };

  std::string message_head() const;  // up to its content
  void start_message(const Usage& used, Frames& out);
  std::string& open_frame(std::string_view name, Frames& out) const;  // of the block that is open
  void start_block(Block block, std::string_view content, Frames& out);
  void stop_block(Frames& out);
  void delta(std::string_view type, std::string_view member, std::string_view piece, Frames& out) const;
  void end_message(const Totals& totals, Frames& out) const;

  std::string request_id_, id_;  // "req-...", "msg_..."
  std::string model_;
  bool started_ = false;
  Block open_ = Block::none;
  std::size_t index_ = 0;  // of the open block, or of the next one
  FinishReason reason_ = FinishReason::stop;
  std::string stop_text_;

  struct Whole {  // how far whole() has come
    bool begun = false, any = false;
    std::size_t part = 0;     // 0: the thinking; 1: the text; then the calls
    std::size_t written = 0;  // bytes of the part
  };
  Whole whole_;
};

}  // namespace flyball::api::anthropic
