#include "backends/engine/prepare.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "backends/constrain/constraint.hpp"
#include "backends/engine/shared_beginning.hpp"
#include "backends/text/answer_form.hpp"
#include "backends/text/chat_form.hpp"
#include "backends/text/detokenizer.hpp"

namespace flyball::engine {
namespace {

Result<void> check_tokens(const std::vector<Token>& tokens, std::uint32_t vocab_size, const char* param) {
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](Token t) {
    return t < 0 || static_cast<std::uint32_t>(t) >= vocab_size;
  });
  if (bad == tokens.end()) return {};
  return fail(ErrorCode::invalid_value,
              "Token " + std::to_string(*bad) + " is not in the vocabulary of " + std::to_string(vocab_size) +
                  " tokens.",
              param);
}

// Tokens of a prompt that leaves room for an answer.
std::size_t most_tokens(const TextModel& model) noexcept {
  return std::max(model.context, 1U) - 1;
}

Result<void> check_settings(const config::RequestSettings& settings) {
  const auto& budget = settings.step_budget;
  if (!budget || (budget->count() >= 1 && *budget <= config::kMaxStepBudget)) return {};
  return fail(ErrorCode::invalid_value,
              "step_budget is " + std::to_string(budget->count()) + " ms; it must be 1 to " +
                  std::to_string(config::kMaxStepBudget.count()) + " ms.",
              "step_budget");
}

std::unexpected<Error> too_long(const std::string& what, const TextModel& model, const char* param) {
  return fail(ErrorCode::context_length_exceeded,
              "The prompt has " + what + "; the model's maximum context length is " +
                  std::to_string(model.context) + " tokens, and at least one is needed for the answer.",
              param);
}
std::unexpected<Error> too_many_bytes(const std::string& bytes, std::uint64_t tokens, const TextModel& model,
                                      const char* param) {
  return too_long(bytes + " bytes, which are at least " + std::to_string(tokens) + " tokens", model, param);
}

// The field that has the prompt, as clients call it.
const char* param_of(const CompletionRequest& request) noexcept {
  if (request.wanted == Wanted::kept_prefix) return "keep";
  if (std::holds_alternative<ChatPrompt>(request.prompt)) return "messages";
  return request.wanted == Wanted::prompt_text ? "tokens" : "prompt";
}

// From the number of bytes alone.
Result<void> check_bytes(std::size_t bytes, const TextModel& model, const char* param) {
  const std::uint64_t least = model.tokenizer->bound().least_of(bytes);
  if (least <= most_tokens(model)) return {};
  return too_many_bytes(std::to_string(bytes), least, model, param);
}

Result<std::vector<Token>> encode(std::string_view text, text::Tokenizer::EncodeOptions options,
                                  const TextModel& model, const char* param) {
  const std::size_t most = most_tokens(model);
  if (text.size() > most)
    if (const std::uint64_t least = model.tokenizer->bound().least(text); least > most)
      return too_many_bytes(std::to_string(text.size()), least, model, param);
  auto tokens = model.tokenizer->encode_within(text, options, most);
  if (!tokens) return too_long("more than " + std::to_string(most) + " tokens", model, param);
  return std::move(*tokens);
}

// The spans within [begin, end), as spans of that part.
std::vector<text::TextSpan> within(const std::vector<text::TextSpan>& spans, std::size_t begin,
                                   std::size_t end) {
  std::vector<text::TextSpan> out;
  for (const text::TextSpan& span : spans)
    if (span.end > begin && span.begin < end)
      out.push_back({std::max(span.begin, begin) - begin, std::min(span.end, end) - begin});
  return out;
}

// True where the template itself has opened reasoning at the end.
bool opens_reasoning(const text::Rendered& rendered, const AnswerForm& form) {
  if (!text::ends_in_reasoning(rendered.text, form)) return false;
  const std::size_t last = rendered.text.find_last_not_of(" \t\r\n");
  return !rendered.written.empty() && rendered.written.back().begin <= last &&
         last < rendered.written.back().end;
}

