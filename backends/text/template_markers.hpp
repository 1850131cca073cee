// The markers that a chat template writes around turns, reasoning and calls of tools: <|im_start|>, <think>,
// [INST]. A vocabulary's token for a marker is matched in the template's own text alone, whatever type the
// file gives it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flyball::text {

// gpt-oss's channel markers, which answers show.
inline constexpr std::string_view kShownMarkers[] = {"<|channel|>", "<|message|>", "<|start|>",
                                                     "<|constrain|>"};
// Opens a turn, names its role or ends its header or message, in whatever template.
bool marks_turn(std::string_view text) noexcept;
// <|x|>, <|x> or <x|>, with either bar: what no text spells by chance.
bool is_barred(std::string_view text) noexcept;
// <x> or [x], without white space: the text of a token that a file names as its BOS, its EOS or an infill
// token, and no word.
bool is_bracketed(std::string_view text) noexcept;

// Texts that are markers if a vocabulary has a token for the whole of one: those that the source contains,
// each with the other of its pair (</think> of <think>), and <|role|> for each of the API's roles where the
// source could join it.
std::vector<std::string> markers_of(std::string_view template_source);

}  // namespace flyball::text
