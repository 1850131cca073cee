// Byte alphabet: GPT-2's bytes_to_unicode (https://github.com/openai/gpt-2/blob/master/src/encoder.py).
#include "backends/model/synthetic_vocab.hpp"

#include <iterator>
#include <string_view>

namespace flyball::model {
namespace {

// "G" stands for the space's letter, U+0120, in left and right.
struct Merge {
  std::string_view left, right;
};
constexpr Merge kMerges[] = {
    {"h", "e"}, {"i", "n"}, {"G", "t"},  {"Gt", "he"}, {"a", "n"},  {"e", "r"},  {"G", "a"},  {"o", "n"},
    {"r", "e"}, {"n", "d"}, {"o", "r"},  {"Ga", "nd"}, {"e", "n"},  {"G", "w"},  {"i", "s"},  {"a", "t"},
    {"o", "u"}, {"e", "s"}, {"i", "t"},  {"in", "g"},  {"G", "o"},  {"Go", "f"}, {"G", "in"}, {"l", "l"},
    {"e", "d"}, {"G", "s"}, {"Gt", "o"}, {"G", "c"},   {"G", "is"}, {"t", "h"},
};
constexpr std::uint32_t kBytes = 256;
constexpr std::uint32_t kControlTokens = 3;
constexpr const char* kInfillTokens[] = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};

constexpr std::string_view kChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
    "%}";

std::string utf8(std::uint32_t code_point) {  // below 0x800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3F))};
}

bool stands_for_itself(std::uint32_t byte) noexcept {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::string spelled(std::string_view text) {
  return text.starts_with('G') ? utf8(0x120) + std::string(text.substr(1)) : std::string(text);
}

}  // namespace

std::uint32_t min_synthetic_vocab(bool infill) noexcept {
  return kBytes + static_cast<std::uint32_t>(std::size(kMerges)) + kControlTokens +
         (infill ? static_cast<std::uint32_t>(std::size(kInfillTokens)) : 0);
}

SyntheticVocab make_synthetic_vocab(std::uint32_t size, bool infill) {
  SyntheticVocab vocab;
  vocab.tokens.reserve(size);
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < kBytes; ++byte) {
    vocab.tokens.push_back(utf8(stands_for_itself(byte) ? byte : next++));
  }
  for (const auto& merge : kMerges) {
    const auto left = spelled(merge.left);
    const auto right = spelled(merge.right);
    vocab.merges.push_back(left + " " + right);
    vocab.tokens.push_back(left + right);
  }
  const auto control = [&](const char* text) {
    vocab.tokens.emplace_back(text);
    return static_cast<std::uint32_t>(vocab.tokens.size() - 1);
  };
  vocab.end_of_text = control("<|endoftext|>");
  vocab.im_start = control("<|im_start|>");
  vocab.im_end = control("<|im_end|>");
  if (infill)
    for (const char* const text : kInfillTokens) control(text);
  const std::size_t controls_end = vocab.tokens.size();
  while (vocab.tokens.size() < size)
    vocab.tokens.push_back(utf8(0x120) + "w" + std::to_string(vocab.tokens.size()));
  vocab.types.assign(size, SyntheticVocab::kNormal);
  for (std::size_t token = vocab.end_of_text; token < controls_end; ++token)
    vocab.types[token] = SyntheticVocab::kControl;
  return vocab;
}

void write_vocab(const SyntheticVocab& vocab, const std::string& chat_template, GgufWriter& out) {
  out.set_string("tokenizer.ggml.model", "gpt2");
  out.set_string("tokenizer.ggml.pre", "gpt-2");
  out.set_strings("tokenizer.ggml.tokens", vocab.tokens);
  out.set_i32s("tokenizer.ggml.token_type", vocab.types);
  out.set_strings("tokenizer.ggml.merges", vocab.merges);
  out.set_u32("tokenizer.ggml.bos_token_id", vocab.end_of_text);
  out.set_u32("tokenizer.ggml.eos_token_id", vocab.im_end);
  out.set_u32("tokenizer.ggml.padding_token_id", vocab.end_of_text);
  out.set_bool("tokenizer.ggml.add_bos_token", false);
  out.set_string("tokenizer.chat_template",
                 chat_template.empty() ? std::string(kChatTemplate) : chat_template);
}

}  // namespace flyball::model
