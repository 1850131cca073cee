#include "daemon/api/openai/fields.hpp"

#include <algorithm>
#include <cstdlib>

#include "daemon/api/openai/parameters.hpp"

namespace flyball::api::openai {
namespace {

// Every name that member() may be asked for.
const std::vector<std::string_view>& names() {
  static const std::vector<std::string_view> sorted = [] {
    std::vector<std::string_view> out{"add_generation_prompt",
                                      "audio",
                                      "chat_template_kwargs",
                                      "function_call",
                                      "functions",
                                      "logit_bias",
                                      "messages",
                                      "modalities",
                                      "model",
                                      "prompt",
                                      "response_format",
                                      "seed",
                                      "stop",
                                      "stream_options",
                                      "suffix",
                                      "tool_choice",
                                      "tools"};
    for (const Parameter& parameter : parameters()) out.push_back(parameter.name);
    std::ranges::sort(out);
    return out;
  }();
  return sorted;
}

}  // namespace

Fields::Fields(JsonView body) {
  for (const auto& member : body.members())
    if (std::ranges::binary_search(names(), member.key)) known_.push_back(member);
}

JsonView Fields::member(std::string_view name) const noexcept {
  if (!std::ranges::binary_search(names(), name)) std::abort();  // it would seem absent from every body
  for (const auto& [key, value] : known_)
    if (key == name) return value.is_null() ? JsonView() : value;
  return {};
}

}  // namespace flyball::api::openai
