#include "daemon/measure/book.hpp"

#include <algorithm>
#include <cmath>

#include "policy/fastest.hpp"

namespace flyball::measure {
namespace {

std::uint32_t count_of(const policy::Facts& facts, std::string_view name, std::uint32_t otherwise) {
  const policy::Fact* fact = facts.get(name);
  if (fact == nullptr) return otherwise;
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(std::get<std::int64_t>(fact->value), 1, std::int64_t{UINT32_MAX}));
}

// No more digits than were measured.
double rounded(double value) {
  return value < 100 ? std::round(value * 100) / 100 : std::round(value * 10) / 10;
}

}  // namespace

Book::Book(std::span<const Measured> measured, std::span<const Engine> engines,
           std::span<const config::ModelEntry> models) {
  if (measured.empty()) return;
  for (const config::ModelEntry& model : models) {
    const std::string digest = model_digest(model);
    if (digest.empty()) continue;
    for (const Engine& engine : engines) {
      const Subject subject = subject_of(engine, digest, model);
      for (const Measured& m : measured)
        if (m.subject == subject) figures_[{model.id, engine.backend}].push_back(m.figure);
    }
  }
}

void Book::set_facts(const std::string& model, std::int64_t now, policy::Facts& facts) const {
  const std::uint32_t streams =
      std::max(count_of(facts, "workload.concurrency", 1), count_of(facts, "workload.batch_size", 1));
  const std::uint32_t prompt = count_of(facts, "workload.prompt_tokens", kPromptTokens);
  for (auto it = figures_.lower_bound({model, ""}); it != figures_.end() && it->first.first == model; ++it) {
    const std::string prefix = "backend." + it->first.second;
    const auto set = [&](const char* name, Kind kind, std::uint32_t at, auto convert) {
      const auto figure = figure_at(it->second, kind, at, now);
      if (figure)
        facts.set(prefix + name, convert(figure->value), policy::kMeasuredSource,
                  std::chrono::seconds(std::max<std::int64_t>(now - figure->measured_at, 0)));
    };
    const auto integer = [](double value) { return static_cast<std::int64_t>(std::llround(value)); };
    set(".decode_tps", Kind::decode_tps, streams, rounded);
    set(".prefill_tps", Kind::prefill_tps, prompt, rounded);
    set(".ttft", Kind::ttft_ms, prompt, integer);
    set(".load_time", Kind::load_ms, 0, integer);
    set(".watts", Kind::watts, 0, rounded);
  }
}

}  // namespace flyball::measure
