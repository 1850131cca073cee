// The set of facts known at one moment, and what follows from them.
#include "policy/facts.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "policy/cards.hpp"
#include "policy/fastest.hpp"
#include "policy/interactive.hpp"

namespace flyball::policy {
namespace {

[[noreturn]] void broken(std::string_view what, std::string_view name) {
  std::fprintf(stderr, "policy facts: %.*s: \"%.*s\"\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(name.size()), name.data());
  std::abort();
}

FactId weights_fact() {
  static const FactId id = *find_fact("model.bytes");
  return id;
}
FactId kv_fact() {
  static const FactId id = *find_fact("model.kv_bytes");
  return id;
}

// Bytes that must be free for an engine to take a model that needs `bytes` of them. An engine that is kept
// loaded ends for nobody's load, so it leaves room for the shared engine of its kind with the same model,
// unless that has it already.
std::int64_t room_for(const TargetInstance& instance, std::int64_t bytes, const Facts& facts) {
  if (!instance.settings.keep_loaded) return bytes;
  if (facts.is_true(facts.targets()->fact_of(instance.kind, TargetFact::loaded))) return bytes;
  std::int64_t both = 0;
  return __builtin_add_overflow(bytes, bytes, &both) ? std::numeric_limits<std::int64_t>::max() : both;
}

// Sets for each engine of this machine whether a model of so many bytes finds room there as things are.
void derive_room(Facts& facts, std::int64_t bytes) {
  std::vector<FactId> from;
  for (const FactId id : {weights_fact(), kv_fact()})
    if (facts.get(id) != nullptr) from.push_back(id);
  for (const TargetInstance& instance : facts.targets()->instances()) {
    if (instance.remote) continue;
    const auto id = [&](TargetFact fact) { return fact_of(instance, fact); };
    if (facts.get(id(TargetFact::fits_now)) != nullptr) continue;
    // Nothing finds room at an engine that is not there, or that died too often.
    if (const Fact* there = facts.get(id(TargetFact::available)); there && !std::get<bool>(there->value))
      continue;
    const Fact* memory = facts.get(id(TargetFact::memory_free));
    if (facts.is_true(id(TargetFact::loaded)))
      facts.set_derived(id(TargetFact::fits_now), true, {id(TargetFact::loaded)});
    else if (memory != nullptr && bytes > 0) {
      std::vector<FactId> all = from;
      all.push_back(id(TargetFact::memory_free));
      if (instance.settings.keep_loaded)
        if (const FactId shared = facts.targets()->fact_of(instance.kind, TargetFact::loaded);
            facts.get(shared) != nullptr)
          all.push_back(shared);
      facts.set_derived(id(TargetFact::fits_now),
                        room_for(instance, bytes, facts) <= std::get<std::int64_t>(memory->value),
                        std::move(all));
    }
  }
}

// A kind's facts are those of its first available upstream; where none is available, of the first one.
void derive_kinds(Facts& facts) {
  for (const std::string& kind : facts.targets()->derived_kinds()) {
    const auto upstreams = facts.targets()->meant_by(kind);
    const auto available = std::ranges::find_if(upstreams, [&](const TargetInstance* upstream) {
      return facts.is_true(fact_of(*upstream, TargetFact::available));
    });
    const TargetInstance* const first = available != upstreams.end() ? *available : upstreams.front();
    for (std::size_t i = 0; i < kTargetFacts; ++i) {
      const auto which = static_cast<TargetFact>(i);
      const FactId source = fact_of(*first, which), fact = facts.targets()->fact_of(kind, which);
      if (const Fact* known = facts.get(source); known != nullptr && facts.get(fact) == nullptr)
        facts.set_derived(fact, known->value, {source});
    }
  }
}

}  // namespace

Facts::Facts(Targets targets) : targets_(std::move(targets)), places_(targets_->facts().size(), kNone) {
  if (places_.size() >= kForgotten) broken("too many", std::to_string(places_.size()));
}

Facts::Facts(const Facts& other)
    : targets_(other.targets_), used_(other.used_), places_(other.places_), of_profiles_(other.of_profiles_) {
  facts_.reserve(places_.size());
  facts_.assign(other.facts_.begin(), other.facts_.begin() + static_cast<std::ptrdiff_t>(used_));
}

Facts::Facts(Facts&& other) noexcept
    : targets_(std::move(other.targets_)),
      facts_(std::move(other.facts_)),
      used_(std::exchange(other.used_, 0)),
      places_(std::move(other.places_)),
      of_profiles_(std::move(other.of_profiles_)) {}

Facts& Facts::operator=(Facts&& other) noexcept {
  targets_ = std::move(other.targets_);
  facts_ = std::move(other.facts_);
  used_ = std::exchange(other.used_, 0);
  places_ = std::move(other.places_);
  of_profiles_ = std::move(other.of_profiles_);
  return *this;
}

Facts& Facts::operator=(const Facts& other) {
  if (this == &other) return *this;
  targets_ = other.targets_;
  places_ = other.places_;
  of_profiles_ = other.of_profiles_;
  used_ = other.used_;
  facts_.reserve(places_.size());
  const std::size_t kept = std::min(used_, facts_.size());
  std::copy_n(other.facts_.begin(), kept, facts_.begin());
  for (std::size_t i = kept; i < used_; ++i) facts_.push_back(other.facts_[i]);
  return *this;
}

void Facts::set(std::string_view name, FactValue value, std::string_view source,
                std::chrono::milliseconds age) {
  const auto id = targets_->find_fact(name);
  if (!id) broken("not in the catalogue", name);
  set(*id, std::move(value), source, age);
}

void Facts::forget(FactId id) {
  std::erase_if(of_profiles_, [&](const OfProfile& one) { return one.id == id; });
  if (get(id) == nullptr) return;
  facts_[places_[id]] = {};
  places_[id] |= kForgotten;
}

void Facts::set_age(std::string_view source, std::chrono::milliseconds age) {
  for (std::size_t i = 0; i < used_; ++i)
    if (facts_[i].source == source) facts_[i].age = age;  // what was forgotten has no source
}

void Facts::set(FactId id, FactValue value, std::string_view source, std::chrono::milliseconds age) {
  check_type(id, value);
  Place& place = places_[id];
  if (place == kNone) {
    facts_.reserve(places_.size());
    place = static_cast<Place>(used_++);
    if (facts_.size() < used_) facts_.emplace_back();
  }
  place &= static_cast<Place>(~kForgotten);
  Fact& fact = facts_[place];
  fact.value = std::move(value);
  fact.source.assign(source);
  fact.age = age;
  fact.from.clear();
  std::erase_if(of_profiles_, [&](const OfProfile& one) { return one.id == id; });
}

void Facts::check_type(FactId id, const FactValue& value) const {
  if (id >= places_.size()) broken("no such id", std::to_string(id));
  if (value.index() != static_cast<std::size_t>(targets_->facts()[id].type))
    broken("a value of another type", targets_->facts()[id].name);
}

void Facts::set_of_profile(std::string_view profile, FactId id, std::optional<FactValue> value,
                           std::string source) {
  if (value) check_type(id, *value);
  std::erase_if(of_profiles_, [&](const OfProfile& one) { return one.id == id && one.profile == profile; });
  of_profiles_.push_back({std::string(profile), id, std::nullopt});
  if (value) of_profiles_.back().fact = Fact{std::move(*value), std::move(source)};
}

const Fact* Facts::get(FactId id, std::string_view profile) const noexcept {
  for (const OfProfile& one : of_profiles_)
    if (one.id == id && one.profile == profile) return one.fact ? &*one.fact : nullptr;
  return get(id);
}

void Facts::set_derived(FactId id, FactValue value, std::vector<FactId> from) {
  std::chrono::milliseconds age{0};
  for (const FactId source : from)
    if (const Fact* fact = get(source)) age = std::max(age, fact->age);
  set(id, std::move(value), kDerivedSource, age);
  facts_[places_[id]].from = std::move(from);
}

const Fact* Facts::get(std::string_view name) const noexcept {
  const auto id = targets_->find_fact(name);
  return id ? get(*id) : nullptr;
}

Facts in_catalogue(const Facts& facts, const Targets& targets) {
  Facts out(targets);
  const auto known = facts.targets()->facts();
  const auto there = [&](FactId id) { return targets->find_fact(known[id].name); };
  for (std::size_t i = 0; i < known.size(); ++i) {
    const auto id = static_cast<FactId>(i);
    const Fact* const fact = facts.get(id);
    const auto to = fact == nullptr ? std::nullopt : there(id);
    if (!to) continue;
    if (fact->from.empty()) {
      out.set(*to, fact->value, fact->source, fact->age);
      continue;
    }
    std::vector<FactId> from;
    for (const FactId source : fact->from)
      if (const auto at = there(source)) from.push_back(*at);
    out.set_derived(*to, fact->value, std::move(from));
    out.set_age(*to, fact->age);
  }
  for (const Facts::OfProfile& one : facts.of_profiles())
    if (const auto to = there(one.id))
      out.set_of_profile(one.profile, *to, one.fact ? std::optional(one.fact->value) : std::nullopt,
                         one.fact ? one.fact->source : std::string());
  for (const TargetInstance& instance : targets->instances()) {
    if (!instance.is_own_engine()) continue;
    const TargetInstance& kind = *targets->find(instance.kind);
    for (const TargetFact which : {TargetFact::available, TargetFact::reason, TargetFact::shares_card}) {
      const Fact* const fact = out.get(fact_of(kind, which));
      const FactId to = fact_of(instance, which);
      if (fact != nullptr && out.get(to) == nullptr) out.set(to, fact->value, fact->source, fact->age);
    }
  }
  return out;
}

std::optional<std::int64_t> least_model_bytes(const Facts& facts) {
  const Fact* const weights = facts.get(weights_fact());
  if (weights == nullptr) return std::nullopt;
  const Fact* const kv = facts.get(kv_fact());
  std::int64_t sum = std::get<std::int64_t>(weights->value);
  if (kv != nullptr && __builtin_add_overflow(sum, std::get<std::int64_t>(kv->value), &sum))
    sum = std::numeric_limits<std::int64_t>::max();  // a file or an option may say anything
  return sum;
}

void derive(Facts& facts) {
  derive_fastest(facts);
  derive_interactive(facts);
  derive_shared_cards(facts);
  const auto integer_of = [&](std::string_view name) -> std::int64_t {
    const Fact* fact = facts.get(name);
    return fact ? std::get<std::int64_t>(fact->value) : 0;
  };
  const std::int64_t bytes = least_model_bytes(facts).value_or(0);
  derive_room(facts, bytes);
  derive_kinds(facts);
  if (bytes <= 0) return;
  const bool opened = facts.get("hardware.gpu.memory_used") != nullptr;
  const std::int64_t gpus = integer_of(opened ? "hardware.gpu.memory_used" : "hardware.gpu.memory_total");
  const std::int64_t memory = integer_of("hardware.memory.total");
  const std::int64_t gpu_room = gpus - integer_of("hardware.gpu.memory_promised");
  const std::int64_t room = memory - integer_of("hardware.memory.promised");
  if (gpus > 0 && !facts.get("model.fits_gpu"))
    facts.set("model.fits_gpu", bytes <= gpu_room, kDerivedSource);
  if (memory > 0 && !facts.get("model.fits_memory"))
    facts.set("model.fits_memory", bytes <= std::max(room, gpu_room), kDerivedSource);
}

void forget_derived(Facts& facts) {
  for (FactId id = 0; id < facts.targets()->facts().size(); ++id)
    if (const Fact* fact = facts.get(id); fact != nullptr && fact->source == kDerivedSource) facts.forget(id);
}

}  // namespace flyball::policy
