// Events to the JSON of Ollama's API: lines of a stream, or one document. Pure.
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
  // A request asks for one choice. A call has a line when it is complete. One that breaks off is text:
  // {"name":...,"arguments":..., as far as it came.
  void write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) override;
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override;
  Remedy remedy() const noexcept override {
    return {"options.num_predict", "Stream it, or ask for fewer tokens."};
  }

 private:
  struct EventWriter;
  void open(std::string& out) const;        // up to the text's first quote
  void close_text(std::string& out) const;  // behind the last byte of it and of what stands beside it
  void text_line(std::string_view text, Frames& out) const;
  static void end(std::string& out, FinishReason reason, const Timings& timings, const Totals& totals);

  const Shape shape_;
  std::string head_;  // {"model":...,"created_at":...
  FinishReason reason_ = FinishReason::stop;
  Timings timings_;
  Choice::Call call_;  // of a stream: the one whose arguments come

  struct Whole {  // how far whole() has come
    enum class At : std::uint8_t { begin, text, thinking, calls };
    At at = At::begin;
    std::size_t text = 0;  // bytes written of the text or the reasoning
    std::size_t call = 0;
  };
  Whole whole_;
};

}  // namespace flyball::api::ollama