// Ends reasoning that the template has opened.
void end_reasoning(text::Rendered& rendered, const AnswerForm& form) {
  const std::size_t begin = rendered.text.size();
  rendered.text += text::reasoning_end(form);
  rendered.written.push_back({begin, rendered.text.size()});
}

Result<text::InfillTokens> infill_tokens(const TextModel& model) {
  if (const auto& infill = model.tokenizer->infill()) return *infill;
  return fail(ErrorCode::unsupported_feature,
              "'suffix' is not served with this model: its vocabulary has no infill tokens.", "suffix");
}

// Appends the tokens of a part of a document. The caller has `room` for them, and for no more.
Result<void> append_part(std::string_view text, bool begins_text, const text::InfillTokens& infill,
                         std::size_t room, const TextModel& model, std::vector<Token>& out) {
  const std::vector<text::TextSpan> nowhere;
  const auto tokens = model.tokenizer->encode_within(
      text,
      {.add_special = false, .parse_special = false, .control_in = &nowhere, .begins_text = begins_text},
      room);
  if (!tokens)
    return too_long("more than " + std::to_string(most_tokens(model)) + " tokens", model, "prompt");
  // A file may name words of its vocabulary, into which text merges.
  for (const Token token : *tokens)
    if (token == infill.prefix || token == infill.suffix || token == infill.middle)
      return fail(ErrorCode::invalid_value,
                  "The text spells the model's infill token \"" + std::string(model.tokenizer->piece(token)) +
                      "\", which the model could not tell apart.",
                  begins_text ? "prompt" : "suffix");
  out.insert(out.end(), tokens->begin(), tokens->end());
  return {};
}

// BOS where the model has one, prefix token, text, suffix token, text, middle token.
Result<std::vector<Token>> encode_infill(const InfillPrompt& prompt, const TextModel& model) {
  const auto infill = infill_tokens(model);
  if (!infill) return pass(infill);
  const std::size_t marks = model.adds_bos ? 4 : 3;
  const std::size_t most = most_tokens(model);
  const text::TokenBound& bound = model.tokenizer->bound();
  if (const std::uint64_t least = bound.least(prompt.before) + bound.least(*prompt.after) + marks;
      least > most)
    return too_many_bytes(std::to_string(prompt.bytes()), least, model, "prompt");
  std::vector<Token> out;
  if (model.adds_bos) out.push_back(*model.tokenizer->bos());
  out.push_back(infill->prefix);
  if (auto ok = append_part(prompt.before, true, *infill, most - marks, model, out); !ok) return pass(ok);
  out.push_back(infill->suffix);
  if (auto ok = append_part(*prompt.after, false, *infill, most - 1 - out.size(), model, out); !ok)
    return pass(ok);
  out.push_back(infill->middle);
  return out;
}

