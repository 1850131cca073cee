// The words in which each family of models writes calls, a row for each CallFormat. The parser and the
// constraints of calls read the same rows. From the chat templates that the models were trained with.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/answer_form.hpp"

namespace flyball::api::calls {

enum class Notation : std::uint8_t {
  json,     // objects that have the name and the arguments as members
  named,    // the name, then the arguments as JSON
  xml,      // the name, then an element for each parameter
  harmony,  // messages, whose headers have the name
};

enum class Place : std::uint8_t {
  anywhere,
  start,       // of the answer, behind reasoning
  line_start,  // behind a line's end or a call, too
};

// The beginning and the end of a part of an answer that has one call or several.
struct Section {
  std::string_view open = {};   // "": a call's own opening begins it
  std::string_view close = {};  // "": the last call ends it; else it may be left out
  Place place = Place::anywhere;
  bool known_names = false;  // it has no marker: only names of known tools are calls
};
// A string that shows nowhere: the text behind it goes on.
struct Silent {
  std::string_view text;
  Place place = Place::anywhere;
};

struct FormatRow {
  CallFormat format = CallFormat::json;
  Notation notation = Notation::json;
  std::span<const Section> sections = {};
  bool list = false;  // json: a constraint writes calls as an array

  // json: members; ids may be left out. "arguments" and "parameters" are read in every format.
  std::string_view name_key = "name", arguments_key = "arguments", id_key = "id";
  std::string_view separator = "\n";  // between calls of a section, as a constraint writes them

  // named, xml: around one call. White space may stand within and between.
  std::string_view call_open = {};   // "": the section's opening or place is it
  std::string_view prefix = {};      // before the name; may be left out
  std::string_view id_open = {};     // behind the name, before an id; both may be left out
  std::string_view name_close = {};  // behind name and id; "": whatever cannot be part of the name
  bool either_notation = false;  // behind call_open, JSON or a name; name_close may be left out before "{"
  bool name_is_id = false;       // kimi_k2: functions.NAME:INDEX is the call's id
  std::string_view fence_open = {}, fence_close = {};  // around the arguments; may be left out
  std::string_view call_close = {};                    // may be left out in named

  // xml: parameters.
  std::string_view key_open = {}, key_close = {}, value_open = {}, value_close = {};
  bool value_on_lines = false;  // a line's end stands before and behind a value

  std::span<const Silent> silent = {};
  std::string_view reasoning_open = {}, reasoning_close = {};  // "": AnswerForm::reasoning says
};

const FormatRow& row_of(CallFormat format) noexcept;

// harmony: a message is its header, kMessage, and its body, which one of kHarmonyEnds ends.
inline constexpr std::string_view kFenceWord = "json";  // behind fence_open; may be left out

inline constexpr std::string_view kHarmonyStart = "<|start|>", kHarmonyChannel = "<|channel|>",
                                  kHarmonyConstrain = "<|constrain|>", kHarmonyMessage = "<|message|>",
                                  kHarmonyEnd = "<|end|>",
                                  kHarmonyRecipient = "to=", kHarmonyFunctions = "functions.",
                                  kHarmonyReasoning = "analysis", kHarmonyPreamble = "commentary",
                                  kHarmonyAnswer = "final";

}  // namespace flyball::api::calls
