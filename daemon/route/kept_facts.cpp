#include "daemon/route/kept_facts.hpp"

#include <map>
#include <optional>

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

// The age of each source's first fact. Facts of one source mostly grow old together: what is written is how
// old that one is, and of the others only what does not follow from it.
using Ages = std::map<std::string, milliseconds, std::less<>>;
Ages ages_of(const policy::Facts& facts) {
  Ages out;
  for (std::size_t i = 0; i < facts.targets()->facts().size(); ++i)
    if (const Fact* const fact = facts.get(static_cast<FactId>(i))) out.try_emplace(fact->source, fact->age);
  return out;
}

// How old a fact is if it is as much older than its source's first one as it was in the frame.
milliseconds expected_age(const std::string& source, const Fact* before, const Ages& before_ages,
                          milliseconds now) {
  return before && before->source == source ? now + (before->age - before_ages.at(source)) : now;
}

std::vector<std::string_view> names_of(const std::vector<FactId>& facts, const policy::Targets& targets) {
  std::vector<std::string_view> out;
  for (const FactId id : facts) out.push_back(targets->facts()[id].name);
  return out;
}

std::vector<FactId> ids_of(const json& names, const policy::Targets& targets) {
  std::vector<FactId> out;
  for (const json& name : names)
    if (name.is_string())
      if (const auto id = targets->find_fact(name.get_ref<const std::string&>())) out.push_back(*id);
  return out;
}

// The facts of profiles are written whole, whatever the frame has.
void read_profiles(const json& profiles, policy::Facts& facts) {
  facts.forget_profiles();
  for (const auto& [profile, of_profile] : profiles.items())
    for (const auto& [name, value] : of_profile.items()) {
      const auto id = facts.targets()->find_fact(name);
      if (!id) continue;
      if (value.is_null()) {
        facts.set_of_profile(profile, *id, std::nullopt, {});
        continue;
      }
      if (!value.is_array() || value.size() != 2 || !value[1].is_string()) continue;
      auto typed = policy::fact_value(value[0], facts.targets()->facts()[*id].type);
      if (typed) facts.set_of_profile(profile, *id, std::move(*typed), value[1].get<std::string>());
    }
}

}  // namespace

std::string write_facts(const policy::Facts& facts, const policy::Facts& frame) {
  const auto catalogue = facts.targets()->facts();
  const Ages ages = ages_of(facts), before_ages = ages_of(frame);
  json out = json::object();
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    const auto id = static_cast<FactId>(i);
    const std::string_view name = catalogue[i].name;
    const Fact* const fact = facts.get(id);
    const Fact* const before = frame.get(id);
    if (!fact) {
      if (before) out["unknown"].push_back(name);
      continue;
    }
    if (!before || before->value != fact->value || before->source != fact->source ||
        before->from != fact->from) {
      out["facts"][fact->source][name] = policy::json_of(fact->value);
      if (!fact->from.empty()) out["from"][name] = names_of(fact->from, facts.targets());
    }
    if (fact->age != expected_age(fact->source, before, before_ages, ages.at(fact->source)))
      out["aged"][name] = fact->age.count();
  }
  for (const auto& [source, age] : ages)
    if (age.count() != 0) out["ages"][source] = age.count();
  for (const policy::Facts::OfProfile& one : facts.of_profiles())
    out["profiles"][one.profile][catalogue[one.id].name] =
        one.fact ? json::array({policy::json_of(one.fact->value), one.fact->source}) : json();
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool read_facts(std::string_view text, policy::Facts& frame) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return false;
  const policy::Facts before = frame;
  const Ages before_ages = ages_of(before);
  for (const FactId id : ids_of(part(document, "unknown"), frame.targets())) frame.forget(id);
  const json& from = part(document, "from");
  for (const auto& [source, values] : part(document, "facts").items())
    for (const auto& [name, value] : values.items()) {
      const auto id = frame.targets()->find_fact(name);
      if (!id) continue;
      auto typed = policy::fact_value(value, frame.targets()->facts()[*id].type);
      if (!typed) continue;
      if (const auto sources = from.find(name); sources != from.end())
        frame.set_derived(*id, std::move(*typed), ids_of(*sources, frame.targets()));
      else
        frame.set(*id, std::move(*typed), source);
    }
  read_profiles(part(document, "profiles"), frame);
  const auto catalogue = frame.targets()->facts();
  const json& ages = part(document, "ages");
  const json& aged = part(document, "aged");
  const auto milliseconds_of = [](const json& object, std::string_view key) -> std::optional<milliseconds> {
    const auto it = object.find(key);
    if (it == object.end() || !it->is_number_integer()) return std::nullopt;
    return milliseconds(it->get<std::int64_t>());
  };
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    const auto id = static_cast<FactId>(i);
    const Fact* const fact = frame.get(id);
    if (!fact) continue;
    const milliseconds first = milliseconds_of(ages, fact->source).value_or(milliseconds(0));
    frame.set_age(id, milliseconds_of(aged, catalogue[i].name)
                          .value_or(expected_age(fact->source, before.get(id), before_ages, first)));
  }
  return true;
}

}  // namespace flyball::route
