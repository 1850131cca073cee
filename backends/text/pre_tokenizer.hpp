// Splits text into the words inside which byte-level BPE merges, by the patterns a model was trained with
// (`tokenizer.ggml.pre`). Patterns run one after another, each splitting what the one before left; a stretch
// that no pattern matches is a word of its own. The names and their meaning are llama.cpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "config/error.hpp"

namespace flyball::text {

class PreTokenizer {
 public:
  // unsupported_value, naming the pre-tokenizer. Without use_jit PCRE2 interprets its patterns, as it also
  // does where the system forbids writable code.
  static Result<PreTokenizer> create(std::string_view name, bool use_jit = true);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // What one thread needs to split; reusable, not shared.
  class Scratch {
   public:
    Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

   private:
    friend class PreTokenizer;
    struct Matching;
    std::unique_ptr<Matching> matching_;
  };

  // A word, as offsets into the text; false: no more are wanted.
  using Word = std::function<bool(std::uint32_t begin, std::uint32_t end)>;
  // Gives each word in order, and does no work beyond the one that is the last wanted: the first word begins
  // the text, each next one begins where the one before ends, the last ends the text. Precondition: text is
  // well-formed UTF-8 of under 4 GiB. Time is linear in text for every pattern here; a match that still
  // exceeds PCRE2's limits leaves the rest of its stretch as one word.
  void split(std::string_view text, Scratch& scratch, const Word& word) const;

  // The end of the first word, if nothing that may follow the text changes it; nullopt: something may.
  // `whole`: nothing follows. Precondition: as of split(), and text is not empty.
  std::optional<std::uint32_t> first_word(std::string_view text, bool whole, Scratch& scratch) const;

  bool ignores_merges() const noexcept { return ignores_merges_; }  // a word that is a token is taken whole
  bool adds_bos() const noexcept { return adds_bos_; }              // where the file does not say

 private:
  struct Pattern;
  PreTokenizer();
  bool split_by(std::size_t pattern, std::string_view text, std::uint32_t begin, std::uint32_t end,
                Scratch& scratch, const Word& word) const;
  std::optional<std::uint32_t> first_by(std::size_t pattern, std::string_view text, bool whole,
                                        Scratch& scratch) const;

  std::vector<Pattern> patterns_;
  bool ignores_merges_ = false, adds_bos_ = false;
};

}  // namespace flyball::text
