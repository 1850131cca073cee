// The tools that a request declares and its client's wish to have them called, in no API's spelling; and the
// tool set that follows, by one rule for all APIs. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/tool_set.hpp"

namespace flyball::api {

// In the client's order.
class DeclaredTools {
 public:
  struct Tool {
    std::string_view name;  // a view of the body, or of a name that the caller joined; it outlives this
    bool strict = false;    // calls have exactly the arguments that its schema allows
    ToolPosition position;
  };

  // False: an earlier tool has the name. Without a position the tool is the element of its index.
  bool add(std::string_view name, bool strict = false, std::optional<ToolPosition> position = std::nullopt);
  void set_strict(std::size_t index) { tools_[index].strict = true; }
  // The index of the tool; nullopt: none has the name.
  std::optional<std::size_t> find(std::string_view name) const;
  const std::vector<Tool>& all() const noexcept { return tools_; }
  bool empty() const noexcept { return tools_.empty(); }

  // An array with an element for each tool, as ToolSet::tools has them. A request without tools may have an
  // empty array or no JSON here.
  PackedJson json = {};

 private:
  std::vector<Tool> tools_;
  std::map<std::string_view, std::size_t> places_;  // of the names in `tools_`
};

struct ToolChoice {
  ToolSet::Choice choice = ToolSet::Choice::automatic;
  std::string_view named = {};  // required: the declared tool that is called; "": any
  // One element for each declared tool: the answer may call it. Empty: it may call all.
  std::vector<bool> allowed = {};
  bool parallel = true;  // an answer may have several calls
};

// The client demands a call, and declares no tool. Its API refuses such a request.
inline bool lacks_demanded_tools(const DeclaredTools& declared, const ToolChoice& choice) noexcept {
  return choice.choice == ToolSet::Choice::required && declared.empty();
}

// The tools that the choice leaves. Null where the answer may call none: there are no tools, or the choice is
// none. The set is strict where one of its tools is. `schema_member`: as in ToolSet; a literal.
std::shared_ptr<const ToolSet> choose_tools(DeclaredTools declared, const ToolChoice& choice,
                                            std::string_view schema_member);

// The `name` of a tool, which stands at `place`. missing_field; invalid_value where kToolNameRule does not
// hold.
Result<std::string_view> read_tool_name(JsonView tool, const std::string& place);

// Appends a tool to the array that is open, in the form of ToolSet::tools. Members that are absent are left
// out.
void write_tool(JsonRewriter& out, std::string_view name, std::optional<std::string_view> description,
                JsonView parameters);

}  // namespace flyball::api
