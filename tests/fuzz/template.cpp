// Template source and its inputs from the fuzzer's bytes: the source, then behind a NUL byte the messages,
// then behind another the further arguments. Nothing may crash, hang or leak, whatever they are.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "backends/text/chat_template.hpp"
#include "config/json_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flyball;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t first = std::min(bytes.find('\0'), bytes.size());
  const std::string_view rest = bytes.substr(std::min(first + 1, bytes.size()));
  const std::size_t second = std::min(rest.find('\0'), rest.size());

  text::TemplateInput input;
  const auto packed = [](std::string_view text) { return read_packed(text).value_or(PackedJson()); };
  const PackedJson messages =
      packed(rest.empty() ? R"([{"role":"user","content":"hi"}])" : rest.substr(0, second));
  const PackedJson args = packed(rest.substr(std::min(second + 1, rest.size())));
  const PackedJson tools = packed(R"([{"type":"function","function":{"name":"f"}}])");
  input.messages = messages.view();
  input.template_args = args.view();
  input.tools = tools.view();
  input.bos_token = "<s>";
  input.eos_token = "</s>";

  text::TemplateLimits limits;
  limits.fuel = 50'000;
  limits.output_bytes = 256 * 1024;
  const auto parsed = text::ChatTemplate::parse(bytes.substr(0, first), limits);
  if (!parsed) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  const auto once = parsed->render(input);
  const auto again = parsed->render(input);
  if (once.has_value() != again.has_value()) std::abort();
  if (once && (*once != *again || once->text.size() > limits.output_bytes)) std::abort();
  return 0;
}
