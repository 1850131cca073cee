// `engine` and `engine:profile`, as policies and the engine catalogue write them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/table.hpp"
#include "policy/profile.hpp"
#include "policy/target_catalogue.hpp"

namespace flyball::policy {

struct EngineCatalogue;

struct Target {
  std::string backend;  // id of an instance: "vulkan"; "cpu:night", where its profile has an own engine
  std::string profile;  // "latency", another one that the policy defines, "" for none
  std::uint32_t line = 0, column = 0;
  // The same engine and profile, wherever it is written.
  bool same_as(const Target& other) const { return backend == other.backend && profile == other.profile; }
};
std::string to_string(const Target& target);  // "vulkan:latency"

// How the text of one target looks, for shapes, which it outlives. Whether target and profile are known is
// for read_targets() to say; the JSON Schema lists the names that the catalogue has.
class TargetForm {
 public:
  explicit TargetForm(const TargetCatalogue& targets);
  TargetForm(const TargetForm&) = delete;
  TargetForm& operator=(const TargetForm&) = delete;
  config::Shape shape() const { return config::text(1, kMaxBytes, form_); }

 private:
  static constexpr std::int64_t kMaxBytes = TargetCatalogue::kMaxIdBytes + 1 + kMaxProfileBytes;

  std::string pattern_;
  config::Form form_;
};

// One target or a list of them; a kind's name stands for all its instances, in config.yaml's order, that the
// list does not have yet. Precondition: check_shape found nothing wrong with the node against
// TargetForm::shape(). A target that nobody knows is a finding, and comes back all the same; where it is a
// system of the catalogue, the finding says what stands for it, or why nothing does. `profiles`: those that
// may be named.
std::vector<Target> read_targets(const config::Node& node, const TargetCatalogue& targets,
                                 std::span<const std::string_view> profiles, const EngineCatalogue* systems,
                                 config::Findings& findings);
// One target as it is written, a kind's name included, with the same findings.
Target read_target(const config::Node& node, const TargetCatalogue& targets,
                   std::span<const std::string_view> profiles, const EngineCatalogue* systems,
                   config::Findings& findings);

}  // namespace flyball::policy
