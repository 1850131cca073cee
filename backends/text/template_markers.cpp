#include "backends/text/template_markers.hpp"

#include <algorithm>
#include <cstddef>

#include "backends/text/chat_template.hpp"

namespace flyball::text {
namespace {

constexpr std::size_t kMaxMarker = 64;  // bytes; <|reserved_special_token_100|> has 30

constexpr std::string_view kTurnTexts[] = {
    "<|end|>",  // user-defined where it ends a message and not the generation
    "<|im_start|>",
    "<|im_sep|>",
    "<|im_user|>",
    "<|im_assistant|>",
    "<|im_system|>",
    "<|im_middle|>",
    "<start_of_turn>",
    "<|turn>",
    "<|channel>",
    "<channel|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|header_start|>",
    "<|header_end|>",
    "<|eot|>",
    "<|start_of_role|>",
    "<|end_of_role|>",
    "<|system|>",
    "<|developer|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    "<|tool|>",
    "<|ipython|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|SYSTEM_TOKEN|>",
    "<|USER_TOKEN|>",
    "<|CHATBOT_TOKEN|>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
};

// Markers without a shape of their own, of reasoning, calls of tools and a text's beginning.
constexpr std::string_view kPlainTexts[] = {
    "<think>", "</think>",  "<thinking>",     "</thinking>",     "<answer>",     "</answer>",
    "<tools>", "</tools>",  "[THINK]",        "[/THINK]",        "[TOOL_CALLS]", "[/TOOL_CALLS]",
    "[ARGS]",  "[CALL_ID]", "[TOOL_CONTENT]", "[/TOOL_CONTENT]", "[gMASK]",      "<sop>",
    "<eop>",   "]~!b[",     "]~b]",
};

bool is_one_of(std::string_view text, const auto& texts) noexcept {
  return std::ranges::find(texts, text) != std::ranges::end(texts);
}

bool is_white(char c) noexcept {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// <|x|> and its like, or a tag whose name no markup language has: <tool_call>, </seed:think>.
bool has_markers_shape(std::string_view text) noexcept {
  return is_barred(text) || text.find_first_of("_:") != std::string_view::npos;
}

// </x> of <x>, and <x> of </x>. Precondition: is_bracketed(text).
std::string counterpart(std::string_view text) {
  std::string out(text);
  if (out[1] == '/')
    out.erase(1, 1);
  else
    out.insert(1, 1, '/');
  return out;
}

}  // namespace

bool marks_turn(std::string_view text) noexcept {
  return is_one_of(text, kTurnTexts) || is_one_of(text, kShownMarkers);
}

bool is_barred(std::string_view text) noexcept {
  constexpr std::string_view kBars[] = {"|", "｜"};
  if (!text.starts_with('<') || !is_bracketed(text)) return false;
  std::string_view name = text.substr(1, text.size() - 2);
  const std::size_t whole = name.size();
  for (const std::string_view bar : kBars) {
    if (name.starts_with(bar)) name.remove_prefix(bar.size());
    if (name.ends_with(bar)) name.remove_suffix(bar.size());
  }
  return !name.empty() && name.size() < whole;
}

bool is_bracketed(std::string_view text) noexcept {
  const bool brackets =
      (text.starts_with('<') && text.ends_with('>')) || (text.starts_with('[') && text.ends_with(']'));
  return text.size() > 2 && brackets && std::ranges::none_of(text, is_white);
}

std::vector<std::string> markers_of(std::string_view template_source) {
  std::vector<std::string> out;
  const auto contains = [&](std::string_view text) {
    return template_source.find(text) != std::string_view::npos;
  };
  const auto add_contained = [&](const auto& texts) {
    for (const std::string_view text : texts)
      if (contains(text)) out.emplace_back(text);
  };
  add_contained(kShownMarkers);
  add_contained(kTurnTexts);
  add_contained(kPlainTexts);
  if (contains("<|") && contains("|>"))
    for (const ChatRole role : kChatRoles) out.push_back("<|" + std::string(to_string(role)) + "|>");
  for (std::size_t at = template_source.find('<'); at != std::string_view::npos;
       at = template_source.find('<', at + 1)) {
    const std::string_view rest = template_source.substr(at, kMaxMarker);
    const std::size_t end = rest.find_first_of("<> \t\n\v\f\r", 1);
    if (end == std::string_view::npos || rest[end] != '>') continue;
    const std::string_view text = rest.substr(0, end + 1);
    if (text.size() > 2 && has_markers_shape(text)) out.emplace_back(text);
  }
  // Templates that spell one of a pair mostly leave the other to the model.
  for (std::size_t i = 0, spelled = out.size(); i < spelled; ++i)
    if (is_bracketed(out[i])) out.push_back(counterpart(out[i]));
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

}  // namespace flyball::text
