#include "config/yaml_mistakes.hpp"

#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <array>

#include "config/name_list.hpp"

namespace flyball::config {
namespace {

constexpr std::string_view kBlanks = " \t";

// The line with that number, without its end; "" behind the last one.
std::string_view line_of(std::string_view text, std::uint32_t line) {
  for (; line > 1; --line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  std::string_view out = text.substr(0, text.find('\n'));
  if (out.ends_with('\r')) out.remove_suffix(1);
  return out;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// The column at which the text of a line begins, behind its indentation and the dashes of list items.
std::size_t key_start(std::string_view line) {
  std::size_t at = 0;
  for (;;) {
    at = std::min(line.find_first_not_of(kBlanks, at), line.size());
    if (!line.substr(at).starts_with("- ")) return at;
    ++at;
  }
}

// The nearest line above that is neither empty nor a comment; 0 if there is none.
std::uint32_t line_above(std::string_view text, std::uint32_t line) {
  std::uint32_t found = 0;
  for (std::uint32_t i = 1; i < line; ++i) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = trimmed(text.substr(0, end));
    if (!one.empty() && one != "\r" && !one.starts_with('#')) found = i;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

std::string indentation(std::size_t spaces) {
  return std::to_string(spaces) + (spaces == 1 ? " space" : " spaces");
}

YamlMistake bad_indentation(std::string_view line, TextPlace stopped) {
  const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
  stopped.column = static_cast<std::uint32_t>(spaces) + 1;
  if (line.substr(spaces).starts_with("- "))
    return {"bad indentation: a list item with " + indentation(spaces) +
                " before it continues no list above: align it with the items of its list, or indent it below "
                "its key",
            stopped};
  return {"bad indentation: a line with " + indentation(spaces) +
              " before it continues no map above: align it with the keys of its map",
          stopped};
}

// yaml-cpp found a colon where no key can stand.
YamlMistake unexpected_colon(std::string_view text, TextPlace stopped) {
  const std::string_view line = line_of(text, stopped.line);
  const std::size_t begin = std::min<std::size_t>(key_start(line), stopped.column - 1);
  if (line.substr(begin, stopped.column - 1 - begin).find(": ") != std::string_view::npos)
    return {"a second colon and space in one line: put the value in quotes", stopped};
  if (const std::uint32_t above = line_above(text, stopped.line); above > 0) {
    const std::string_view other = line_of(text, above);
    const std::size_t start = key_start(other), colon = other.find(':', start);
    const std::string_view rest = other.substr(std::min(other.size(), colon));
    if (rest.size() > 1 && rest[1] != ' ' && rest[1] != '\t' && !rest.starts_with("://"))
      return {"a space is missing after the colon in " + quoted(trimmed(other.substr(start))),
              {above, static_cast<std::uint32_t>(colon) + 1}};
    const bool one_word = trimmed(other.substr(start)).find_first_of(kBlanks) == std::string_view::npos;
    if (rest.empty() && (start == key_start(line) || (one_word && start < key_start(line))))
      return {"expected a key with a colon, got " + quoted(trimmed(other.substr(start))),
              {above, static_cast<std::uint32_t>(start) + 1}};
  }
  return bad_indentation(line, stopped);
}

// yaml-cpp found the next key or item of no map or list that is open.
YamlMistake unexpected_text(std::string_view text, TextPlace stopped) {
  const std::string_view line = line_of(text, stopped.line);
  const std::string_view before =
      trimmed(line.substr(0, std::min<std::size_t>(stopped.column - 1, line.size())));
  if (before.empty()) return bad_indentation(line, stopped);
  if (before.ends_with('"') || before.ends_with('\''))
    return {
        "unexpected text after the closing quote: put the whole value in quotes, and write a quote inside it "
        "as "
        "'' in single quotes or \\\" in double quotes",
        stopped};
  if (before.ends_with(']') || before.ends_with('}'))
    return {std::string("unexpected text after the closing ") + before.back() +
                ": put a comma inside the brackets, or the whole value in quotes",
            stopped};
  return {"unexpected text: put the value in quotes", stopped};
}

struct Row {
  std::string_view said;
  std::string_view means;       // % stands for the character at the place
  std::string_view marks = {};  // the place is the nearest of these characters at or before yaml-cpp's
};
const std::array kRows{
    // yaml-cpp's messages are no constant expressions
    Row{YAML::ErrorMsg::TAB_IN_INDENTATION, "a tab in the indentation: indent with spaces"},
    Row{YAML::ErrorMsg::UNKNOWN_TOKEN, "a plain text cannot begin with %: put it in quotes"},
    Row{YAML::ErrorMsg::UNKNOWN_ANCHOR, "aliases are not allowed: put a text that begins with % in quotes",
        "*"},
    Row{YAML::ErrorMsg::ALIAS_NOT_FOUND, "aliases are not allowed: put a text that begins with % in quotes",
        "*"},
    Row{YAML::ErrorMsg::CHAR_IN_ALIAS, "aliases are not allowed: put a text that begins with % in quotes",
        "*"},
    Row{YAML::ErrorMsg::ANCHOR_NOT_FOUND, "anchors are not allowed: put a text that begins with % in quotes",
        "&"},
    Row{YAML::ErrorMsg::CHAR_IN_ANCHOR, "anchors are not allowed: put a text that begins with % in quotes",
        "&"},
    Row{YAML::ErrorMsg::END_OF_VERBATIM_TAG, "tags are not allowed: put a text that begins with % in quotes",
        "!"},
    Row{YAML::ErrorMsg::CHAR_IN_TAG_HANDLE, "tags are not allowed: put a text that begins with % in quotes",
        "!"},
    Row{YAML::ErrorMsg::FLOW_END, "this % closes no bracket: put a text that contains it in quotes"},
    Row{YAML::ErrorMsg::BLOCK_ENTRY,
        "a list item cannot follow other text on its line: begin a new line, or write the list in "
        "[brackets]"},
    Row{YAML::ErrorMsg::MAP_KEY, "a plain text cannot begin with % and a space: put it in quotes"},
    Row{YAML::ErrorMsg::CHAR_IN_BLOCK, "the text after % belongs on the lines below, or into quotes", "|>"},
    Row{YAML::ErrorMsg::ZERO_INDENT_IN_BLOCK, "the text after % belongs on the lines below, or into quotes",
        "|>"},
    Row{YAML::ErrorMsg::DOC_IN_SCALAR, "a document marker inside a quoted text: close the quote before it"},
    Row{YAML::ErrorMsg::EOF_IN_SCALAR, "the file ends inside a quoted text: close the quote"},
    Row{YAML::ErrorMsg::INVALID_ESCAPE,
        "unknown escape after % in double quotes: write \\\\ for a backslash, or use single quotes", "\\"},
    Row{YAML::ErrorMsg::INVALID_HEX,
        "too few hexadecimal digits after % in double quotes: write \\\\ for a backslash, or use single "
        "quotes",
        "\\"},
};

}  // namespace

YamlMistake second_document(std::string_view text, TextPlace begins) {
  const std::string_view line = line_of(text, begins.line);
  if (!line.starts_with("---")) return bad_indentation(line, begins);
  return {"more than one YAML document in the file: remove the line ---", begins};
}

YamlMistake yaml_mistake(std::string_view said, std::string_view text, TextPlace stopped, TextPlace list,
                         TextPlace map) {
  using namespace YAML::ErrorMsg;
  const std::string_view line = line_of(text, stopped.line);
  const std::size_t tab = line.substr(0, std::min(line.find_first_not_of(kBlanks), line.size())).find('\t');
  if (tab != std::string_view::npos &&
      (said == MAP_VALUE || said == BLOCK_ENTRY || said == MAP_KEY || said == END_OF_MAP ||
       said == END_OF_SEQ || said == TAB_IN_INDENTATION))
    return {std::string(kRows.front().means), {stopped.line, static_cast<std::uint32_t>(tab) + 1}};
  if (said == MAP_VALUE) return unexpected_colon(text, stopped);
  if (said == END_OF_MAP || said == END_OF_SEQ) return unexpected_text(text, stopped);
  if (said == END_OF_SEQ_FLOW)
    return {"the list that begins here lacks its closing ] or a comma between two items", list};
  if (said == END_OF_MAP_FLOW)
    return {"the map that begins here lacks its closing } or a comma between two entries", map};
  const auto row = std::ranges::find_if(kRows, [&](const Row& one) { return said.starts_with(one.said); });
  if (row == kRows.end()) return {"not valid YAML: " + std::string(said), stopped};
  if (!row->marks.empty()) {
    constexpr int kMostLines =
        8;  // yaml-cpp reads at most eight characters behind an escape, ends of lines among them
    std::string_view part = line.substr(0, std::min<std::size_t>(stopped.column, line.size()));
    for (TextPlace at = stopped; at.line > 0 && stopped.line - at.line <= kMostLines;
         part = line_of(text, --at.line)) {
      const std::size_t found = part.find_last_of(row->marks);
      if (found == std::string_view::npos) continue;
      stopped = {at.line, static_cast<std::uint32_t>(found) + 1};
      break;
    }
  }
  std::string message(row->means);
  const std::string_view there = line_of(text, stopped.line);
  if (const std::size_t hole = message.find('%'); hole != std::string::npos)
    message.replace(hole, 1, there.substr(std::min<std::size_t>(stopped.column - 1, there.size()), 1));
  return {std::move(message), stopped};
}

}  // namespace flyball::config
