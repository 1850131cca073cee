#include "policy/fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace flyball::policy {
namespace {

constexpr std::int64_t kUsualContext = 8192;
constexpr double kGib = 1024.0 * 1024 * 1024;

// Layers, and KV heads times their size: TinyLlama, Llama 3.2 3B, Llama 3.1 8B, Qwen2.5 14B, Qwen3 32B,
// Llama 3.1 70B, Mistral Large 2, Llama 3.1 405B.
struct DenseShape {
  double parameters;
  std::int64_t layers, kv_width;
};
constexpr std::array kDenseShapes{DenseShape{1.5e9, 22, 256},  DenseShape{4e9, 28, 1024},
                                  DenseShape{9e9, 32, 1024},   DenseShape{16e9, 48, 1024},
                                  DenseShape{40e9, 64, 1024},  DenseShape{80e9, 80, 1024},
                                  DenseShape{150e9, 88, 1024}, DenseShape{1e30, 126, 1024}};

std::int64_t integer_fact(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  return fact ? std::get<std::int64_t>(fact->value) : 0;
}

std::string gib_of(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", bytes / kGib);
  return text;
}

}  // namespace

std::string_view to_string(Fits fits) noexcept {
  constexpr std::array<std::string_view, 4> kNames{"unknown", "no", "partly", "yes"};
  return kNames[static_cast<std::size_t>(fits)];
}

ModelNeed model_need(std::int64_t parameters, double bits, std::int64_t context) noexcept {
  constexpr std::int64_t kKeysAndValues = 2, kBytesOfF16 = 2;
  const auto* shape = std::ranges::find_if(
      kDenseShapes, [&](const DenseShape& one) { return static_cast<double>(parameters) <= one.parameters; });
  return {std::llround(static_cast<double>(parameters) * bits / 8),
          kKeysAndValues * kBytesOfF16 * shape->layers * shape->kv_width * context};
}

namespace {

Fit fit_in(const Reading& reading, const Facts& facts) {
  if (reading.models.empty()) return {};
  constexpr std::int64_t kMostContext = 1 << 24;
  const std::int64_t asked = integer_fact(facts, "model.context");
  const std::int64_t context = asked > 0 ? std::min(asked, kMostContext) : kUsualContext;
  double all = 0, largest = 0, weights = 0, kv = 0;
  std::int64_t count = 0;
  for (const Reading::Model& model : reading.models) {
    const ModelNeed need = model_need(model.parameters, model.bits, context);
    const auto n = static_cast<double>(model.count);
    weights += n * static_cast<double>(need.weights);
    kv += n * static_cast<double>(need.kv);
    all += n * static_cast<double>(need.total());
    largest = std::max(largest, static_cast<double>(need.total()));
    count += model.count;
  }
  std::string needs;
  for (const Reading::Model& model : reading.models) needs += (needs.empty() ? "" : " and ") + model.words;
  char bits[16];
  std::snprintf(bits, sizeof bits, "%.4g", reading.models.front().bits);
  needs += (count > 1 ? " need " : " needs ") + gib_of(all) + (count > 1 ? " together" : "") + ", " +
           gib_of(weights) + " of weights at " + bits + " bits and " + gib_of(kv) + " of KV at " +
           std::to_string(context / 1024) + "K tokens";
  const bool cards = integer_fact(facts, "hardware.gpu.discrete_count") > 0;
  const auto machine = static_cast<double>(integer_fact(facts, "hardware.memory.total"));
  const auto nodes =
      static_cast<double>(std::max<std::int64_t>(integer_fact(facts, "hardware.cluster.nodes"), 1));
  const double one = cards ? static_cast<double>(integer_fact(facts, "hardware.gpu.memory_total")) : machine;
  const double room = one * nodes;
  std::string where = cards ? " of the GPUs" : nodes > 1 ? " of the machines" : " of the machine";
  if (cards && nodes > 1)
    where = " of the " + std::to_string(integer_fact(facts, "hardware.gpu.discrete_count")) +
            " GPUs in each of " + std::to_string(std::llround(nodes)) + " machines";
  constexpr double kWorking = 0.5 * kGib;  // of a step
  if (room <= 0) return {Fits::unknown, needs + "; the memory" + where + " is not known."};
  const std::string in = gib_of(room) + where;
  const bool one_machine = nodes <= 1 || all <= one + (cards ? machine : 0);
  if (all + kWorking <= room) return {Fits::yes, needs + ", which fits into " + in + ".", false, one_machine};
  if (all <= room)
    return {Fits::partly, needs + ", which leaves less than half a GiB of " + in + " to compute with.", false,
            one_machine};
  const std::string short_by = " does not fit into " + in + ": " + gib_of(all - room) + " are missing";
  if (count > 1 && largest <= room)
    return {Fits::partly, needs + "; each alone fits into " + in + ", all together they do not."};
  const double beside = machine * nodes;
  if (cards && machine > 0 && all <= room + beside)
    return {Fits::partly,
            needs + ", which" + short_by + "; with the " + gib_of(beside) +
                (nodes > 1 ? " of the machines" : " of the machine") + " it fits.",
            false, one_machine};
  return {Fits::no, needs + ", which" + short_by + "."};
}

}  // namespace

Fit fit_of(const Reading& reading, const Facts& facts) {
  Fit fit = fit_in(reading, facts);
  fit.knows_machine = integer_fact(facts, "hardware.gpu.discrete_count") == 0 ||
                      integer_fact(facts, "hardware.memory.total") > 0;
  return fit;
}

}  // namespace flyball::policy
