#include "backends/grammar/choice_list.hpp"

#include <vector>

namespace flyball::grammar {

Result<Grammar> choice_list(std::span<const std::string> choices, Fuel& fuel, const Limits& limits) {
  if (choices.empty()) return fail(ErrorCode::invalid_value, "the list of choices is empty");
  const std::uint64_t steps = fuel.left();
  Grammar out;
  std::vector<NodeId> texts;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto over = [&](const std::string& limit) {
      return fail(ErrorCode::unsupported_feature,
                  "the list of " + std::to_string(choices.size()) + " choices takes more than " + limit +
                      " at choice " + std::to_string(i) + ", which has " + std::to_string(choices[i].size()) +
                      " bytes",
                  {}, "choice " + std::to_string(i));
    };
    bytes += choices[i].size();
    if (bytes > limits.text) return over(std::to_string(limits.text) + " bytes of text");
    if (!fuel.spend(10 + choices[i].size())) return over(std::to_string(steps) + " steps to read");
    texts.push_back(out.text(choices[i]));
    if (out.memory() > limits.memory) return over(std::to_string(limits.memory) + " bytes of memory");
  }
  out.define(out.declare("root"), out.choice(texts));
  return out;
}

}  // namespace flyball::grammar
