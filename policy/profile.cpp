#include "policy/profile.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "config/units.hpp"
#include "policy/tree.hpp"

namespace flyball::policy {
namespace {

using config::Bound;
using config::Node;
using std::chrono::milliseconds;

constexpr std::array<std::string_view, 2> kOfVersion1{"latency", "throughput"};
constexpr std::array<std::string_view, 3> kPlaces{"usual", "ahead", "behind"};  // in QueuePlace's order
constexpr std::array<std::string_view, 5> kOfOwnEngine{"threads", "nice", "lock_memory", "keep_loaded",
                                                       "yields"};
constexpr std::string_view kOwn = "own";

// The table is read row by row in the file's order, so that `engine: own` may stand behind its settings.
config::EngineSettings& own_engine(Profile& p) {
  return p.own_engine ? *p.own_engine : p.own_engine.emplace();
}

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
      {{"engine", config::choice({"shared", kOwn}),
        "own: targets of this profile mean a second engine of the model, with a process and memory of its "
        "own; shared (the default): the engine that targets without a profile mean"},
       [](Profile& p, const Node& n) {
         if (n.text == kOwn) own_engine(p);
       }},
      {{"threads", config::integer(1, config::kMaxThreads),
        "with engine: own: threads of its cpu engine; default: those of the model's entry"},
       [](Profile& p, const Node& n) { own_engine(p).threads = config::as<std::uint32_t>(n); }},
      {{"nice", config::integer(0, config::kMaxNice),
        "with engine: own: niceness of its process, never less than the daemon's; default 0"},
       [](Profile& p, const Node& n) { own_engine(p).nice = config::as<std::int32_t>(n); }},
      {{"lock_memory", config::boolean(),
        "with engine: own: its weights and KV are locked in memory; where the limit of locked memory is too "
        "low it runs without (default false)"},
       [](Profile& p, const Node& n) { own_engine(p).lock_memory = config::as_bool(n); }},
      {{"keep_loaded", config::boolean(),
        "with engine: own: once loaded it ends for no other engine's load and never for want of work "
        "(default false)"},
       [](Profile& p, const Node& n) { own_engine(p).keep_loaded = config::as_bool(n); }},
      {{"yields", config::boolean(),
        "with engine: own: it computes nothing while answers that people wait for are computed on its cores "
        "or "
        "cards (default false)"},
       [](Profile& p, const Node& n) { own_engine(p).yields = config::as_bool(n); }},
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

std::string to_text(const config::EngineSettings& settings) {
  std::string out = "engine of its own";
  auto add = [&, first = true](const std::string& one) mutable {
    out += (std::exchange(first, false) ? ": " : ", ") + one;
  };
  if (settings.threads)
    add(std::to_string(*settings.threads) + (*settings.threads == 1 ? " thread" : " threads"));
  if (settings.nice > 0) add("nice " + std::to_string(settings.nice));
  if (settings.lock_memory) add("memory locked");
  if (settings.keep_loaded) add("kept loaded");
  if (settings.yields) add("yields to people");
  return out;
}

std::string to_text(const Profile& profile) {
  const bool sets_nothing = profile.settings == config::RequestSettings{};
  if (!profile.own_engine) return to_text(profile.settings);
  return (sets_nothing ? "" : to_text(profile.settings) + "; ") + to_text(*profile.own_engine);
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
  if (const Node* engine = entry.value.find("engine"); engine == nullptr || engine->text != kOwn) {
    out.own_engine.reset();
    for (const config::Entry& row : entry.value.entries)
      if (std::ranges::find(kOfOwnEngine, row.key) != kOfOwnEngine.end())
        findings.push_back(config::finding(
            row.at, "profile \"" + out.id + "\": " + row.key +
                        " is a setting of an engine of its own, and this profile shares its target's: "
                        "add `engine: own`, or remove " +
                        row.key));
  }
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

const Profile* profile_of(const Tree& tree, const Target& target) {
  const auto at = std::ranges::find(tree.profiles, target.profile, &Profile::id);
  return at == tree.profiles.end() ? nullptr : &*at;
}

const config::RequestSettings* settings_of(const Tree& tree, const Target& target) {
  const Profile* const profile = profile_of(tree, target);
  return profile == nullptr || profile->settings == config::RequestSettings{} ? nullptr : &profile->settings;
}

}  // namespace flyball::policy
