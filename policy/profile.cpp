#include "policy/profile.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "config/units.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

using config::Bound;
using config::Node;
using std::chrono::milliseconds;

constexpr std::array<std::string_view, 2> kOfVersion1{"latency", "throughput"};
constexpr std::array<std::string_view, 3> kPlaces{"usual", "ahead", "behind"};  // in QueuePlace's order

const std::vector<Bound<Profile>>& profile_table() {
  static const std::vector<Bound<Profile>> table = {
      {{"because", config::text(1, 500), "why, in a sentence", true},
       [](Profile& p, const Node& n) { p.because = n.text; }},
      {{"step_budget", config::duration(milliseconds(1), config::kMaxStepBudget),
        "longest step that may hold such a request"},
       [](Profile& p, const Node& n) { p.settings.step_budget = config::as_duration(n); }},
      {{"place", config::choice({"ahead", "usual", "behind"}),
        "where it waits at the engine: ahead of other requests, behind them, or in turn (usual, the "
        "default)"},
       [](Profile& p, const Node& n) {
         p.settings.place =
             static_cast<config::QueuePlace>(std::ranges::find(kPlaces, n.text) - kPlaces.begin());
       }},
  };
  return table;
}

bool fits_target(std::string_view id) {
  return id.size() <= kMaxProfileBytes && std::ranges::all_of(id, [](char c) {
           return c == '_' || c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0;
         });
}

}  // namespace

std::string to_text(const config::RequestSettings& settings) {
  std::string out;
  const auto add = [&](const std::string& one) { out += (out.empty() ? "" : ", ") + one; };
  if (settings.step_budget) add("step budget " + config::format_duration(*settings.step_budget));
  if (settings.place != config::QueuePlace::usual)
    add("place " + std::string(kPlaces[static_cast<std::size_t>(settings.place)]));
  return out.empty() ? "nothing" : out;
}

config::Shape profile_shape() {
  config::Shape shape = config::object_of(profile_table());
  shape.removed = {
      {"chunk", "use step_budget, which bounds what a step computes of a prompt by time"},
      {"slot_share", "use limits.in_flight in the app's manifest, which bounds the app's open requests"}};
  return shape;
}

Profile read_profile(const config::Entry& entry, config::Findings& findings) {
  Profile out;
  out.id = entry.key;
  out.line = entry.at.line;
  out.column = entry.at.column;
  config::read_into(out, entry.value, profile_table());
  if (!fits_target(out.id))
    findings.push_back(config::finding(
        entry.at, "profile \"" + out.id + "\": expected letters, digits, - and _, at most " +
                      std::to_string(kMaxProfileBytes) + ": a target names it as engine:profile"));
  return out;
}

std::vector<std::string_view> profile_names(std::span<const Profile> defined) {
  std::vector<std::string_view> out;
  for (const Profile& profile : defined) out.emplace_back(profile.id);
  for (const std::string_view name : kOfVersion1)
    if (std::ranges::find(out, name) == out.end()) out.push_back(name);
  return out;
}

const config::RequestSettings* settings_of(const Tree& tree, const Target& target) {
  const auto at = std::ranges::find(tree.profiles, target.profile, &Profile::id);
  return at == tree.profiles.end() || at->settings == config::RequestSettings{} ? nullptr : &at->settings;
}

}  // namespace flyball::policy
