// The form of a model's answers, found out by the markers in its chat template: a model writes its calls
// as the template writes those of earlier turns.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backends/answer_form.hpp"

namespace flyball::text {

// `in_reasoning` is false: only a rendered prompt tells.
AnswerForm find_answer_form(std::string_view template_source) noexcept;

// True where an answer to a prompt that ends so begins within reasoning: the template has opened it.
bool ends_in_reasoning(std::string_view rendered, const AnswerForm& form) noexcept;

// The text that ends reasoning which a prompt has opened.
std::string reasoning_end(const AnswerForm& form);

// The spelling of the enumerator: "mistral_v11".
std::string_view to_string(CallFormat format) noexcept;
std::string_view to_string(ReasoningFormat format) noexcept;
std::optional<CallFormat> call_format_from(std::string_view name) noexcept;
std::optional<ReasoningFormat> reasoning_format_from(std::string_view name) noexcept;

}  // namespace flyball::text
