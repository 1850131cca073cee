// Profiles of a policy file: what `engine:profile` asks of the engine for one request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/engine_settings.hpp"
#include "config/request_settings.hpp"
#include "config/table.hpp"

namespace flyball::policy {

struct Tree;
struct Target;

struct Profile {
  std::string id;       // as targets name it: "latency"
  std::string because;  // why, in a sentence
  config::RequestSettings settings;
  std::optional<config::EngineSettings> own_engine;  // absent: it shares the engine of its target's kind
  std::uint32_t line = 0, column = 0;
};
std::string to_text(const config::RequestSettings& settings);  // "step budget 20ms, place ahead"; "nothing"
std::string to_text(const config::EngineSettings& settings);   // "engine of its own: 1 thread, nice 10"
std::string to_text(const Profile& profile);  // both: "place behind; engine of its own: 1 thread, nice 10"

// One entry of `profiles:`. Precondition of read_profile(): check_shape found nothing wrong with the entry's
// value against profile_shape().
config::Shape profile_shape();
Profile read_profile(const config::Entry& entry, config::Findings& findings);
// Letters, digits, - and _, at most kMaxProfileBytes: an id that a target can carry behind its colon.
inline constexpr std::size_t kMaxProfileBytes = 48;

// Profiles that a target may name: those defined, then those that v1 knows and that set nothing unless
// they are defined.
std::vector<std::string_view> profile_names(std::span<const Profile> defined);

// The target's profile; nullptr: it has none, or the file does not define it. Points into the tree.
const Profile* profile_of(const Tree& tree, const Target& target);
// What the target's profile asks of the engine; nullptr: nothing. Points into the tree.
const config::RequestSettings* settings_of(const Tree& tree, const Target& target);

}  // namespace flyball::policy
