#include "backends/grammar/choice_list.hpp"

#include <vector>

namespace flyball::grammar {

Result<Grammar> choice_list(std::span<const std::string> choices, Fuel& fuel, const Limits& limits) {
  if (choices.empty()) return fail(ErrorCode::invalid_value, "the list of choices is empty");
  Grammar out;
  std::vector<NodeId> texts;
  std::size_t bytes = 0;
  for (const std::string& choice : choices) {
    bytes += choice.size();
    if (bytes > limits.text || out.memory() > limits.memory || !fuel.spend(1 + choice.size())) {
      return fail(ErrorCode::unsupported_feature, "the list of " + std::to_string(choices.size()) +
                                                      " choices is too long: " + std::to_string(limits.text) +
                                                      " bytes of text and " + std::to_string(limits.memory) +
                                                      " bytes of memory are the limits");
    }
    texts.push_back(out.text(choice));
  }
  out.define(out.declare("root"), out.choice(texts));
  return out;
}

}  // namespace flyball::grammar
