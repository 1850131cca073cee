#include "daemon/api/declared_tools.hpp"

#include <string>
#include <utility>

#include "daemon/api/field_error.hpp"

namespace flyball::api {

bool DeclaredTools::add(std::string_view name, bool strict, std::optional<ToolPosition> position) {
  if (!places_.emplace(name, tools_.size()).second) return false;
  tools_.push_back({name, strict, position.value_or(ToolPosition{tools_.size()})});
  return true;
}

std::optional<std::size_t> DeclaredTools::find(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

std::shared_ptr<const ToolSet> choose_tools(DeclaredTools declared, const ToolChoice& choice,
                                            std::string_view schema_member) {
  if (declared.empty() || choice.choice == ToolSet::Choice::none) return nullptr;
  auto out = std::make_shared<ToolSet>();
  out->choice = choice.choice;
  out->named = choice.named;
  out->parallel = choice.parallel;
  out->schema_member = schema_member;
  const auto is_allowed = [&](std::size_t index) { return choice.allowed.empty() || choice.allowed[index]; };
  for (std::size_t i = 0; i < declared.all().size(); ++i) {
    if (!is_allowed(i)) continue;
    out->strict = out->strict || declared.all()[i].strict;
    out->positions.push_back(declared.all()[i].position);
  }
  if (choice.allowed.empty()) {
    out->tools = std::move(declared.json);
    return out;
  }
  JsonRewriter kept(declared.json.bytes().size());
  kept.open(JsonKind::array);
  std::size_t i = 0;
  for (const auto& [key, tool] : declared.json.view().members())
    if (is_allowed(i++)) kept.value(tool);
  kept.close();
  out->tools = kept.take();
  return out;
}

Result<std::string_view> read_tool_name(JsonView tool, const std::string& place) {
  const JsonView name = tool.member("name");
  if (!name) return field_error(ErrorCode::missing_field, place + ".name", "is required");
  if (!name.is_string() || !is_tool_name(name.text()))
    return field_error(ErrorCode::invalid_value, place + ".name", std::string(kToolNameRule));
  return name.text();
}

void write_tool(JsonRewriter& out, std::string_view name, std::optional<std::string_view> description,
                JsonView parameters) {
  out.open(JsonKind::object);
  out.key("type");
  out.string("function");
  out.key("function");
  out.open(JsonKind::object);
  out.key("name");
  out.string(name);
  if (description) {
    out.key("description");
    out.string(*description);
  }
  if (parameters) {
    out.key("parameters");
    out.value(parameters);
  }
  out.close();
  out.close();
}

}  // namespace flyball::api
