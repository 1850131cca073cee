#include "tests/daemon/predict/simulated_engine.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "config/engine_kinds.hpp"

namespace flyball::predict {
namespace {

constexpr std::uint32_t kChunk = 64;
constexpr std::uint64_t kBytesPerToken = 5;

}  // namespace

TimePoint at(double seconds) {
  return TimePoint(std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds)));
}

policy::Facts machine() {
  policy::Facts facts;
  for (const char* backend : {"cpu", "vulkan"}) {
    facts.set(std::string("backend.") + backend + ".available", true, "probe");
    facts.set(std::string("backend.") + backend + ".loaded", true, "supervisor");
  }
  return facts;
}

Query SimulatedEngine::query_of(const Simulated& request, std::uint64_t number) const {
  static const EngineState kEngine{"cpu", true, 1};
  PromptPrint print;
  print.bytes = request.prompt * kBytesPerToken + 20;
  Query query;
  query.app = request.app;
  query.model = "m";
  query.prompt = std::make_shared<const PromptPrint>(print);
  query.answers = request.answers;
  query.further_tokens = (request.prompts - 1.0) * request.prompt;
  query.slots = slots_;
  query.engines = {&kEngine, 1};
  query.now = at(request.at);
  query.request = number;
  query.interactive = request.interactive;
  query.asks_delay_to_others = true;
  return query;
}

void SimulatedEngine::arrive(Simulated& request) {
  Query query = query_of(request, numbers_ + 1);
  LineState state{"cpu", line == nullptr ? TurnForecast{} : line->forecast(request)};
  if (line != nullptr) query.lines = {&state, 1};
  const policy::Facts facts = machine();
  if (const auto predicted = predictor_.expect(query, "cpu", true)) {
    request.predicted = *predicted;
    request.known = true;
  }
  request.queued = !open_.empty() || !waiting_.empty();
  for (std::uint32_t i = 0; i < request.answers; ++i) {
    const bool follows = i % (request.answers / request.prompts) != 0;
    if (i > 0 && !follows) query.prompt = std::make_shared<const PromptPrint>(*query.prompt);
    waiting_.push_back({&request, ++numbers_, predictor_.enter({query, "cpu", facts, i == 0}),
                        follows ? 0 : request.prompt});
    waiting_.back().follows = follows;
    if (line != nullptr) line->come(numbers_, request);
  }
}

void SimulatedEngine::ask_about_waiting() {
  for (const Open& one : waiting_) {
    Query query = query_of(*one.request, one.number);
    query.now = at(now_);
    LineState state{"cpu", line == nullptr ? TurnForecast{} : line->forecast(one.number)};
    if (line != nullptr) query.lines = {&state, 1};
    one.request->predicted = predictor_.expect(query, "cpu", true).value();
  }
}

// Gives slots to the requests whose turn it is.
void SimulatedEngine::begin() {
  const auto take = [&](std::deque<Open>::iterator one) {
    one->place.began(at(now_));
    one->request->began = now_;
    open_.push_back(std::move(*one));
    waiting_.erase(one);
  };
  if (line == nullptr)
    while (!waiting_.empty() && open_.size() < slots_) take(waiting_.begin());
  else
    while (const auto number = line->next()) take(std::ranges::find(waiting_, *number, &Open::number));
}

void SimulatedEngine::step() {
  begin();
  std::uint32_t streams = 0;
  Open* shortest = nullptr;
  for (Open& open : open_)
    if (open.prompt_left == 0)
      streams += open.follows ? 0 : 1;
    else if (shortest == nullptr || open.prompt_left < shortest->prompt_left)
      shortest = &open;
  const std::uint32_t chunk = shortest == nullptr ? 0 : std::min(kChunk, shortest->prompt_left);
  const double noise = std::exp(std::normal_distribution<double>(0, costs.noise)(draw_));
  now_ += (costs.step + costs.stream * streams + costs.token * chunk) * noise;
  std::vector<Open> rest;
  for (Open& open : open_) {
    if (open.follows) {
      if (open.request->ttft > 0) {
        open.follows = false;
        open.first = now_ + costs.overhead;
        open.place.received({"t", {1}, {}, open.request->prompt, open.request->prompt - 1}, at(open.first));
      }
      rest.push_back(std::move(open));
      continue;
    }
    if (open.prompt_left > 0) {
      if (&open != shortest || (open.prompt_left -= chunk) > 0) {
        rest.push_back(std::move(open));
        continue;
      }
      open.first = now_ + costs.overhead;
      if (open.request->ttft == 0) open.request->ttft = open.first - open.request->at;
      open.place.received({"t", {1}, {}, open.request->prompt, 0}, at(open.first));
    } else {
      open.place.received({"t", {1}, {}, 0, 0}, at(now_));
    }
    if (line != nullptr) line->token(open.number);
    if (++open.generated < open.request->output) {
      rest.push_back(std::move(open));
      continue;
    }
    const double decode = std::max(now_ - open.first, 0.0);
    open.request->tpot = decode / std::max(open.request->output - 1, 1U);
    open.request->total = now_ - open.request->at;
    open.place.finished({open.request->prompt, open.request->output, 0},
                        {0, 0, static_cast<std::uint64_t>(decode * 1e6)}, at(now_));
    if (line != nullptr) line->leave(open.number);
  }
  open_ = std::move(rest);
  predictor_.learn();
}

void SimulatedEngine::run(std::vector<Simulated>& requests) {
  auto next = requests.begin();
  while (next != requests.end() || !open_.empty() || !waiting_.empty()) {
    if (open_.empty() && waiting_.empty()) now_ = std::max(now_, next->at);
    const bool all_here = next == requests.end();
    for (; next != requests.end() && next->at <= now_; ++next) arrive(*next);
    if (asks_again && !all_here && next == requests.end()) {
      begin();
      ask_about_waiting();
    }
    step();
  }
}

}  // namespace flyball::predict
