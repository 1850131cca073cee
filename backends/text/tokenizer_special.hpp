// Finds special tokens (<|im_start|> and their like) in a text before the rest is tokenized. What llama.cpp
// does, done in one scan: tokens take their matches longest token first, each from the left, out of what is
// still text.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "backends/text/jinja/text_span.hpp"
#include "backends/text/token_bound.hpp"

namespace flyball::text {

// All special tokens' texts together. The largest family known (reserved tokens of Gemma and Mistral) holds
// 120 KB.
inline constexpr std::size_t kMaxSpecialBytes = std::size_t{4} << 20U;

struct SpecialToken {
  Token token = 0;
  std::string text;     // not empty
  bool always = false;  // user-defined: matched although special tokens are not parsed
  bool strip_left = false, strip_right = false;  // swallow the white space beside it
  bool control = false;  // a marker: matched in the template's own text alone, where that is known
};

class SpecialMatcher {
 public:
  SpecialMatcher() = default;
  // Precondition: texts sum to at most kMaxSpecialBytes.
  explicit SpecialMatcher(std::vector<SpecialToken> tokens);

  // [begin, end) of the text is this token, stripped white space included. What lies between cuts stays text.
  struct Cut {
    std::size_t begin, end;
    Token token;
  };
  // Ordered by begin, not overlapping. control_in: as in EncodeOptions.
  std::vector<Cut> cuts(std::string_view text, bool parse_special,
                        const std::vector<TextSpan>* control_in = nullptr) const;
  // Bytes at the beginning of the text that become no part of a cut without control tokens, nor are swallowed
  // by one, whatever follows the text; `whole`: nothing does.
  std::size_t plain_bytes(std::string_view text, bool whole) const;
  // Tells of its tokens.
  void bound(TokenBound& bound) const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  // A node is what was read last, backwards: the end of some token, or all of it.
  struct Node {
    std::uint32_t first_child = kNone, next_sibling = kNone;
    std::uint32_t order = kNone;  // the token that is complete here, as index into tokens_
    std::uint32_t suffix =
        0;  // the longest shorter node that ends with the same bytes (Aho-Corasick's failure link)
    std::uint32_t shorter = kNone;  // the longest of those where a token is complete
    unsigned char byte = 0;
  };
  std::uint32_t child(std::uint32_t node, unsigned char byte) const noexcept;
  std::uint32_t add_child(std::uint32_t node, unsigned char byte);
  void link();
  std::uint32_t step(std::uint32_t node, unsigned char byte) const noexcept;
  // Which tokens may begin at a place of the text.
  struct Allowed {
    bool parse_special, everywhere;  // everywhere: nobody said where control tokens are recognised
    std::size_t control_bytes;       // from here on, in which they are
  };
  bool allows(const Allowed& allowed, const SpecialToken& token) const noexcept;
  // The longest token that begins where `node` does, as its node; kNone: none.
  std::uint32_t longest(std::uint32_t node, const Allowed& allowed) const noexcept;

  std::vector<SpecialToken> tokens_;  // longest first, then by id
  std::vector<Node> nodes_;           // a trie of the tokens read backwards; [0] is the root
  std::array<std::uint32_t, 256> roots_{};
  std::vector<std::uint32_t> always_;  // those that are matched in all text, as indices into tokens_
  std::bitset<256> begins_;            // the first bytes of those
  bool strips_text_ = false;           // some of them swallow white space to their left
};

}  // namespace flyball::text
