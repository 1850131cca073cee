// The tools of a request and what its client wants of them, whatever API it speaks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/packed_json.hpp"

namespace flyball::api {

// The name of a tool: 1 to 128 of [A-Za-z0-9_.-], and of ":" and "/", which gateways of tools write. OpenAI
// allows 64.
inline constexpr std::size_t kMaxToolNameBytes = 128;
inline constexpr std::string_view kToolNameRule =
    "must be 1 to 128 letters, digits, '_', '.', ':', '/' and '-'";
constexpr bool is_tool_name_byte(int byte) noexcept {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
         byte == '_' || byte == '.' || byte == ':' || byte == '/' || byte == '-';
}
constexpr bool is_tool_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxToolNameBytes &&
         std::ranges::all_of(text, [](char c) { return is_tool_name_byte(static_cast<unsigned char>(c)); });
}

// "tools[3]", as a client's request has it.
inline std::string place_of_tool(std::size_t index) {
  return "tools[" + std::to_string(index) + "]";
}

// The place of a tool in a client's `tools`: an element, or one of the tools in an element.
struct ToolPosition {
  std::size_t element = 0;
  std::optional<std::size_t> inner = std::nullopt;

  std::string place() const {  // "tools[3]", "tools[3].tools[0]"
    return place_of_tool(element) + (inner ? "." + place_of_tool(*inner) : "");
  }
};

struct ToolSet {
  enum class Choice : std::uint8_t {
    none,       // the answer calls none
    automatic,  // the model decides
    required,   // the answer is a call, or several
  };

  // The tools as read_tools() gives them: [{"type": "function", "function": {"name", "description",
  // "parameters"}}].
  PackedJson tools = {};
  Choice choice = Choice::automatic;
  std::string named = {};  // required: the one that is called, which is among the tools; "": any
  bool parallel = true;    // an answer may have several calls
  // Calls have exactly the arguments that the tools' schemas allow, also where the model decides whether to
  // call.
  bool strict = false;
  // The places of the tools in the client's request, for errors.
  std::string_view schema_member = "function.parameters";  // the member of a tool that has its schema
  std::vector<ToolPosition> positions = {};  // of each tool; empty: its index here is the client's

  // "tools[3].function.parameters" of the tool at `index` here.
  std::string schema_place(std::size_t index) const {
    const ToolPosition position = positions.empty() ? ToolPosition{index} : positions[index];
    return position.place() + "." + std::string(schema_member);
  }
};

}  // namespace flyball::api
