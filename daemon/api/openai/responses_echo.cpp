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

Echo::Echo(const Fields& body, const ReadTools& tools) : tools_(tools.set), strict_(tools.strict) {
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

  append_member(long_, "instructions", body.member("instructions"), "null");
  append_member(long_, "metadata", body.member("metadata"), "{}");
  long_.append(R"(,"text":{"format":)");
  if (const JsonView format = in(text, "format"))
    append_json(long_, format);
  else
    long_.append(R"({"type":"text"})");
  long_.push_back('}');
  append_member(long_, "tool_choice", body.member("tool_choice"), R"("auto")");
}

void Echo::append_long(std::string& out) const {
  out.append(long_).append(R"(,"tools":[)");
  if (tools_) {
    std::size_t i = 0;
    for (const auto& [key, tool] : tools_->tools.view().members()) {
      if (i > 0) out.push_back(',');
      append_tool(out, tool, strict_[i++]);
    }
  }
  out.push_back(']');
}

std::size_t Echo::bytes() const noexcept {
  const std::size_t of_tools = tools_ ? tools_->tools.bytes().size() : 0;
  return settings_.capacity() + 2 * (long_.capacity() + of_tools);
}

}  // namespace flyball::api::openai::responses
