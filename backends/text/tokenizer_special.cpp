// One scan from the right finds, at each place of a text, the special tokens that begin there (Aho-Corasick
// over the tokens read backwards); then matches are taken in the order of their tokens, each place offering
// its longest token first. Near linear in the text, whatever tokens a model file brings.
#include "backends/text/tokenizer_special.hpp"

#include <algorithm>
#include <ranges>

namespace flyball::text {
namespace {

bool is_space(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// A token that begins at a place of the text.
struct Match {
  std::uint32_t order, node;
  std::size_t begin;
  std::size_t control_bytes;  // from `begin` on
};
// For a heap whose top is the next to be taken: the longest token, from the left.
bool taken_later(const Match& a, const Match& b) noexcept {
  return a.order != b.order ? a.order > b.order : a.begin > b.begin;
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
    for (const char c : std::views::reverse(tokens_[order].text))
      node = add_child(node, static_cast<unsigned char>(c));
    nodes_[node].order = order;
    if (!tokens_[order].always) continue;
    always_.push_back(order);
    begins_.set(static_cast<unsigned char>(tokens_[order].text.front()));
    strips_text_ = strips_text_ || tokens_[order].strip_left;
  }
  nodes_.shrink_to_fit();
  link();
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
  Node fresh;
  fresh.next_sibling = nodes_[node].first_child;
  fresh.byte = byte;
  nodes_.push_back(fresh);
  nodes_[node].first_child = added;
  if (node == 0) roots_[byte] = added;
  return added;
}

// Level by level: the links of a node need those of the shorter ones.
void SpecialMatcher::link() {
  std::vector<std::uint32_t> nodes{0};
  nodes.reserve(nodes_.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint32_t node = nodes[i];
    for (std::uint32_t at = nodes_[node].first_child; at != kNone; at = nodes_[at].next_sibling) {
      Node& each = nodes_[at];
      each.suffix = node == 0 ? 0 : step(nodes_[node].suffix, each.byte);
      each.shorter = nodes_[each.suffix].order != kNone ? each.suffix : nodes_[each.suffix].shorter;
      nodes.push_back(at);
    }
  }
}

std::uint32_t SpecialMatcher::step(std::uint32_t node, unsigned char byte) const noexcept {
  for (;;) {
    if (const std::uint32_t next = child(node, byte); next != kNone) return next;
    if (node == 0) return 0;
    node = nodes_[node].suffix;
  }
}

bool SpecialMatcher::allows(const Allowed& allowed, const SpecialToken& token) const noexcept {
  if (allowed.everywhere || (token.always && !token.control)) return token.always || allowed.parse_special;
  return (token.always || allowed.parse_special) && token.text.size() <= allowed.control_bytes;
}

std::uint32_t SpecialMatcher::longest(std::uint32_t node, const Allowed& allowed) const noexcept {
  while (node != kNone && (nodes_[node].order == kNone || !allows(allowed, tokens_[nodes_[node].order])))
    node = nodes_[node].shorter;
  return node;
}

std::size_t SpecialMatcher::plain_bytes(std::string_view text, bool whole) const {
  const auto may_begin = [&](std::string_view rest) {
    if (!begins_.test(static_cast<unsigned char>(rest.front()))) return false;
    return std::ranges::any_of(always_, [&](std::uint32_t order) {
      const std::string_view token = tokens_[order].text;
      return rest.starts_with(token) || (!whole && token.starts_with(rest));
    });
  };
  std::size_t plain = 0;
  while (plain < text.size() && !may_begin(text.substr(plain))) ++plain;
  if (plain == text.size() && whole) return plain;
  while (strips_text_ && plain > 0 && is_space(text[plain - 1])) --plain;
  return plain;
}

void SpecialMatcher::bound(TokenBound& bound) const {
  for (const SpecialToken& token : tokens_) {
    bound.covers(token.text);
    if (token.strip_left || token.strip_right) bound.loses(" \t\n\v\f\r");
  }
}

std::vector<SpecialMatcher::Cut> SpecialMatcher::cuts(std::string_view text, bool parse_special,
                                                      const std::vector<TextSpan>* control_in) const {
  std::vector<Cut> out;
  if (tokens_.empty()) return out;
  const auto allowed = [&](std::size_t control_bytes) {
    return Allowed{parse_special, control_in == nullptr, control_bytes};
  };
  std::vector<Match> matches;  // a heap; at most one for each place
  std::uint32_t node = 0;
  std::size_t spans =
      control_in == nullptr ? 0 : control_in->size();  // those that begin before `at`, or there
  for (std::size_t at = text.size(); at-- > 0;) {
    node = step(node, static_cast<unsigned char>(text[at]));
    while (spans > 0 && (*control_in)[spans - 1].begin > at) --spans;
    const std::size_t end = spans > 0 ? (*control_in)[spans - 1].end : 0;
    const std::size_t control_bytes = end > at ? end - at : 0;
    if (const std::uint32_t found = longest(node, allowed(control_bytes)); found != kNone)
      matches.push_back({nodes_[found].order, found, at, control_bytes});
  }
  if (matches.empty()) return out;

  std::ranges::make_heap(matches, taken_later);
  std::vector<bool> taken(text.size());
  while (!matches.empty()) {
    std::ranges::pop_heap(matches, taken_later);
    Match match = matches.back();
    matches.pop_back();
    // What is taken so far is at least as long as this match: where it overlaps, it covers one of its ends.
    const auto last = [&] { return match.begin + tokens_[match.order].text.size() - 1; };
    if (taken[match.begin]) continue;
    if (taken[last()]) {
      do {
        match.node = longest(nodes_[match.node].shorter, allowed(match.control_bytes));
        if (match.node == kNone) break;
        match.order = nodes_[match.node].order;
      } while (taken[last()]);
      if (match.node == kNone) continue;
      matches.push_back(match);
      std::ranges::push_heap(matches, taken_later);
      continue;
    }
    const SpecialToken& special = tokens_[match.order];
    Cut cut{match.begin, last() + 1, special.token};
    while (special.strip_left && cut.begin > 0 && !taken[cut.begin - 1] && is_space(text[cut.begin - 1]))
      --cut.begin;
    while (special.strip_right && cut.end < text.size() && !taken[cut.end] && is_space(text[cut.end]))
      ++cut.end;
    std::fill(taken.begin() + static_cast<std::ptrdiff_t>(cut.begin),
              taken.begin() + static_cast<std::ptrdiff_t>(cut.end), true);
    out.push_back(cut);
  }
  std::ranges::sort(out, {}, &Cut::begin);
  return out;
}

}  // namespace flyball::text
