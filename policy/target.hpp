// `engine` and `engine:profile`, as policies and the engine catalogue write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/table.hpp"

namespace flyball::policy {

struct EngineCatalogue;

struct Target {
  std::string backend;  // one of known_backends()
  std::string profile;  // "latency", "throughput", "" for its default
  std::uint32_t line = 0, column = 0;
  // The same engine and profile, wherever it is written.
  bool same_as(const Target& other) const { return backend == other.backend && profile == other.profile; }
};
std::string to_string(const Target& target);  // "vulkan:latency", "cpu"

// The text of one target, for shapes.
config::Shape target_text();
// One target or a list of them. Precondition: check_shape found nothing wrong with the node against
// target_text(). A target that nobody knows is a finding, and comes back all the same; where it is a system
// of the catalogue, the finding says what stands for it, or why nothing does.
std::vector<Target> read_targets(const config::Node& node, const EngineCatalogue* systems,
                                 config::Findings& findings);

}  // namespace flyball::policy
