#include "backends/constrain/vocabulary.hpp"

#include <algorithm>
#include <bit>

#include "backends/constrain/safe_text.hpp"

namespace flyball::constrain {

Vocabulary::Vocabulary(std::span<const std::string_view> tokens, std::span<const TokenId> forbidden,
                       std::span<const TokenId> ends)
    : size_(tokens.size()), ends_(ends.begin(), ends.end()) {
  std::ranges::sort(ends_);
  ends_.erase(std::ranges::unique(ends_).begin(), ends_.end());
  std::vector<bool> is_text(size_, true);
  for (const TokenId token : forbidden) is_text[token] = false;
  for (const TokenId token : ends_) is_text[token] = false;
  for (auto& bits : bits_) bits.resize(words());
  std::array<std::vector<TokenId>, kSlices + 1> groups;
  for (TokenId token = 0; token < size_; ++token) {
    const std::string_view bytes = tokens[token];
    if (!is_text[token] || bytes.empty() || bytes.size() > kLongest) continue;
    longest_ = std::max(longest_, static_cast<std::uint32_t>(bytes.size()));
    const auto characters = safe_text::characters(bytes);
    if (!characters) {
      groups[kSlices].push_back(token);
      continue;
    }
    const auto slice = std::ranges::lower_bound(kBounds, *characters) - kBounds.begin() - 1;
    groups[static_cast<std::size_t>(slice)].push_back(token);
    bits_[std::min(*characters, kAll)][token / 64] |= std::uint64_t{1} << token % 64;
  }
  for (std::size_t i = 1; i <= kAll; ++i) {
    for (std::size_t word = 0; word < words(); ++word) {
      bits_[i][word] |= bits_[i - 1][word];
      counts_[i] += static_cast<std::size_t>(std::popcount(bits_[i][word]));
    }
  }
  for (std::size_t i = 0; i <= kSlices; ++i) tries_[i] = make_trie(std::move(groups[i]), tokens);
  std::ranges::sort(twins_);
}

Trie Vocabulary::make_trie(std::vector<TokenId> tokens, std::span<const std::string_view> bytes) {
  std::ranges::sort(tokens, {}, [&](TokenId token) { return std::pair{bytes[token], token}; });
  Trie out;
  std::vector<std::uint32_t> path;  // the nodes of the last token's prefixes
  const auto end_nodes = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      out.nodes[path.back()].after = static_cast<std::uint32_t>(out.nodes.size());
    }
  };
  std::string_view last;
  for (const TokenId token : tokens) {
    const std::string_view now = bytes[token];
    if (now == last) {
      Trie::Node& node = out.nodes[path.back()];
      node.has_twins = 1;
      twins_.push_back({node.token, token});
      continue;
    }
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(now, last).in1 - now.begin());
    end_nodes(common);
    for (std::size_t i = common; i < now.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(out.nodes.size()));
      out.nodes.push_back({.token = Trie::kNone,
                           .has_twins = 0,
                           .after = 0,
                           .byte = static_cast<std::uint8_t>(now[i]),
                           .depth = static_cast<std::uint32_t>(i + 1) & 0xFFFFFFU});
    }
    out.nodes.back().token = token & Trie::kNone;
    out.depth = std::max(out.depth, static_cast<std::uint32_t>(now.size()));
    last = now;
  }
  end_nodes(0);
  out.nodes.shrink_to_fit();
  return out;
}

std::span<const Vocabulary::Twin> Vocabulary::twins_of(TokenId token) const {
  const auto [first, last] = std::ranges::equal_range(twins_, token, {}, &Twin::token);
  return {first, last};
}

std::size_t Vocabulary::memory() const noexcept {
  std::size_t out = sizeof(Vocabulary) + twins_.size() * sizeof(Twin);
  for (const Trie& trie : tries_) out += trie.nodes.size() * sizeof(Trie::Node);
  for (const auto& bits : bits_) out += bits.size() * sizeof(std::uint64_t);
  return out;
}

}  // namespace flyball::constrain
