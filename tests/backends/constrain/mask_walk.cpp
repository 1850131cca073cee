#include "tests/backends/constrain/mask_walk.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace flyball::constrain::testing {

Result<Walk> mask_walk(const std::shared_ptr<Automaton>& automaton, Masks& masks, const Tokens& tokens,
                       Random& random, std::size_t longest) {
  auto begun = Matcher::begin(automaton);
  if (!begun) return pass(begun);
  Matcher at = std::move(*begun);
  Walk walk;
  const auto disagree = [&](std::string_view what) {
    return fail(ErrorCode::internal, std::string(what) + " after " + walk.document);
  };
  const auto has = [](std::span<const std::uint64_t> bits, TokenId t) {
    return (bits[t / 64] >> (t % 64) & 1U) != 0;
  };
  std::vector<std::uint64_t> bits((tokens.bytes.size() + 63) / 64);
  for (std::size_t i = 0; i < longest; ++i) {
    const auto n = masks.fill(at, bits);
    if (!n) return pass(n);
    if (*n == 0) return disagree("an empty mask");
    const bool may_end = has(bits, tokens.ends[0]);
    if (may_end != at.can_end()) return disagree("mask and matcher disagree about the end");
    if (may_end && (*n == tokens.ends.size() || 2 * i >= longest || below(random, 3) == 0)) {
      walk.ended = true;
      return walk;
    }
    const bool late = 2 * i >= longest;
    std::vector<TokenId> allowed, plain, closing;
    for (TokenId t = 0; t < tokens.bytes.size(); ++t) {
      if (!has(bits, t) || std::ranges::find(tokens.ends, t) != tokens.ends.end()) continue;
      allowed.push_back(t);
      const std::string_view text = tokens.bytes[t];
      if (text.size() == 1 && text[0] > 0) plain.push_back(t);
      if (text == "\"" || text == "]" || text == "}") closing.push_back(t);
    }
    if (allowed.empty()) return disagree("no token but ends");
    const auto& from = late && !closing.empty() && below(random, 2) == 0 ? closing
                       : late && !plain.empty()                          ? plain
                                                                         : allowed;
    const std::string& next = tokens.bytes[from[below(random, static_cast<std::uint32_t>(from.size()))]];
    const auto taken = at.accept(next);
    if (!taken) return pass(taken);
    if (!*taken) return disagree("the matcher refuses the allowed token " + next);
    walk.document += next;
  }
  return walk;
}

}  // namespace flyball::constrain::testing
