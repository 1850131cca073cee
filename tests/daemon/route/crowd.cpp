#include "tests/daemon/route/crowd.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace flyball::route {
namespace {

constexpr std::array kBackends{"cpu", "vulkan", "opencl"};
constexpr std::uint32_t kPrompt = 300, kAnswer = 40;  // tokens

}  // namespace

Crowd::Crowd(Size size) : size_(size) {
  for (std::uint32_t i = 0; i < size.apps; ++i) apps_.push_back("app-" + std::to_string(i));
  prompt_ = std::make_shared<const predict::PromptPrint>(
      predictor_.print_of(TextPrompt{std::string(4 * kPrompt, 'x')}, apps_.front()));
  for (std::size_t e = 0; e < kEngines; ++e) {
    const std::string prefix = std::string("backend.") + kBackends[e];
    machine_.set(prefix + ".available", true, "probe");
    machine_.set(prefix + ".loaded", true, "supervisor");
    states_[e] = {kBackends[e], true, 1, 100'000, 40'000};
  }
  machine_.set("app.slo.ttft", std::int64_t{500}, "manifest");
  for (std::size_t m = 0; m < kModels; ++m) {
    Model& model = models_[m];
    model.id = "model-" + std::to_string(m);
    for (std::size_t e = 0; e < kEngines; ++e) {
      Engine& engine = model.engines[e];
      engine.backend = kBackends[e];
      engine.queue.set_slots(size.slots);
      for (std::uint32_t i = 0; i < 10 * size.apps; ++i) {  // alone, so that its times are known
        come(model, engine, i % size.apps);
        begin(engine, true);
        finish(engine, 0);
      }
      for (std::uint32_t i = 0; i < size.open; ++i) {
        come(model, engine, i % size.apps);
        begin(engine, i % 8 != 7);
      }
    }
  }
  for (std::uint32_t i = 0; i < 3 * size.other_models; ++i) {
    predict::Query asked = query(models_.front(), 0);
    const std::string model = "other-" + std::to_string(i % size.other_models);
    asked.model = model;
    predictor_.enter({asked, "cpu", machine_});
  }
  forget();
}

predict::Query Crowd::query(const Model& model, std::uint32_t app) const {
  predict::Query out;
  out.app = apps_[app];
  out.model = model.id;
  out.prompt = prompt_;
  out.slots = size_.slots;
  out.interactive = !size_.asks_delay_to_others || app % 2 == 0;
  out.asks_delay_to_others = size_.asks_delay_to_others;
  out.engines = states_;
  out.now = now();
  return out;
}

void Crowd::come(Model& model, Engine& engine, std::uint32_t app) {
  predict::Query asked = query(model, app);
  asked.request = ++requests_;
  engine.open.emplace_back(requests_, predictor_.enter({asked, engine.backend, machine_}));
  engine.queue.add(requests_, apps_[app], 1, kPrompt);
}

// Gives turns. Each request that gets one has its first token, if `decodes`.
void Crowd::begin(Engine& engine, bool decodes) {
  while (const auto turn = engine.queue.next()) {
    const auto one = std::ranges::find(engine.open, *turn, [](const auto& open) { return open.first; });
    one->second.began(now());
    ms_ += 20;
    if (decodes) one->second.received({"t", {1}, {}, kPrompt, 0}, now());
  }
  predictor_.learn();
}

void Crowd::finish(Engine& engine, std::size_t i) {
  ms_ += 200;
  auto& [request, place] = engine.open[i];
  place.finished({kPrompt, kAnswer + static_cast<std::uint32_t>(request % 64), 0}, {0, 0, 200'000}, now());
  engine.queue.remove(request);
  engine.open.erase(engine.open.begin() + static_cast<std::ptrdiff_t>(i));
  predictor_.learn();
}

void Crowd::pass() {
  for (Model& model : models_)
    for (Engine& engine : model.engines) {
      finish(engine, 0);
      come(model, engine, static_cast<std::uint32_t>(requests_ % size_.apps));
      begin(engine, true);
    }
}

void Crowd::forecast() {
  for (Model& model : models_)
    for (std::size_t e = 0; e < kEngines; ++e)
      model.lines[e] = {model.engines[e].backend,
                        model.engines[e].queue.forecast({.app = apps_.back(), .prompt_tokens = kPrompt})};
}

void Crowd::forget() {
  for (Model& model : models_) model.facts = machine_;
}

void Crowd::predict() {
  for (Model& model : models_) {
    predict::Query asked = query(model, size_.apps - 1);
    asked.lines = model.lines;
    predictor_.predict(asked, model.facts);
  }
}

std::uint32_t Crowd::waiting() const {
  std::size_t out = 0;
  for (const Model& model : models_)
    for (const Engine& engine : model.engines) out += engine.queue.waiting();
  return static_cast<std::uint32_t>(out);
}

void PrintTo(const Crowd::Size& size, std::ostream* out) {
  *out << size.open << " answers of " << size.apps << " apps at " << size.slots << " slots"
       << (size.asks_delay_to_others ? ", delay to others asked" : "");
}

}  // namespace flyball::route
