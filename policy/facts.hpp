// The facts known at one moment: typed values with source and age, for the facts that a catalogue of targets
// has. They are three-valued: a fact that is absent is unknown.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/target_catalogue.hpp"

namespace flyball::policy {

struct Fact {
  FactValue value;
  std::string source;  // "probe", "manifest", "default", "request", "model file", "supervisor", ...
  std::chrono::milliseconds age{0};  // when the decision is taken
  std::vector<FactId> from = {};     // the facts it follows from, which a receipt shows beside it
};

class Facts {
 public:
  Facts() : Facts(default_targets()) {}
  explicit Facts(Targets targets);
  Facts(const Facts& other);
  Facts(Facts&& other) noexcept;
  // Keeps the storage of each fact: facts that are set again and again in one order allocate nothing.
  Facts& operator=(const Facts& other);
  Facts& operator=(Facts&& other) noexcept;
  ~Facts() = default;
  const Targets& targets() const noexcept { return targets_; }
  // Precondition: the catalogue has the fact and the value has its type.
  void set(std::string_view name, FactValue value, std::string_view source,
           std::chrono::milliseconds age = {});
  void set(FactId id, FactValue value, std::string_view source, std::chrono::milliseconds age = {});
  // A fact that follows from these known ones, and is as old as the oldest of them.
  void set_derived(FactId id, FactValue value, std::vector<FactId> from);
  // Every fact of this source was found out that long before the decision.
  void set_age(std::string_view source, std::chrono::milliseconds age);
  // Precondition: the fact is known.
  void set_age(FactId id, std::chrono::milliseconds age) { facts_[places_[id]].age = age; }
  void forget(FactId id);
  // Until the fact is forgotten or the facts are assigned; setting others does not move it.
  const Fact* get(FactId id) const noexcept {
    return places_[id] < kForgotten ? &facts_[places_[id]] : nullptr;
  }
  const Fact* get(std::string_view name) const noexcept;
  // False where it is unknown. Precondition: a boolean fact.
  bool is_true(FactId id) const noexcept {
    const Fact* const fact = get(id);
    return fact != nullptr && std::get<bool>(fact->value);
  }

  // A target's fact that differs with one profile. The target's own value holds with every other profile, and
  // to set or forget it ends those of profiles.
  struct OfProfile {
    std::string profile;
    FactId id = 0;
    std::optional<Fact> fact;  // nullopt: unknown with this profile
  };
  // Preconditions as set(). nullopt: unknown with this profile.
  void set_of_profile(std::string_view profile, FactId id, std::optional<FactValue> value,
                      std::string source);
  const Fact* get(FactId id, std::string_view profile) const noexcept;
  std::span<const OfProfile> of_profiles() const noexcept { return of_profiles_; }
  void forget_profiles() noexcept { of_profiles_.clear(); }

 private:
  void check_type(FactId id, const FactValue& value) const;

  using Place = std::uint16_t;
  static constexpr Place kForgotten = 0x8000;  // added to the place of a fact that is unknown again
  static constexpr Place kNone = 0xFFFF;

  Targets targets_;
  // Facts in the order in which they were set first: a request knows a fifth of the catalogue's, and every
  // request copies them. Room for all is reserved, so that none moves. Behind the first `used_` lie facts of
  // an earlier assignment, for their storage.
  std::vector<Fact> facts_;
  std::size_t used_ = 0;
  std::vector<Place> places_;           // in facts_, by id
  std::vector<OfProfile> of_profiles_;  // few; in the order in which they were set
};

// Bytes that an engine needs of the model at the least: its weights, and the KV of one sequence, as far as
// that is known. nullopt: nobody knows its weights.
std::optional<std::int64_t> least_model_bytes(const Facts& facts);
// The same facts by another catalogue, as far as that has them. What a kind's engine is here (available,
// why not, on which card), its engines of their own are, unless `facts` say otherwise.
Facts in_catalogue(const Facts& facts, const Targets& targets);
inline constexpr const char* kDerivedSource = "derived";  // of what follows from other facts
// Derives facts from others, where nobody set them: workload.interactive; model.fits_gpu and
// model.fits_memory, from these bytes and what is not promised of the machine's; backend.<id>.fits_now, from
// what is free of it, which must be room for the shared engine, too, where an engine is kept loaded and the
// shared one of its kind has not loaded the model; what fastest.hpp says of measured engines; and
// backend.<kind>.* of a kind whose upstreams have ids of their own, from its first available one.
void derive(Facts& facts);
// For a case of other facts: what was derived is unknown again, what somebody set stays.
void forget_derived(Facts& facts);

}  // namespace flyball::policy
