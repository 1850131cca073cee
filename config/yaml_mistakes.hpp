// The mistakes in a YAML file that yaml-cpp names by a symptom ("illegal map value"), named by cause and
// remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flyball::config {

struct TextPlace {
  std::uint32_t line = 1, column = 1;  // from 1; column counts bytes
};
struct YamlMistake {
  std::string message;
  TextPlace at;
};

// `said`: the message of the YAML::ParserException that yaml-cpp threw at `stopped` in `text`. `list`, `map`:
// the beginnings of the innermost list and map that were open. A message that the table lacks is passed on
// after "not valid YAML: ".
YamlMistake yaml_mistake(std::string_view said, std::string_view text, TextPlace stopped, TextPlace list,
                         TextPlace map);

// yaml-cpp found a second document there: behind `---`, or behind a top-level line of another indentation.
YamlMistake second_document(std::string_view text, TextPlace begins);

}  // namespace flyball::config
