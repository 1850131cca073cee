#include "policy/target.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "policy/engines.hpp"
#include "policy/facts.hpp"

namespace flyball::policy {
namespace {

constexpr std::array<std::string_view, 2> kProfiles{"latency", "throughput"};

bool matches_target(std::string_view s) {
  return std::ranges::all_of(
      s, [](char c) { return c == '_' || c == ':' || std::isalnum(static_cast<unsigned char>(c)); });
}
const config::Form kTargetForm{
    "a target such as cpu or vulkan:latency",
    "^(cpu|vulkan|opencl|vllm|sglang|tensorrt_llm|dynamo)(:(latency|throughput))?$", &matches_target};

std::string unknown_target(const std::string& name, const EngineCatalogue* systems) {
  const EngineEntry* system = systems ? systems->find(name) : nullptr;
  const std::string target = "target \"" + name + "\"";
  if (system && !system->denied.empty())
    return target + ": there is no such target on purpose: " + system->denied;
  if (system && !system->here.empty())
    return target + ": a system of the engine catalogue; the target that stands for it is " +
           to_string(system->here.front());
  if (system) return target + ": a system of the engine catalogue, for advice only";
  return "unknown " + target + config::did_you_mean(name, {known_backends().begin(), known_backends().end()});
}

Target read_target(const config::Node& node, const EngineCatalogue* systems, config::Findings& findings) {
  const auto add = [&](std::string message) {
    findings.push_back(config::finding(node.at, std::move(message)));
  };
  const std::string_view text = node.text;
  const std::size_t colon = text.find(':');
  Target out{std::string(text.substr(0, colon)), {}, node.at.line, node.at.column};
  if (colon != std::string_view::npos) out.profile = text.substr(colon + 1);
  const auto known = known_backends();
  if (std::ranges::find(known, out.backend) == known.end()) add(unknown_target(out.backend, systems));
  const std::vector<std::string_view> profiles(kProfiles.begin(), kProfiles.end());
  if (colon != std::string_view::npos && std::ranges::find(profiles, out.profile) == profiles.end())
    add("unknown profile \"" + out.profile + "\", expected latency or throughput" +
        config::did_you_mean(out.profile, profiles));
  return out;
}

}  // namespace

std::string to_string(const Target& target) {
  return target.profile.empty() ? target.backend : target.backend + ":" + target.profile;
}

config::Shape target_text() {
  return config::text(1, 64, kTargetForm);
}

std::vector<Target> read_targets(const config::Node& node, const EngineCatalogue* systems,
                                 config::Findings& findings) {
  std::vector<Target> out;
  if (node.kind != config::Node::Kind::list) return {read_target(node, systems, findings)};
  for (const config::Node& item : node.items) out.push_back(read_target(item, systems, findings));
  return out;
}

}  // namespace flyball::policy
