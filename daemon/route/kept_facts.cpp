#include "daemon/route/kept_facts.hpp"

#include <map>

#include <nlohmann/json.hpp>

#include "policy/fact_json.hpp"

namespace flyball::route {
namespace {

using nlohmann::json;
using policy::Fact;
using policy::FactId;
using std::chrono::milliseconds;

const json& part(const json& document, const char* key) {
  static const json kEmpty = json::object();
  const auto it = document.find(key);
  return it == document.end() ? kEmpty : *it;
}

}  // namespace

std::string write_facts(const policy::Facts& facts, const policy::Facts& frame) {
  const auto catalogue = policy::fact_catalogue();
  json out = json::object();
  std::map<std::string_view, milliseconds> ages;
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    const auto id = static_cast<FactId>(i);
    const std::string_view name = catalogue[i].name;
    const Fact* const fact = facts.get(id);
    const Fact* const before = frame.get(id);
    if (!fact) {
      if (before) out["unknown"].push_back(name);
      continue;
    }
    if (!before || before->value != fact->value || before->source != fact->source)
      out["facts"][fact->source][name] = policy::json_of(fact->value);
    if (ages.try_emplace(fact->source, fact->age).first->second != fact->age)
      out["aged"][name] = fact->age.count();
  }
  for (const auto& [source, age] : ages)
    if (age.count() != 0) out["ages"][std::string(source)] = age.count();
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool read_facts(std::string_view text, policy::Facts& frame) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return false;
  for (const json& name : part(document, "unknown"))
    if (name.is_string())
      if (const auto id = policy::find_fact(name.get_ref<const std::string&>())) frame.forget(*id);
  for (const auto& [source, values] : part(document, "facts").items())
    for (const auto& [name, value] : values.items()) {
      const auto id = policy::find_fact(name);
      if (!id) continue;
      if (auto typed = policy::fact_value(value, policy::fact_catalogue()[*id].type))
        frame.set(*id, std::move(*typed), source);
    }
  const auto catalogue = policy::fact_catalogue();
  const json& ages = part(document, "ages");
  const json& aged = part(document, "aged");
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    const Fact* const fact = frame.get(static_cast<FactId>(i));
    if (!fact) continue;
    const auto of_its_own = aged.find(catalogue[i].name);
    const auto of_source = ages.find(fact->source);
    const json age = of_its_own != aged.end() ? *of_its_own : of_source != ages.end() ? *of_source : json(0);
    if (age.is_number_integer()) frame.set_age(static_cast<FactId>(i), milliseconds(age.get<std::int64_t>()));
  }
  return true;
}

}  // namespace flyball::route
