#include "daemon/api/openai/responses_tools.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/name_list.hpp"
#include "daemon/api/declared_tools.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/json_rewriter.hpp"
#include "daemon/api/openai/responses_fields.hpp"

namespace flyball::api::openai::responses {
namespace {

std::unexpected<Error> no_function(std::string_view type, const std::string& place, std::string_view served) {
  return field_error(ErrorCode::unsupported_feature, place + ".type",
                     "is " + config::quoted(type) + ", but is served as " + std::string(served) +
                         " only: a tool is one that the client describes and runs");
}
// A request has no more in all its namespaces: joined names are longer than what the client has written.
constexpr std::size_t kMaxFunctions = 1024;
constexpr std::string_view kFunction = "\"function\"", kFunctionOrNamespace = "\"function\" or \"namespace\"";

Result<std::string_view> type_of(JsonView json, const std::string& place) {
  const JsonView type = json.is_object() ? json.find("type") : JsonView();
  if (!type.is_string())
    return field_error(ErrorCode::invalid_value, place, "must be an object with a 'type'");
  return type.text();
}

// Reads `tools` in two passes: declares all, then writes those that the choice leaves.
class ToolsReader {
 public:
  // `namespaces`: gets the joined names, which the declared tools view.
  ToolsReader(UnknownFields& unknown, Namespaces& namespaces) : unknown_(unknown), namespaces_(namespaces) {}

  Result<void> read(JsonView list) {
    std::size_t i = 0;
    for (const auto& [key, json] : list.members()) {
      const ToolPosition position{i++};
      const auto type = type_of(json, position.place());
      if (!type) return pass(type);
      if (*type != "function" && *type != "namespace")
        return no_function(*type, position.place(), kFunctionOrNamespace);
      if (auto ok = *type == "function" ? function(json, position, {}) : functions(json, position); !ok)
        return ok;
    }
    return {};
  }
  const DeclaredTools& declared() const noexcept { return declared_; }

  // The tools that the choice leaves, with what the echo needs of them. `bytes`: of the list.
  void write(const ToolChoice& choice, std::size_t bytes, ReadTools& out) {
    JsonRewriter written(bytes);
    written.open(JsonKind::array);
    JsonView described;  // the namespace whose description the model has read
    for (std::size_t i = 0; i < functions_.size(); ++i) {
      const auto& [json, around] = functions_[i];
      const bool is_allowed = choice.allowed.empty() || choice.allowed[i];
      std::string_view before;
      if (is_allowed && around && !is_same(around, std::exchange(described, around)))
        if (const JsonView text = around.member("description")) before = text.text();
      write_function(declared_.all()[i].name, before, json, written);
      if (!is_allowed) continue;
      out.strict.push_back(declared_.all()[i].strict);
      out.namespace_json.push_back(around);
    }
    written.close();
    declared_.json = written.take();
    out.set = choose_tools(std::move(declared_), choice, "parameters");
  }

 private:
  struct Function {
    JsonView json, around;  // `around`: the namespace; absent: it stands in none
  };

  Result<void> functions(JsonView json, ToolPosition position) {
    const std::string place = position.place();
    if (auto ok = check_members(json, field_table(), FieldOf::tool_namespace, kCreate, place, unknown_); !ok)
      return ok;
    const JsonView description = json.member("description"), list = json.member("tools");
    const auto name = read_tool_name(json, place);
    if (!name) return pass(name);
    if (*name == "functions" || name->starts_with("functions."))
      return field_error(ErrorCode::unsupported_value, place + ".name",
                         "begins with \"functions\", which some models write before the name of every tool");
    if (description && !description.is_string())
      return field_error(ErrorCode::invalid_value, place + ".description", "must be a string");
    if (!list) return field_error(ErrorCode::missing_field, place + ".tools", "is required");
    if (!list.is_array()) return field_error(ErrorCode::invalid_value, place + ".tools", "must be an array");
    position.inner = 0;
    for (const auto& [key, one] : list.members()) {
      const auto type = type_of(one, position.place());
      if (!type) return pass(type);
      if (*type != "function") return no_function(*type, position.place(), kFunction);
      if (auto ok = function(one, position, json); !ok) return ok;
      ++*position.inner;
    }
    return {};
  }

  Result<void> function(JsonView json, const ToolPosition& position, JsonView around) {
    const std::string place = position.place();
    if (auto ok = check_members(json, field_table(), FieldOf::tool, kCreate, place, unknown_); !ok) return ok;
    const JsonView description = json.member("description"), parameters = json.member("parameters"),
                   strict = json.member("strict");
    const auto name = read_tool_name(json, place);
    if (!name) return pass(name);
    if (description && !description.is_string())
      return field_error(ErrorCode::invalid_value, place + ".description", "must be a string");
    if (parameters && !parameters.is_object())
      return field_error(ErrorCode::invalid_value, place + ".parameters", "must be a JSON schema, an object");
    if (strict && !strict.is_boolean())
      return field_error(ErrorCode::invalid_value, place + ".strict", "must be a boolean");
    std::string_view called = *name;
    if (around) {
      if (namespaces_.size() == kMaxFunctions)
        return field_error(
            ErrorCode::invalid_value, place,
            "is one function more in namespaces than the limit of " + std::to_string(kMaxFunctions));
      called = namespaces_.add({around.member("name").text(), called});
      if (!is_tool_name(called))
        return field_error(
            ErrorCode::invalid_value, place + ".name",
            "has, with its namespace, more than " + std::to_string(kMaxToolNameBytes) + " bytes");
    }
    if (!declared_.add(called, strict && strict.as_bool(), position))
      return field_error(ErrorCode::invalid_value, place + ".name",
                         "is " + config::quoted(called) + ", which is another tool's name");
    functions_.push_back({json, around});
    return {};
  }

