#include "policy/target.hpp"

#include <algorithm>
#include <cctype>

#include "policy/engines.hpp"

namespace flyball::policy {
namespace {

bool matches_target(std::string_view s) {
  return std::ranges::all_of(s, [](char c) {
    return c == '_' || c == '-' || c == ':' || std::isalnum(static_cast<unsigned char>(c));
  });
}

std::string joined_by_bars(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) out += (out.empty() ? "" : "|") + std::string(name);
  return out;
}

std::string one_of(std::span<const std::string_view> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + std::string(names[i]);
  return out;
}

std::string unknown_target(const std::string& name, const TargetCatalogue& targets,
                           const EngineCatalogue* systems) {
  const EngineEntry* system = systems ? systems->find(name) : nullptr;
  const std::string target = "target \"" + name + "\"";
  if (system && !system->denied.empty())
    return target + ": there is no such target on purpose: " + system->denied;
  if (system && !system->here.empty())
    return target + ": a system of the engine catalogue; the target that stands for it is " +
           to_string(system->here.front());
  if (system) return target + ": a system of the engine catalogue, for advice only";
  return "unknown " + target + config::did_you_mean(name, {targets.names().begin(), targets.names().end()});
}

}  // namespace

std::string to_string(const Target& target) {
  // An engine of its own has its profile in its id.
  const bool shared = target.backend.find(':') == std::string::npos;
  return target.profile.empty() || !shared ? target.backend : target.backend + ":" + target.profile;
}

TargetForm::TargetForm(const TargetCatalogue& targets)
    : pattern_("^(" + joined_by_bars(targets.names()) + ")(:[A-Za-z0-9_-]{1," +
               std::to_string(kMaxProfileBytes) + "})?$"),
      form_{"a target such as cpu or vulkan:latency", pattern_, &matches_target} {}

Target read_target(const config::Node& node, const TargetCatalogue& targets,
                   std::span<const std::string_view> profiles, const EngineCatalogue* systems,
                   config::Findings& findings) {
  const auto add = [&](std::string message) {
    findings.push_back(config::finding(node.at, std::move(message)));
  };
  const std::string_view text = node.text;
  const std::size_t colon = text.find(':');
  Target out{std::string(text.substr(0, colon)), {}, node.at.line, node.at.column};
  if (colon != std::string_view::npos) out.profile = text.substr(colon + 1);
  if (colon != std::string_view::npos && targets.find(text) != nullptr) {
    out.backend = text;  // an engine of its own
    return out;
  }
  if (!targets.knows(out.backend)) add(unknown_target(out.backend, targets, systems));
  if (colon != std::string_view::npos && std::ranges::find(profiles, out.profile) == profiles.end())
    add("unknown profile \"" + out.profile + "\", expected " + one_of(profiles) +
        config::did_you_mean(out.profile, {profiles.begin(), profiles.end()}));
  return out;
}

std::vector<Target> read_targets(const config::Node& node, const TargetCatalogue& targets,
                                 std::span<const std::string_view> profiles, const EngineCatalogue* systems,
                                 config::Findings& findings) {
  std::vector<Target> out;
  const auto add = [&](const config::Node& item) {
    Target written = read_target(item, targets, profiles, systems, findings);
    if (targets.find(written.backend) != nullptr || !targets.knows(written.backend))
      return out.push_back(std::move(written));
    for (const TargetInstance* instance : targets.meant_by(written.backend)) {
      Target one = written;
      one.backend = instance->id;
      if (std::ranges::none_of(out, [&](const Target& other) { return other.same_as(one); }))
        out.push_back(std::move(one));
    }
  };
  if (node.kind != config::Node::Kind::list)
    add(node);
  else
    for (const config::Node& item : node.items) add(item);
  return out;
}

}  // namespace flyball::policy
