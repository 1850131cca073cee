// What the policy may know: typed values with source and age, three-valued (a fact that is absent is
// unknown). The catalogue is closed: a policy that names a fact outside it does not load.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
// Every fact a policy may name, sorted by name, `<id>` already spelled out for each of known_backends().
std::span<const FactInfo> fact_catalogue();
// Engine and upstream ids a rule may `use`: cpu, vulkan, opencl, vllm, sglang, tensorrt_llm, dynamo.
std::span<const std::string_view> known_backends();
bool is_remote(std::string_view backend);  // an upstream: requests leave this machine
using FactId = std::uint16_t;              // index into fact_catalogue()
std::optional<FactId> find_fact(std::string_view name);
// `backend.<id>.available` and `.reason` of one of known_backends(); aborts on another id.
struct AvailabilityFacts {
  FactId available, reason;
};
AvailabilityFacts availability_facts(std::string_view backend);

struct Fact {
  FactValue value;
  std::string source;  // "probe", "manifest", "default", "request", "model file", "supervisor", ...
  std::chrono::milliseconds age{0};  // when the decision is taken
  std::vector<FactId> from = {};     // the facts it follows from, which a receipt shows beside it
};

class Facts {
 public:
  Facts();
  // Precondition: the name is in the catalogue and the value has its type.
  void set(std::string_view name, FactValue value, std::string source, std::chrono::milliseconds age = {});
  void set(FactId id, FactValue value, std::string source, std::chrono::milliseconds age = {});
  // What follows from these known facts: as old as the oldest of them.
  void set_derived(FactId id, FactValue value, std::vector<FactId> from);
  // Every fact of this source was found out that long before the decision.
  void set_age(std::string_view source, std::chrono::milliseconds age);
  void set_age(FactId id, std::chrono::milliseconds age) { facts_[id].age = age; }
  void forget(FactId id);
  const Fact* get(FactId id) const noexcept { return known_[id] ? &facts_[id] : nullptr; }
  const Fact* get(std::string_view name) const noexcept;

 private:
  std::vector<Fact> facts_;
  std::vector<bool> known_;
};

// What follows from other facts, where nobody set it: model.fits_gpu and model.fits_memory, from the model's
// bytes and the machine's; backend.<id>.fits_now, from what is free of it; and what fastest.hpp says of
// measured engines.
void derive(Facts& facts);
// For a case of other facts: what was derived is unknown again, what somebody set stays.
void forget_derived(Facts& facts);

}  // namespace flyball::policy
