// The answers to POST /tokenize and POST /detokenize, for vLLM's clients and llama.cpp's alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/api/prompt_answer.hpp"

namespace flyball::api::openai {

// {"count":2,"max_model_len":4096,"tokens":[1,2],"token_strs":null}. llama.cpp's clients read `tokens` alone.
class TokensWriter final : public PromptWriter {
 public:
  void begin(const AnswerHead& head) override { context_ = head.context; }
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override;

 private:
  std::uint32_t context_ = 0;
  bool begun_ = false;
  std::size_t next_ = 0;  // token to write
};

// {"prompt":"text","content":"text"}: vLLM's clients read the one, llama.cpp's the other.
class SpelledWriter final : public PromptWriter {
 public:
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override;

 private:
  std::size_t members_ = 0;  // that are written
  std::size_t text_ = 0;     // bytes of the next one that are written
};

}  // namespace flyball::api::openai
