#include "daemon/api/openai/responses_echo.hpp"

#include <string_view>

#include "daemon/api/json_text.hpp"

namespace flyball::api::openai::responses {
namespace {

void append_member(std::string& out, std::string_view name, JsonView value, std::string_view fallback) {
  out.append(R"(,")").append(name).append(R"(":)");
  if (value)
    append_json(out, value);
  else
    out.append(fallback);
}

// In the API's form, out of that of every API.
void append_tool(std::string& out, JsonView tool, bool is_strict) {
  const JsonView function = tool.find("function");
  out.append(R"({"type":"function","name":)");
  append_json(out, function.find("name"));
  append_member(out, "description", function.find("description"), "null");
  append_member(out, "parameters", function.find("parameters"), "null");
  out.append(R"(,"strict":)").append(is_strict ? "true}" : "false}");
}

}  // namespace

Echo::Echo(const Fields& body, const ReadTools& tools) {
  const JsonView reasoning = body.member("reasoning"), text = body.member("text");
  const auto in = [](JsonView object, std::string_view name) {
    return object.is_object() ? object.member(name) : JsonView();
  };
  append_member(settings_, "max_output_tokens", body.member("max_output_tokens"), "null");
  settings_.append(R"(,"parallel_tool_calls":)").append(tools.parallel ? "true" : "false");
  settings_.append(R"(,"previous_response_id":null,"reasoning":{"effort":)");
  if (const JsonView effort = in(reasoning, "effort"))
    append_json(settings_, effort);
  else
    settings_.append("null");
  append_member(settings_, "summary", in(reasoning, "summary"), "null");
  settings_.append(R"(},"store":false)");
  append_member(settings_, "temperature", body.member("temperature"), "1");
  append_member(settings_, "top_logprobs", body.member("top_logprobs"), "0");
  append_member(settings_, "top_p", body.member("top_p"), "1");
  settings_.append(R"(,"truncation":"disabled")");

  append_member(texts_, "instructions", body.member("instructions"), "null");
  append_member(texts_, "metadata", body.member("metadata"), "{}");
  texts_.append(R"(,"text":{"format":)");
  if (const JsonView format = in(text, "format"))
    append_json(texts_, format);
  else
    texts_.append(R"({"type":"text"})");
  texts_.push_back('}');
  append_member(texts_, "tool_choice", body.member("tool_choice"), R"("auto")");
  texts_.append(R"(,"tools":[)");
  if (tools.set) {
    std::size_t i = 0;
    JsonView last;  // the namespace of the tool before
    for (const auto& [key, tool] : tools.set->tools.view().members()) {
      const std::size_t index = i++;
      const JsonView space = tools.namespace_json[index];
      if (space && last && space.bytes().data() == last.bytes().data()) continue;
      last = space;
      if (index > 0) texts_.push_back(',');
      if (space)
        append_json(texts_, space);
      else
        append_tool(texts_, tool, tools.strict[index]);
    }
  }
  texts_.push_back(']');
  texts_.shrink_to_fit();
}

std::size_t Echo::bytes(bool streamed) const noexcept {
  if (!streamed) return settings_.size() + texts_.size();
  return 4 * settings_.size() + (is_short() ? 4 : 2) * texts_.size();
}

}  // namespace flyball::api::openai::responses
