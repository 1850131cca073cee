// Requests for a prompt alone, whatever API asks: its tokens, their number, or the text that tokens spell.
#pragma once

#include <memory>
#include <string>

#include "daemon/api/operation.hpp"

namespace flyball::api {

// Makes a request for answers one for its prompt alone, which `writer` writes as one document. All that only
// an answer has is dropped: stream, constraints and parser. Precondition: the request has one prompt.
void ask_for_prompt(Generate& request, Wanted wanted, std::unique_ptr<AnswerWriter> writer);

// The writer of such a request. It has no stream: errors are the codec's.
class PromptWriter : public AnswerWriter {
 public:
  void begin(const AnswerHead&) override {}
  void write(std::size_t, std::span<const AnswerEvent>, Frames&) final {}
};

// {"input_tokens":7}: the number of the prompt's tokens as the one member, which is called `member`.
std::unique_ptr<AnswerWriter> count_writer(std::string member);

}  // namespace flyball::api