// `ends`: reasoning that the template opens ends there. `in_reasoning`: whether the answer begins within it.
Result<std::vector<Token>> encode_chat(const ChatPrompt& chat, const TextModel& model, std::int64_t now,
                                       bool ends, bool& in_reasoning) {
  constexpr const char* kParam = "messages";
  if (!model.chat_template) return pass(model.chat_template);
  if (!chat.tools.empty() && !model.chat_template->reads("tools"))
    return fail(ErrorCode::unsupported_feature,
                "The model's chat template has no place for tools: the model would never see them.", "tools");
  const text::Tokenizer& tokenizer = *model.tokenizer;
  text::TemplateInput input;
  input.messages = chat.messages.view();
  input.form = model.chat_form;
  input.tools = chat.tools.view();
  input.template_args = chat.template_args.view();
  if (tokenizer.bos()) input.bos_token = tokenizer.piece(*tokenizer.bos());
  if (tokenizer.eos()) input.eos_token = tokenizer.piece(*tokenizer.eos());
  input.add_generation_prompt = chat.add_generation_prompt;
  input.now = now;
  if (const auto bytes = tokenizer.bound().most_bytes()) input.most_bytes = most_tokens(model) * *bytes;
  auto rendered = model.chat_template->render(input);
  if (!rendered && rendered.error().code == ErrorCode::context_length_exceeded)
    return too_many_bytes("more than " + std::to_string(input.most_bytes), most_tokens(model) + 1, model,
                          kParam);
  if (!rendered) return pass(rendered);
  const AnswerForm& form = model.chat_template->answer_form();
  const bool opened = opens_reasoning(*rendered, form);
  if (opened && ends) end_reasoning(*rendered, form);
  in_reasoning = opened && !ends;
  const std::string_view all = rendered->text;
  const auto is_own = [&](std::size_t from, std::size_t to) {
    return chat.control_tokens_in_content ||
           within(rendered->written, from, to) == std::vector{text::TextSpan{0, to - from}};
  };
  std::size_t begin = 0, end = all.size();
  if (const std::size_t size = input.bos_token.size();
      model.adds_bos && size > 0 && all.starts_with(input.bos_token) && is_own(0, size))
    begin = size;
  if (const std::size_t size = input.eos_token.size();
      model.adds_eos && size > 0 && all.substr(begin).ends_with(input.eos_token) && is_own(end - size, end))
    end -= size;
  const auto written = within(rendered->written, begin, end);
  return encode(all.substr(begin, end - begin),
                {.add_special = true,
                 .parse_special = true,
                 .control_in = chat.control_tokens_in_content ? nullptr : &written},
                model, kParam);
}

Result<std::vector<Token>> encode_prompt(Prompt& prompt, const TextModel& model, std::int64_t now, bool ends,
                                         bool& in_reasoning) {
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt))
    return encode_chat(*chat, model, now, ends, in_reasoning);
  if (const auto* text = std::get_if<TextPrompt>(&prompt))
    return encode(text->text, {.add_special = text->add_special, .parse_special = true}, model, "prompt");
  if (const auto* infill = std::get_if<InfillPrompt>(&prompt)) return encode_infill(*infill, model);
  return std::move(std::get<TokenPrompt>(prompt).tokens);
}

Result<std::vector<Token>> checked_tokens(CompletionRequest& request, const TextModel& model,
                                          std::int64_t now, bool ends_reasoning, bool& in_reasoning) {
  const char* const param = param_of(request);
  auto tokens = encode_prompt(request.prompt, model, now, ends_reasoning, in_reasoning);
  if (!tokens) return tokens;
  if (auto ok = check_tokens(*tokens, model.vocab_size, param); !ok) return pass(ok);
  if (tokens->size() > most_tokens(model))
    return too_long(std::to_string(tokens->size()) + " tokens", model, param);
  return tokens;
}

}  // namespace

TextModel make_text_model(std::unique_ptr<const text::Tokenizer> tokenizer,
                          Result<text::ChatTemplate> chat_template, std::uint32_t vocab_size,
                          std::uint32_t context) {
  TextModel model{std::move(tokenizer), std::move(chat_template), {}, 0, context};
  if (model.chat_template) model.chat_form = text::find_chat_form(*model.chat_template);
  model.vocab_size = std::min(vocab_size, model.tokenizer->vocab_size());
  const auto nothing = model.tokenizer->encode("", {.add_special = true, .parse_special = true});
  const auto bos = model.tokenizer->bos();
  const auto eos = model.tokenizer->eos();
  model.adds_bos = bos && !nothing.empty() && nothing.front() == *bos;
  model.adds_eos =
      eos && !nothing.empty() && nothing.back() == *eos && (nothing.size() > 1 || !model.adds_bos);
  return model;
}

