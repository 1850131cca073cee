#include "backends/constrain/safe_text.hpp"

#include <algorithm>

namespace flyball::constrain::safe_text {
namespace {

// Continuation bytes to come, and what narrows the next one.
enum : State { between, one, two, three, after_e0, after_ed, after_f0, after_f4 };

constexpr Edge kBetweenEdges[] = {
    {0x20, 0x21, between},  {0x23, 0x5B, between}, {0x5D, 0x7F, between},  {0xC2, 0xDF, one},
    {0xE0, 0xE0, after_e0}, {0xE1, 0xEC, two},     {0xED, 0xED, after_ed}, {0xEE, 0xEF, two},
    {0xF0, 0xF0, after_f0}, {0xF1, 0xF3, three},   {0xF4, 0xF4, after_f4},
};
constexpr Edge kOne[] = {{0x80, 0xBF, between}};
constexpr Edge kTwo[] = {{0x80, 0xBF, one}};
constexpr Edge kThree[] = {{0x80, 0xBF, two}};
constexpr Edge kAfterE0[] = {{0xA0, 0xBF, one}};
constexpr Edge kAfterEd[] = {{0x80, 0x9F, one}};
constexpr Edge kAfterF0[] = {{0x90, 0xBF, two}};
constexpr Edge kAfterF4[] = {{0x80, 0x8F, two}};

}  // namespace

std::span<const Edge> edges(State state) noexcept {
  switch (state) {
    case between:
      return kBetweenEdges;
    case one:
      return kOne;
    case two:
      return kTwo;
    case three:
      return kThree;
    case after_e0:
      return kAfterE0;
    case after_ed:
      return kAfterEd;
    case after_f0:
      return kAfterF0;
    case after_f4:
      return kAfterF4;
    default:
      return {};
  }
}

std::optional<std::size_t> characters(std::string_view text) noexcept {
  State state = kBetween;
  std::size_t count = 0;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    const auto of = edges(state);
    const auto edge = std::ranges::find_if(of, [&](const Edge& e) { return e.from <= byte && byte <= e.to; });
    if (edge == of.end()) return std::nullopt;
    if (state == kBetween) ++count;
    state = edge->next;
  }
  if (state != kBetween) return std::nullopt;
  return count;
}

}  // namespace flyball::constrain::safe_text
