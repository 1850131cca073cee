// An answer of any bytes in each family's form: its text, reasoning and calls are the same however it is cut,
// each call begins once and ends once, and complete arguments are a JSON object. The first byte is the form.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "config/utf8.hpp"
#include "daemon/api/calls/parser.hpp"

namespace {

using namespace flyball;
using namespace flyball::api;

void require(bool condition) {
  if (!condition) std::abort();
}

std::shared_ptr<const ToolSet> some_tools() {
  auto out = std::make_shared<ToolSet>();
  out->tools = *read_packed(
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{)"
      R"("s":{"type":"string"},"n":{"type":["number","null"]}}}}},{"type":"function","function":{"name":"now"}}])");
  return out;
}

void check_order(const AnswerEvents& events, std::uint32_t& calls, bool& open) {
  for (const AnswerEvent& each : events) {
    if (const auto* begin = std::get_if<event::CallBegin>(&each)) {
      require(!open && begin->call == calls && !begin->name.empty() && !begin->id.empty());
      ++calls;
      open = true;
    } else if (const auto* json = std::get_if<event::CallArguments>(&each)) {
      require(open && json->call + 1 == calls);
    } else if (const auto* end = std::get_if<event::CallEnd>(&each)) {
      require(open && end->call + 1 == calls);
      open = false;
    } else {
      require(!open);
    }
  }
}

Choice parsed(const AnswerForm& form, std::string_view text, std::size_t piece) {
  static const auto tools = some_tools();
  const auto parser = calls::make_parser(tools, form, "fuzz");
  Choice out;
  std::uint32_t calls = 0;
  bool open = false;
  const auto take = [&](AnswerEvents events) {
    check_order(events, calls, open);
    gather(out, events);
  };
  for (std::size_t at = 0; at < text.size(); at += piece) {
    AnswerEvents events;
    parser->begin_batch();
    parser->parse(text.substr(at, piece), false, events);
    take(std::move(events));
  }
  AnswerEvents events;
  parser->begin_batch();
  parser->end(events);
  take(std::move(events));
  require(!open);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr unsigned kFormats = static_cast<unsigned>(kLastCallFormat) + 1,
                     kReasonings = static_cast<unsigned>(kLastReasoningFormat) + 1;
  const unsigned pick = data[0];
  const AnswerForm form{.calls = static_cast<CallFormat>(pick % kFormats),
                        .reasoning = static_cast<ReasoningFormat>(pick / kFormats % kReasonings),
                        .in_reasoning = pick / kFormats / kReasonings % 2 != 0};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Choice whole = parsed(form, text, size), split = parsed(form, text, 1);
  require(whole.text == split.text && whole.reasoning == split.reasoning &&
          whole.calls.size() == split.calls.size());
  for (std::size_t i = 0; i < whole.calls.size(); ++i) {
    const auto &one = whole.calls[i], &other = split.calls[i];
    require(one.name == other.name && one.id == other.id && one.arguments == other.arguments &&
            one.complete == other.complete);
    if (one.complete && is_utf8(text))
      require(one.arguments.starts_with('{') && nlohmann::json::accept(one.arguments));
  }
  return 0;
}