Result<void> check_request(const CompletionRequest& request, const TextModel& model) {
  const std::uint32_t vocab_size = model.vocab_size;
  if (auto ok = check(request.sampling); !ok) return pass(ok);
  if (auto ok = check_settings(request.settings); !ok) return pass(ok);
  if (request.constraint)
    if (auto ok = constrain::check_size(*request.constraint); !ok) return pass(ok);
  if (request.stop.size() > kMaxStops)
    return fail(ErrorCode::invalid_value,
                std::to_string(request.stop.size()) + " stop strings; at most " + std::to_string(kMaxStops) +
                    " are allowed.",
                "stop");
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes)
      return fail(ErrorCode::invalid_value,
                  "A stop string has " + std::to_string(stop.size()) + " bytes; it must have 1 to " +
                      std::to_string(kMaxStopBytes) + ".",
                  "stop");
    if ((static_cast<unsigned char>(stop[0]) & 0xC0U) == 0x80U)
      return fail(ErrorCode::invalid_value, "A stop string begins inside a character.", "stop");
  }
  for (const auto& [token, bias] : request.sampling.logit_bias)
    if (static_cast<std::uint32_t>(token) >= vocab_size)
      return fail(ErrorCode::invalid_value,
                  "logit_bias names token " + std::to_string(token) + "; the vocabulary has " +
                      std::to_string(vocab_size) + ".",
                  "logit_bias");
  if (auto ok = check_tokens(request.resume_tokens, vocab_size, "resume_tokens"); !ok) return pass(ok);
  if (request.wanted == Wanted::kept_prefix && request.kept.empty())
    return fail(ErrorCode::invalid_value, "A kept prefix has no name.", "keep");
  if (request.echo && !std::holds_alternative<TextPrompt>(request.prompt) &&
      !std::holds_alternative<TokenPrompt>(request.prompt))
    return fail(ErrorCode::invalid_value, "Only a prompt of text or tokens is echoed.", "echo");
  if (const auto* tokens = std::get_if<TokenPrompt>(&request.prompt))
    return check_tokens(tokens->tokens, vocab_size, param_of(request));
  if (const auto* text = std::get_if<TextPrompt>(&request.prompt))
    return check_bytes(text->text.size(), model, "prompt");
  if (const auto* infill = std::get_if<InfillPrompt>(&request.prompt)) {
    if (const auto tokens = infill_tokens(model); !tokens) return pass(tokens);
    return check_bytes(infill->bytes(), model, "prompt");
  }
  return {};  // a template may leave out any part of a chat
}

std::size_t text_bytes(const Prompt& prompt) noexcept {
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) return text->text.size();
  if (const auto* infill = std::get_if<InfillPrompt>(&prompt)) return infill->bytes();
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt))
    return chat->messages.bytes().size() + chat->tools.bytes().size() + chat->template_args.bytes().size();
  return 0;
}

Result<std::vector<Token>> prompt_tokens(CompletionRequest& request, const TextModel& model,
                                         std::int64_t now) {
  bool in_reasoning = false;
  if (request.wanted != Wanted::kept_prefix) return checked_tokens(request, model, now, false, in_reasoning);
  auto continued = continued_in_two_ways(request.prompt);
  if (!continued) return pass(continued);
  request.prompt = std::move((*continued)[0]);
  auto tokens = checked_tokens(request, model, now, false, in_reasoning);
  if (!tokens) return tokens;
  request.prompt = std::move((*continued)[1]);
  const auto others = checked_tokens(request, model, now, false, in_reasoning);
  if (!others) return others;
  tokens->resize(common_length(*tokens, *others));
  return tokens;
}

std::string text_of(const std::vector<Token>& tokens, const text::Tokenizer& tokenizer) {
  text::Detokenizer detokenizer(tokenizer, true, true);
  std::string out;
  for (const Token token : tokens) out += detokenizer.push(token);
  return out + detokenizer.finish();
}

