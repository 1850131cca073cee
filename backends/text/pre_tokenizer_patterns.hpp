// The published split patterns of model families, by the name GGUF files give them.
#pragma once

#include <span>
#include <string_view>

namespace flyball::text {

struct PreTokenizerRules {
  std::span<const std::string_view> names;     // as in tokenizer.ggml.pre
  std::span<const std::string_view> patterns;  // PCRE2, applied in turn
  bool ignores_merges = false;
  bool adds_bos = false;
};

// nullptr: unknown.
const PreTokenizerRules* find_pre_tokenizer(std::string_view name) noexcept;
std::span<const PreTokenizerRules> pre_tokenizer_rules() noexcept;

}  // namespace flyball::text
