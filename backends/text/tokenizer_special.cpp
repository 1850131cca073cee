// One trie scan finds regions where special tokens occur; inside a region the tokens that occur there take
// their matches in order. Regions are small: matches that overlap.
#include "backends/text/tokenizer_special.hpp"

#include <algorithm>

namespace flyball::text {
namespace {

bool is_space(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

}  // namespace

SpecialMatcher::SpecialMatcher(std::vector<SpecialToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, [](const SpecialToken& a, const SpecialToken& b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.token < b.token;
  });
  roots_.fill(kNone);
  nodes_.emplace_back();
  for (std::uint32_t order = 0; order < tokens_.size(); ++order) {
    std::uint32_t node = 0;
    for (const char c : tokens_[order].text) node = add_child(node, static_cast<unsigned char>(c));
    nodes_[node].order = order;
    strips_ = strips_ || tokens_[order].strip_left || tokens_[order].strip_right;
  }
  nodes_.shrink_to_fit();
}

std::uint32_t SpecialMatcher::child(std::uint32_t node, unsigned char byte) const noexcept {
  if (node == 0) return roots_[byte];
  std::uint32_t at = nodes_[node].first_child;
  while (at != kNone && nodes_[at].byte != byte) at = nodes_[at].next_sibling;
  return at;
}

std::uint32_t SpecialMatcher::add_child(std::uint32_t node, unsigned char byte) {
  if (const std::uint32_t found = child(node, byte); found != kNone) return found;
  const auto added = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({kNone, nodes_[node].first_child, kNone, byte});
  nodes_[node].first_child = added;
  if (node == 0) roots_[byte] = added;
  return added;
}

void SpecialMatcher::resolve(std::string_view text, std::size_t begin, std::size_t end,
                             std::vector<std::uint32_t>& orders, std::vector<Cut>& out) const {
  std::ranges::sort(orders);
  struct Piece {
    std::size_t begin, end;
  };
  std::vector<Piece> pieces{{begin, end}};
  std::vector<Piece> rest;
  const std::size_t first_cut = out.size();
  for (const std::uint32_t order : orders) {
    const SpecialToken& special = tokens_[order];
    rest.clear();
    for (const Piece& piece : pieces) {
      std::size_t base = piece.begin;
      while (base < piece.end) {
        const std::size_t match = text.substr(0, piece.end).find(special.text, base);
        if (match == std::string_view::npos) break;
        Cut cut{match, match + special.text.size(), special.token};
        while (special.strip_left && cut.begin > base && is_space(text[cut.begin - 1])) --cut.begin;
        while (special.strip_right && cut.end < piece.end && is_space(text[cut.end])) ++cut.end;
        if (cut.begin > base) rest.push_back({base, cut.begin});
        out.push_back(cut);
        base = cut.end;
      }
      if (base < piece.end) rest.push_back({base, piece.end});
    }
    pieces.swap(rest);
  }
  std::sort(out.begin() + static_cast<std::ptrdiff_t>(first_cut), out.end(),
            [](const Cut& a, const Cut& b) { return a.begin < b.begin; });
  orders.clear();
}

std::vector<SpecialMatcher::Cut> SpecialMatcher::cuts(std::string_view text, bool parse_special) const {
  std::vector<Cut> out;
  if (tokens_.empty()) return out;
  std::vector<std::uint32_t> orders;  // tokens that occur in the region [begin, end), each once
  std::vector<bool> listed(tokens_.size());
  std::size_t begin = 0, end = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::uint32_t node = roots_[static_cast<unsigned char>(text[at])];
    for (std::size_t next = at + 1; node != kNone; ++next) {
      const std::uint32_t order = nodes_[node].order;
      if (order != kNone && (parse_special || tokens_[order].always)) {
        if (!strips_ && at >= end) {
          for (const std::uint32_t each : orders) listed[each] = false;
          if (!orders.empty()) resolve(text, begin, end, orders, out);
          begin = at;
        }
        end = std::max(end, next);
        if (!listed[order]) orders.push_back(order);
        listed[order] = true;
      }
      if (next == text.size()) break;
      node = child(node, static_cast<unsigned char>(text[next]));
    }
  }
  // Stripped white space reaches across regions, so models that strip resolve the whole text as one.
  if (!orders.empty()) resolve(text, strips_ ? 0 : begin, strips_ ? text.size() : end, orders, out);
  return out;
}

}  // namespace flyball::text