  // Views of one element of one document.
  static bool is_same(JsonView a, JsonView b) { return b && a.bytes().data() == b.bytes().data(); }

  static void write_function(std::string_view name, std::string_view before, JsonView json,
                             JsonRewriter& out) {
    const JsonView own = json.member("description");
    std::optional<std::string> description;
    if (own) description = own.text();
    if (!before.empty())
      description = std::string(before) + (description.value_or("").empty() ? "" : "\n" + *description);
    write_tool(out, name, description, json.member("parameters"));
  }

  UnknownFields& unknown_;
  Namespaces& namespaces_;
  DeclaredTools declared_;
  std::vector<Function> functions_;
};

// The index of the tool of {"type": "function", "name"}.
Result<std::size_t> find_tool(JsonView wanted, const std::string& place, const DeclaredTools& declared) {
  const auto type = type_of(wanted, place);
  if (!type) return pass(type);
  if (*type != "function") return no_function(*type, place, kFunction);
  const JsonView name = wanted.member("name");
  if (!name) return field_error(ErrorCode::missing_field, place + ".name", "is required");
  if (!name.is_string()) return field_error(ErrorCode::invalid_value, place + ".name", "must be a string");
  const auto found = declared.find(name.text());
  if (!found)
    return field_error(ErrorCode::invalid_value, place + ".name",
                       "is " + config::quoted(name.text()) + ", which is none of 'tools'");
  return *found;
}

// {"type": "allowed_tools", "mode": "auto" or "required", "tools": [...]}.
Result<void> read_allowed(JsonView choice, const DeclaredTools& declared, ToolChoice& out,
                          UnknownFields& unknown) {
  const JsonView mode = choice.member("mode"), list = choice.member("tools");
  if (!mode.is_string() || (mode.text() != "auto" && mode.text() != "required"))
    return field_error(ErrorCode::invalid_value, "tool_choice.mode", "must be auto or required");
  if (!list.is_array() || list.size() == 0)
    return field_error(ErrorCode::invalid_value, "tool_choice.tools",
                       "must be an array with at least one tool");
  out.allowed.assign(declared.all().size(), false);
  std::size_t i = 0;
  for (const auto& [key, wanted] : list.members()) {
    const std::string place = "tool_choice.tools[" + std::to_string(i++) + "]";
    auto tool = find_tool(wanted, place, declared);
    if (!tool) return pass(tool);
    if (auto ok = check_members(wanted, field_table(), FieldOf::allowed_tool, kCreate, place, unknown); !ok)
      return ok;
    out.allowed[*tool] = true;
  }
  if (mode.text() == "required") out.choice = ToolSet::Choice::required;
  return {};
}

Result<void> read_choice(JsonView choice, const DeclaredTools& declared, ToolChoice& out,
                         UnknownFields& unknown) {
  if (choice.is_string()) {
    if (choice.text() == "none")
      out.choice = ToolSet::Choice::none;
    else if (choice.text() == "required")
      out.choice = ToolSet::Choice::required;
    else if (choice.text() != "auto")
      return field_error(ErrorCode::invalid_value, "tool_choice",
                         "must be none, auto, required or an object");
  } else {
    const JsonView type = choice.is_object() ? choice.find("type") : JsonView();
    if (!type.is_string())
      return field_error(ErrorCode::invalid_value, "tool_choice",
                         "must be a string, or an object with a 'type'");
    if (auto ok = check_members(choice, field_table(), FieldOf::tool_choice, kCreate, "tool_choice", unknown);
        !ok)
      return ok;
    if (type.text() == "allowed_tools") return read_allowed(choice, declared, out, unknown);
    auto tool = find_tool(choice, "tool_choice", declared);
    if (!tool) return pass(tool);
    out.choice = ToolSet::Choice::required;
    out.named = declared.all()[*tool].name;
  }
  if (lacks_demanded_tools(declared, out))
    return field_error(ErrorCode::invalid_value, "tool_choice", "demands a call, and there are no 'tools'");
  return {};
}

}  // namespace

Result<ReadTools> read_tools(const Fields& body, UnknownFields& unknown) {
  const JsonView list = body.member("tools"), choice = body.member("tool_choice"),
                 parallel = body.member("parallel_tool_calls");
  if (list && !list.is_array()) return field_error(ErrorCode::invalid_value, "tools", "must be an array");
  ReadTools out;
  ToolsReader reader(unknown, out.namespaces);
  if (list)
    if (auto ok = reader.read(list); !ok) return pass(ok);
  ToolChoice wish;
  if (choice)
    if (auto ok = read_choice(choice, reader.declared(), wish, unknown); !ok) return pass(ok);
  if (parallel && !parallel.is_boolean())
    return field_error(ErrorCode::invalid_value, "parallel_tool_calls", "must be a boolean");
  out.parallel = wish.parallel = !parallel || parallel.as_bool();
  if (list) reader.write(wish, list.bytes().size(), out);
  return out;
}

}  // namespace flyball::api::openai::responses
