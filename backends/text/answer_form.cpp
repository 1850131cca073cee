#include "backends/text/answer_form.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "backends/call_markers.hpp"

namespace flyball::text {
namespace {

// A template that has both texts writes its calls so; "": one text tells. The first row that holds decides:
// later markers are in templates of earlier rows, too.
struct Row {
  CallFormat format;
  std::string_view has, and_has = {};
};
constexpr std::array kRows{
    Row{CallFormat::minimax_m2, "<minimax:tool_call>"},
    Row{CallFormat::kimi_k2, "<|tool_calls_section_begin|>"},
    Row{CallFormat::harmony, "<|channel|>", "<|message|>"},
    Row{CallFormat::command_r7b, "<|START_ACTION|>"},
    Row{CallFormat::deepseek_v3, "<｜tool▁call▁begin｜>", "```json"},
    Row{CallFormat::deepseek_v31, "<｜tool▁call▁begin｜>"},
    Row{CallFormat::glm45, "<arg_key>"},
    Row{CallFormat::qwen3_coder, "<function=", "<parameter="},
    Row{CallFormat::functionary_v31, "<function="},
    Row{CallFormat::functionary_v32, ">>>all"},
    Row{CallFormat::hermes, "<tool_call>"},
    Row{CallFormat::mistral_v11, "[TOOL_CALLS]", "[ARGS]"},
    Row{CallFormat::mistral, "[TOOL_CALLS]"},
    Row{CallFormat::phi4, "functools["},
    Row{CallFormat::phi4, "<|tool|>", "<|/tool|>"},
    Row{CallFormat::granite, "<|tool_call|>"},
    Row{CallFormat::llama3, "<|python_tag|>"},
    Row{CallFormat::llama3, "<|start_header_id|>", "ipython"},
    Row{CallFormat::llama3, "<|header_start|>", "ipython"},
    Row{CallFormat::glm4, "<|observation|>"},
};

constexpr std::array<std::string_view, static_cast<std::size_t>(kLastCallFormat) + 1> kCallNames{
    "json",         "hermes",  "llama3",  "mistral",     "mistral_v11",     "qwen3_coder",     "deepseek_v3",
    "deepseek_v31", "harmony", "granite", "command_r7b", "functionary_v31", "functionary_v32", "phi4",
    "glm4",         "glm45",   "kimi_k2", "minimax_m2"};
constexpr std::array<std::string_view, static_cast<std::size_t>(kLastReasoningFormat) + 1> kReasoningNames{
    "none", "think", "brackets"};

// The beginning and the end of reasoning; empty where the form opens none in a prompt.
std::span<const std::string_view> reasoning_markers(const AnswerForm& form) noexcept {
  if (form.calls == CallFormat::command_r7b) return std::span(call_markers::kCommandR7b).first(2);
  return markers_of(form.reasoning);
}

bool holds(std::string_view text, std::string_view part) noexcept {
  return text.find(part) != std::string_view::npos;
}

ReasoningFormat find_reasoning(std::string_view source, CallFormat calls) noexcept {
  if (calls == CallFormat::harmony || calls == CallFormat::command_r7b) return ReasoningFormat::none;
  if (holds(source, "<think>") || holds(source, "</think>")) return ReasoningFormat::think;
  return holds(source, "[THINK]") ? ReasoningFormat::brackets : ReasoningFormat::none;
}

template <class Enum, std::size_t n>
std::optional<Enum> from_name(const std::array<std::string_view, n>& names, std::string_view name) noexcept {
  const auto* const at = std::ranges::find(names, name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Enum>(at - names.begin());
}

}  // namespace

AnswerForm find_answer_form(std::string_view template_source) noexcept {
  AnswerForm form;
  const auto* const row = std::ranges::find_if(kRows, [&](const Row& one) {
    return holds(template_source, one.has) && holds(template_source, one.and_has);
  });
  if (row != kRows.end()) form.calls = row->format;
  form.reasoning = find_reasoning(template_source, form.calls);
  return form;
}

bool ends_in_reasoning(std::string_view rendered, const AnswerForm& form) noexcept {
  const auto markers = reasoning_markers(form);
  const std::size_t last = rendered.find_last_not_of(" \t\r\n");
  rendered = rendered.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return !markers.empty() && rendered.ends_with(markers[0]);
}

std::string reasoning_end(const AnswerForm& form) {
  const auto markers = reasoning_markers(form);
  if (markers.empty()) return {};
  // Templates write two line ends behind a tag, and none behind a marker.
  return std::string(markers[1]) + (form.reasoning == ReasoningFormat::think ? "\n\n" : "");
}

std::string_view to_string(CallFormat format) noexcept {
  return kCallNames.at(static_cast<std::size_t>(format));
}
std::string_view to_string(ReasoningFormat format) noexcept {
  return kReasoningNames.at(static_cast<std::size_t>(format));
}
std::optional<CallFormat> call_format_from(std::string_view name) noexcept {
  return from_name<CallFormat>(kCallNames, name);
}
std::optional<ReasoningFormat> reasoning_format_from(std::string_view name) noexcept {
  return from_name<ReasoningFormat>(kReasoningNames, name);
}

}  // namespace flyball::text
