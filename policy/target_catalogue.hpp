// The names that a policy may use: targets, and facts about them, the machine, the app and the request. A
// catalogue is made once from the configured upstreams, and from the engines of their own that a policy's
// profiles want, and never changed. The trees and facts that go by it
// share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/engine_settings.hpp"
#include "config/error.hpp"

namespace flyball::policy {

enum class FactType : std::uint8_t { boolean, integer, number, text, text_list };  // in FactValue's order
using FactValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;
std::string_view to_string(FactType type) noexcept;  // "integer"

struct FactInfo {
  std::string_view name;  // "hardware.memory.unified"; "backend.<id>.available" for each known backend
  FactType type;
  std::string_view unit;  // "bytes", "tokens", "ms", "GB/s", ""
  std::string_view meaning;
  std::string_view values;  // text that takes few values: "chat|agent|rag", "" if any
};
using FactId = std::uint16_t;  // index into TargetCatalogue::facts()

// The facts `backend.<id>.*` of one target, in the order of their names.
enum class TargetFact : std::uint8_t {
  available,
  cached_tokens,
  decode_tps,
  expected_delay_to_others,
  expected_total,
  expected_total_p90,
  expected_tpot,
  expected_tpot_p90,
  expected_ttft,
  expected_ttft_p90,
  fits_now,
  kv_room,
  kv_usage,
  load_time,
  loaded,
  meets_slo,
  memory_free,
  outpaced,
  prefill_tps,
  queue_waiting,
  reason,
  running,
  shares_card,
  trial_due,
  ttft,
  watts,
};
inline constexpr std::size_t kTargetFacts = 26;

// One engine of this machine, or one upstream.
struct TargetInstance {
  std::string id;           // of its facts; unique
  std::string kind;         // "vllm"; an engine of this machine has its kind's id
  bool remote = false;      // an upstream: requests leave this machine
  bool configured = false;  // an upstream that config.yaml names; false: its kind is known and has none
  FactId first_fact = 0;    // its facts in the order of TargetFact; the catalogue fills it in
  std::string profile = {};  // of an engine of its own, whose id is "kind:profile"; "": requests share it
  config::EngineSettings settings = {};  // of an engine of its own

  bool is_own_engine() const noexcept { return !profile.empty(); }
};
inline FactId fact_of(const TargetInstance& instance, TargetFact fact) {
  return static_cast<FactId>(instance.first_fact + static_cast<FactId>(fact));
}

class TargetCatalogue {
 public:
  static constexpr std::size_t kMaxIdBytes = 48;
  static constexpr std::size_t kMaxUpstreams = 256;

  // `upstreams` in config.yaml's order, by id and kind alone. Engine kinds and the v1 upstream kinds
  // (vllm, sglang, tensorrt_llm, dynamo) are known without being named. config_invalid, with the id as
  // Error::param: an id that is not one, is taken, or is the name of another kind; an upstream of an engine
  // kind.
  static Result<std::shared_ptr<const TargetCatalogue>> make(std::vector<TargetInstance> upstreams);

  // An engine kind of this machine and the profile that wants an engine of its own.
  struct OwnEngine {
    std::string kind, profile;
    config::EngineSettings settings = {};
    std::string id() const { return kind + ":" + profile; }
  };
  // `base` and these beside it; `base` itself without any. Precondition: each kind and profile once.
  static std::shared_ptr<const TargetCatalogue> with_own_engines(
      const std::shared_ptr<const TargetCatalogue>& base, std::span<const OwnEngine> engines);

  TargetCatalogue(const TargetCatalogue&) = delete;  // its facts' names lie in it
  TargetCatalogue& operator=(const TargetCatalogue&) = delete;

  // Engines of this machine, configured upstreams, the v1 kinds without an upstream, then engines of their
  // own.
  std::span<const TargetInstance> instances() const noexcept { return instances_; }
  const TargetInstance* find(std::string_view id) const noexcept;
  // False for an id that no instance has.
  bool is_remote(std::string_view id) const noexcept;
  // Names that a rule may `use` and that have facts: ids of instances, and kinds of upstreams.
  std::span<const std::string_view> names() const noexcept { return names_; }
  bool knows(std::string_view name) const noexcept;
  // The instances that a name means, in config.yaml's order: the one of that id, those of that kind, or every
  // remote one ("remote"). An engine of its own is meant by its id alone. Empty: nobody knows the name.
  std::vector<const TargetInstance*> meant_by(std::string_view name) const;
  // The same for a constraint: who denies a kind denies its engines of their own, too.
  std::vector<const TargetInstance*> denied_by(std::string_view name) const;

  // Facts that every catalogue has come first, with the same ids in each, sorted by name; behind them those
  // of the configured upstreams and of engines of their own, sorted by name.
  std::span<const FactInfo> facts() const noexcept { return facts_; }
  std::optional<FactId> find_fact(std::string_view name) const noexcept;
  // `backend.<name>.<fact>` of one of names(); aborts on another name.
  FactId fact_of(std::string_view name, TargetFact fact) const;
  // Kinds whose facts follow from those of their instances, because these have ids of their own.
  std::span<const std::string> derived_kinds() const noexcept { return derived_kinds_; }

  // Ids of facts mean the same in both.
  bool same_as(const TargetCatalogue& other) const noexcept { return this == &other || has_names_of(other); }

 private:
  explicit TargetCatalogue(std::vector<TargetInstance> instances);
  [[gnu::cold]] bool has_names_of(const TargetCatalogue& other) const noexcept;  // out of decide()'s way

  std::vector<TargetInstance> instances_;
  std::vector<std::string> derived_kinds_;
  std::vector<std::string_view> names_;  // of instances_ and derived_kinds_
  std::deque<std::string> texts_;        // names of the facts that only this catalogue has
  std::vector<FactInfo> facts_;
  struct FactsOf {
    std::string_view name;
    FactId first;
  };
  std::vector<FactsOf> facts_of_;  // in the order of names_
};
using Targets = std::shared_ptr<const TargetCatalogue>;

// The engines of their own among its instances.
config::OwnEngines own_engines_of(const TargetCatalogue& targets);

// The catalogue without any upstream: cpu, vulkan, opencl, vllm, sglang, tensorrt_llm, dynamo.
const Targets& default_targets();
// A fact that every catalogue has, by the id that it has in each.
std::optional<FactId> find_fact(std::string_view name);

// Stands for every remote target where targets are denied.
inline constexpr std::string_view kRemote = "remote";

}  // namespace flyball::policy
