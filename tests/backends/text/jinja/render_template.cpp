// Renders jobs for jinja_oracle.py: one JSON object a line on standard input, one answer a line on standard
// output. Job: source, messages, tools, args (JSON texts), bos_token, eos_token, add_generation_prompt, now.
// Answer: {"text": ...} or {"error": ..., "code": ..., "where": ...}.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/text/chat_template.hpp"
#include "tests/harness/packed.hpp"

int main() {
  using flyball::text::ChatTemplate;
  using nlohmann::json;
  std::map<std::string, flyball::Result<ChatTemplate>> parsed;
  for (std::string line; std::getline(std::cin, line);) {
    const json job = json::parse(line);
    const std::string source = job.at("source");
    const auto found = parsed.try_emplace(source, ChatTemplate::parse(source)).first;
    flyball::Result<std::string> text = std::unexpected(flyball::Error{});
    if (found->second) {
      const auto packed = [&](const char* name) {
        return flyball::test::packed(job.at(name).get_ref<const std::string&>());
      };
      const auto messages = packed("messages"), tools = packed("tools"), args = packed("args");
      flyball::text::TemplateInput input;
      input.messages = messages.view();
      input.tools = tools.view();
      input.template_args = args.view();
      input.bos_token = job.at("bos_token");
      input.eos_token = job.at("eos_token");
      input.add_generation_prompt = job.at("add_generation_prompt");
      input.now = job.at("now");
      if (auto rendered = found->second->render(input))
        text = std::move(rendered->text);
      else
        text = std::unexpected(std::move(rendered.error()));
    } else {
      text = std::unexpected(found->second.error());
    }
    const json answer = text ? json{{"text", *text}}
                             : json{{"error", text.error().message},
                                    {"code", to_string(text.error().code)},
                                    {"where", text.error().where}};
    std::cout << answer.dump() << '\n';
  }
}