namespace {

// Takes the text of a prompt that is not scored out of the request.
Result<EchoRequest> echo_of(CompletionRequest& request, const TextModel& model,
                            std::span<const Token> prompt) {
  EchoRequest echo;
  echo.sent = request.resume_echo;
  if (echo.sent > prompt.size() || (!request.resume_tokens.empty() && echo.sent < prompt.size()))
    return fail(ErrorCode::invalid_value,
                std::to_string(echo.sent) + " tokens of a prompt of " + std::to_string(prompt.size()) +
                    " tokens cannot have been echoed before " + std::to_string(request.resume_tokens.size()) +
                    " tokens of the answer.",
                "resume_echo");
  echo.top_logprobs = request.sampling.top_logprobs;
  if (auto* const text = std::get_if<TextPrompt>(&request.prompt)) {
    echo.hides_first = text->add_special && model.adds_bos;
    echo.hides_last = text->add_special && model.adds_eos;
    if (!echo.scores()) echo.text = std::move(text->text);
  }
  return echo;
}

}  // namespace

Result<PreparedRequest> prepare(CompletionRequest request, const TextModel& model, std::int64_t now,
                                bool ends_reasoning) {
  bool in_reasoning = false;
  auto prompt = checked_tokens(request, model, now, ends_reasoning, in_reasoning);
  if (!prompt) return pass(prompt);
  if (prompt->empty()) return fail(ErrorCode::invalid_value, "The prompt has no tokens.", param_of(request));
  if (request.total_tokens > 0 && prompt->size() >= request.total_tokens)
    return fail(ErrorCode::token_limit_exceeded, "The prompt has " + std::to_string(prompt->size()) +
                                                     " tokens; what is left of the app's token limits is " +
                                                     std::to_string(request.total_tokens) +
                                                     ", and at least one is needed for the answer.");

  PreparedRequest out;
  out.owner = std::move(request.owner);
  out.prompt = std::move(*prompt);
  if (request.echo) {
    auto echo = echo_of(request, model, out.prompt);
    if (!echo) return pass(echo);
    out.echo = *echo;
  }
  out.empty_answer = request.empty_answer;
  // max_tokens is an upper bound: where the context ends first, the answer ends with reason `length`.
  const std::uint32_t total =
      request.total_tokens == 0 ? model.context : std::min(request.total_tokens, model.context);
  const auto left = static_cast<std::uint32_t>(total - out.prompt.size());
  out.max_tokens = request.max_tokens == 0 ? left : std::min(request.max_tokens, left);
  out.sampling = std::move(request.sampling);
  out.stop = std::move(request.stop);
  out.ignore_eos = request.ignore_eos && !request.constraint;
  out.marks_control = request.marks_control;
  if (request.marks_control && std::holds_alternative<ChatPrompt>(request.prompt)) {
    out.form = model.chat_template->answer_form();
    out.form->in_reasoning = in_reasoning;
  }
  out.resume_tokens = std::move(request.resume_tokens);
  out.resume_text_bytes = request.resume_text_bytes;
  out.settings = request.settings;
  return out;
}

Result<PreparedRequest> prepare_kept(CompletionRequest request, const TextModel& model,
                                     std::uint32_t block_size, std::int64_t now) {
  auto tokens = prompt_tokens(request, model, now);
  if (!tokens) return pass(tokens);
  const std::size_t whole = tokens->size() / block_size * block_size;
  if (whole == 0)
    return fail(ErrorCode::invalid_value,
                "The prefix " + request.kept + " has " + std::to_string(tokens->size()) +
                    " tokens; a KV block has " + std::to_string(block_size) + ", and whole blocks are kept.",
                "keep");
  if (tokens->size() == whole) tokens->push_back(tokens->back());  // any token does
  tokens->resize(whole + 1);
  PreparedRequest out;
  out.owner = std::move(request.owner);
  out.prompt = std::move(*tokens);
  out.max_tokens = 1;
  out.sampling.temperature = 0;  // of its row the least is asked for
  out.kept = std::move(request.kept);
  out.kept_limit = request.kept_limit;
  out.settings = request.settings;
  out.settings.place = config::QueuePlace::behind;
  return out;
}

}  // namespace flyball::engine
