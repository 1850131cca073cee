// Events to the JSON of Ollama's API: lines of a stream, or one document. Pure. These requests bring no
// parser, so that reasoning and calls do not occur among the events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/api/operation.hpp"

namespace flyball::api::ollama {

class Writer final : public AnswerWriter {
 public:
  enum class Shape : std::uint8_t {
    chat,  // "message":{"role":"assistant","content":...}
    text,  // "response":...
  };
  explicit Writer(Shape shape) : shape_(shape) {}

  void begin(const AnswerHead& head) override;
  // A request asks for one choice.
  void write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) override;
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override;

 private:
  void open(std::string& out) const;        // up to the text's first quote
  void close_text(std::string& out) const;  // behind its last byte
  static void end(std::string& out, FinishReason reason, const Timings& timings, const Totals& totals);

  const Shape shape_;
  std::string head_;  // {"model":...,"created_at":...
  FinishReason reason_ = FinishReason::stop;
  Timings timings_;
  bool begun_ = false;    // of whole()
  std::size_t text_ = 0;  // bytes of it that are written
};

}  // namespace flyball::api::ollama
