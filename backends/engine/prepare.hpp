// A request made ready for the scheduler: template rendered, text tokenized, every limit checked. Pure: no
// clock, no device; runs on the preparation threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/engine/constraint_cache.hpp"
#include "backends/engine/echo.hpp"
#include "backends/text/chat_template.hpp"
#include "backends/text/tokenizer.hpp"
#include "config/error.hpp"

namespace flyball::engine {

inline constexpr std::size_t kMaxStops = 16;
inline constexpr std::size_t kMaxStopBytes = 256;

// The text side of a model, fixed once loaded.
struct TextModel {
  std::unique_ptr<const text::Tokenizer> tokenizer;
  // The failure to parse it is told to those who chat.
  Result<text::ChatTemplate> chat_template =
      std::unexpected(Error{ErrorCode::template_error, "The model has no chat template.", {}, {}});
  text::ChatForm chat_form;      // of the chats that the template is given
  std::uint32_t vocab_size = 0;  // tokens below it may be sampled; <= tokenizer->vocab_size()
  std::uint32_t context = 0;     // tokens of one sequence
  // Whether encode adds them by itself: a template that writes them must not double them (as llama.cpp).
  bool adds_bos = false, adds_eos = false;
};
// Finds out chat_form, adds_bos and adds_eos.
TextModel make_text_model(std::unique_ptr<const text::Tokenizer> tokenizer,
                          Result<text::ChatTemplate> chat_template, std::uint32_t vocab_size,
                          std::uint32_t context);

struct PreparedRequest {
  std::string owner;
  std::vector<Token> prompt;     // not empty
  std::uint32_t max_tokens = 0;  // > 0; what the context and total_tokens leave where more was asked for
  bool empty_answer = false;
  std::optional<EchoRequest> echo = {};  // what is left of a prompt's echo
  bool behind = false;                   // its client is, after what was pushed of the echo
  SamplingParams sampling;
  std::vector<std::string> stop;
  bool ignore_eos = false, marks_control = false;
  std::optional<AnswerForm> form = {};                // of a chat that marks control tokens
  std::optional<CompiledConstraint> constraint = {};  // set by whoever compiles them
  std::string kept;  // the name under which the prompt's whole blocks are kept; "": it is no kept prefix
  std::uint64_t kept_limit = 0;
  std::uint64_t compile_us = 0;                       // that it took
  std::vector<Token> resume_tokens;
  std::uint64_t resume_text_bytes = 0;
  config::RequestSettings settings = {};
};

// Refuses a request that needs no tokenizing to be refused: a prompt by the number of its bytes.
// invalid_value with the field as param; context_length_exceeded.
Result<void> check_request(const CompletionRequest& request, const TextModel& model);

// Bytes of text that prepare() has to read: of tokens none.
std::size_t text_bytes(const Prompt& prompt) noexcept;

// The tokens of the request's prompt, all of them in the vocabulary: none where an empty text has none; of a
// kept prefix those that all prompts which begin with it share. Takes those of a TokenPrompt out of the
// request.
// context_length_exceeded as prepare(), with the least number of tokens; invalid_value, template_error,
// template_budget, invalid_json. now: seconds since the epoch, for templates that print the date.
Result<std::vector<Token>> prompt_tokens(CompletionRequest& request, const TextModel& model,
                                         std::int64_t now);
// The text that tokens of the vocabulary spell, control tokens as the vocabulary spells them.
std::string text_of(const std::vector<Token>& tokens, const text::Tokenizer& tokenizer);

// context_length_exceeded: encoding stops there, so that of a text's tokens only the least number is told.
// token_limit_exceeded with both counts, invalid_value, template_error, template_budget, invalid_json. now:
// seconds since the epoch, for templates that print the date. ends_reasoning: reasoning that the template
// opens ends with the prompt, so that the answer begins behind it.
Result<PreparedRequest> prepare(CompletionRequest request, const TextModel& model, std::int64_t now,
                                bool ends_reasoning = false);

// The same for a kept prefix: its tokens are cut to whole blocks, and one token follows them, which is
// computed so that they all are; its place is `behind`. Fails as prompt_tokens(); invalid_value: it has no
// whole block.
Result<PreparedRequest> prepare_kept(CompletionRequest request, const TextModel& model,
                                     std::uint32_t block_size, std::int64_t now);

}  // namespace flyball::engine
