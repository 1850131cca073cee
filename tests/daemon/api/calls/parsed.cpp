#include "tests/daemon/api/calls/parsed.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include "daemon/api/calls/parser.hpp"
#include "tests/harness/packed.hpp"

namespace flyball {
void PrintTo(CallFormat format, std::ostream* out) {
  *out << text::to_string(format);
}
}  // namespace flyball

namespace flyball::api::calls::testing {
namespace {

using OrderedJson = nlohmann::ordered_json;

Choice wanted(const OrderedJson& want) {
  Choice out;
  out.text = want.at("text");
  out.reasoning = want.at("reasoning");
  for (const auto& call : want.at("calls"))
    out.calls.push_back(
        {call.value("id", ""), call.at("name"), call.at("arguments"), call.value("complete", true)});
  return out;
}

AnswerForm form_of(CallFormat format, const OrderedJson& json) {
  const std::string reasoning = json.value("reasoning", "none");
  return {format,
          reasoning == "think"      ? ReasoningFormat::think
          : reasoning == "brackets" ? ReasoningFormat::brackets
                                    : ReasoningFormat::none,
          json.value("in_reasoning", false)};
}

}  // namespace

std::shared_ptr<const ToolSet> tools_of(std::string_view json) {
  auto out = std::make_shared<ToolSet>();
  out->tools = test::packed(json);
  return out;
}

std::vector<Case> cases_of(CallFormat format) {
  const std::string path = std::string(FLYBALL_SOURCE_DIR "/tests/daemon/api/calls/cases/") +
                           std::string(text::to_string(format)) + ".json";
  std::ifstream file(path);
  if (!file) std::abort();
  const auto document = OrderedJson::parse(file);
  const auto tools = tools_of(document.at("tools").dump());
  std::vector<Case> out;
  for (const auto& each : document.at("cases"))
    out.push_back({each.at("name"), form_of(format, each.value("form", OrderedJson::object())),
                   each.value("tools", true) ? tools : nullptr, each.at("text"), wanted(each.at("want"))});
  return out;
}

Choice parsed(const Case& each, const std::vector<std::size_t>& cuts) {
  Choice out;
  const auto parser = make_parser(each.tools, each.form, "answer", each.or_json);
  std::size_t at = 0;
  const auto read_to = [&](std::size_t end) {
    AnswerEvents events;
    parser->begin_batch();
    parser->parse(std::string(each.text, at, end - at), false, events);
    gather(out, events);
    at = end;
  };
  for (const std::size_t cut : cuts) read_to(cut);
  read_to(each.text.size());
  AnswerEvents events;
  parser->begin_batch();
  parser->end(events);
  gather(out, events);
  return out;
}

std::string shown(const Choice& choice, bool with_ids) {
  OrderedJson calls = OrderedJson::array();
  for (const auto& call : choice.calls) {
    calls.push_back({{"name", call.name}, {"arguments", call.arguments}, {"complete", call.complete}});
    if (with_ids) calls.back()["id"] = call.id;
  }
  return OrderedJson{{"text", choice.text}, {"reasoning", choice.reasoning}, {"calls", calls}}.dump(
      -1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace flyball::api::calls::testing
