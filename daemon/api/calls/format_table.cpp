#include "daemon/api/calls/format_table.hpp"

#include <array>
#include <cstddef>

namespace flyball::api::calls {
namespace {

using enum CallFormat;

constexpr std::array kJson{
    Section{.place = Place::start, .known_names = true},
    Section{.open = "```json", .close = "```", .place = Place::start, .known_names = true}};
// Small models leave the markers out.
constexpr std::array kHermes{
    Section{.open = "<tool_call>", .close = "</tool_call>"},
    Section{.place = Place::start, .known_names = true},
    Section{.open = "```json", .close = "```", .place = Place::start, .known_names = true}};
constexpr std::array kLlama3{Section{.place = Place::start, .known_names = true},
                             Section{.open = "<|python_tag|>"}};
constexpr std::array kMistral{Section{.open = "[TOOL_CALLS]"}};
constexpr std::array kOwnOpening{Section{}};
constexpr std::array kDeepseek{Section{.open = "<｜tool▁calls▁begin｜>", .close = "<｜tool▁calls▁end｜>"},
                               Section{.close = "<｜tool▁calls▁end｜>"}};
constexpr std::array kGranite{Section{.open = "<|tool_call|>"},
                              Section{.open = "<tool_call>", .close = "</tool_call>"},
                              Section{.place = Place::start, .known_names = true}};
constexpr std::array kCommandR7b{Section{.open = "<|START_ACTION|>", .close = "<|END_ACTION|>"}};
constexpr std::array kFunctionaryV32{Section{.place = Place::start, .known_names = true},
                                     Section{.known_names = true}};
constexpr std::array kPhi4{Section{.open = "functools"},
                           Section{.open = "<|tool_call|>", .close = "<|/tool_call|>"}};
constexpr std::array kQwen3Coder{Section{.open = "<tool_call>", .close = "</tool_call>"},
                                 Section{.close = "</tool_call>"}};
constexpr std::array kGlm4{Section{.place = Place::line_start, .known_names = true}};
constexpr std::array kKimiK2{
    Section{.open = "<|tool_calls_section_begin|>", .close = "<|tool_calls_section_end|>"},
    Section{.close = "<|tool_calls_section_end|>"}};
constexpr std::array kMinimaxM2{Section{.open = "<minimax:tool_call>", .close = "</minimax:tool_call>"}};

constexpr std::array kResponse{Silent{"<|START_RESPONSE|>"}, Silent{"<|END_RESPONSE|>"},
                               Silent{"<|START_TEXT|>"}, Silent{"<|END_TEXT|>"}};
constexpr std::array kToAll{Silent{"all\n", Place::start}, Silent{">>>all\n"}};

constexpr std::array kRows{
    FormatRow{.format = json, .sections = kJson},
    FormatRow{.format = hermes, .sections = kHermes},
    FormatRow{.format = llama3, .sections = kLlama3, .arguments_key = "parameters", .separator = "; "},
    FormatRow{.format = mistral,
              .sections = kMistral,
              .list = true,
              .call_open = "[TOOL_CALLS]",
              .id_open = "[CALL_ID]",
              .name_close = "[ARGS]",
              .either_notation = true},
    FormatRow{.format = mistral_v11,
              .notation = Notation::named,
              .sections = kOwnOpening,
              .separator = "",
              .call_open = "[TOOL_CALLS]",
              .id_open = "[CALL_ID]",
              .name_close = "[ARGS]",
              .either_notation = true},
    FormatRow{.format = qwen3_coder,
              .notation = Notation::xml,
              .sections = kQwen3Coder,
              .call_open = "<function=",
              .name_close = ">",
              .call_close = "</function>",
              .key_open = "<parameter=",
              .key_close = ">",
              .value_close = "</parameter>",
              .value_on_lines = true},
    FormatRow{.format = deepseek_v3,
              .notation = Notation::named,
              .sections = kDeepseek,
              .call_open = "<｜tool▁call▁begin｜>",
              .prefix = "function<｜tool▁sep｜>",
              .name_close = "\n",
              .fence_open = "```",
              .fence_close = "```",
              .call_close = "<｜tool▁call▁end｜>"},
    FormatRow{.format = deepseek_v31,
              .notation = Notation::named,
              .sections = kDeepseek,
              .separator = "",
              .call_open = "<｜tool▁call▁begin｜>",
              .name_close = "<｜tool▁sep｜>",
              .call_close = "<｜tool▁call▁end｜>"},
    FormatRow{.format = harmony, .notation = Notation::harmony},
    FormatRow{.format = granite, .sections = kGranite, .list = true},
    FormatRow{.format = command_r7b,
              .sections = kCommandR7b,
              .list = true,
              .name_key = "tool_name",
              .arguments_key = "parameters",
              .id_key = "tool_call_id",
              .silent = kResponse,
              .reasoning_open = "<|START_THINKING|>",
              .reasoning_close = "<|END_THINKING|>"},
    FormatRow{.format = functionary_v31,
              .notation = Notation::named,
              .sections = kOwnOpening,
              .separator = "",
              .call_open = "<function=",
              .name_close = ">",
              .call_close = "</function>"},
    FormatRow{.format = functionary_v32,
              .notation = Notation::named,
              .sections = kFunctionaryV32,
              .separator = ">>>",
              .call_open = ">>>",
              .name_close = "\n",
              .silent = kToAll},
    FormatRow{.format = phi4, .sections = kPhi4, .list = true},
    FormatRow{.format = glm4, .notation = Notation::named, .sections = kGlm4, .name_close = "\n"},
    FormatRow{.format = glm45,
              .notation = Notation::xml,
              .sections = kOwnOpening,
              .call_open = "<tool_call>",
              .call_close = "</tool_call>",
              .key_open = "<arg_key>",
              .key_close = "</arg_key>",
              .value_open = "<arg_value>",
              .value_close = "</arg_value>"},
    FormatRow{.format = kimi_k2,
              .notation = Notation::named,
              .sections = kKimiK2,
              .separator = "",
              .call_open = "<|tool_call_begin|>",
              .name_close = "<|tool_call_argument_begin|>",
              .name_is_id = true,
              .call_close = "<|tool_call_end|>"},
    FormatRow{.format = minimax_m2,
              .notation = Notation::xml,
              .sections = kMinimaxM2,
              .call_open = "<invoke name=\"",
              .name_close = "\">",
              .call_close = "</invoke>",
              .key_open = "<parameter name=\"",
              .key_close = "\">",
              .value_close = "</parameter>"},
};
static_assert([] {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].format != static_cast<CallFormat>(i)) return false;
  return kRows.size() == static_cast<std::size_t>(kLastCallFormat) + 1;
}());

}  // namespace

const FormatRow& row_of(CallFormat format) noexcept {
  return kRows[static_cast<std::size_t>(format)];
}

}  // namespace flyball::api::calls
