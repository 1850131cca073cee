// A host that predictions are wrong about, in simulated time: predictor, decision and gate as the dispatcher
// puts them together. A hard SLO refuses for seconds, and not for as long as old figures are remembered.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/app_manifest.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/predict/predictor.hpp"
#include "daemon/route/slo.hpp"
#include "daemon/route/slo_gate.hpp"
#include "daemon/route/slo_outcome.hpp"
#include "tests/daemon/api/fakes.hpp"

namespace flyball::route {
namespace {

using std::chrono::milliseconds;

constexpr int kHalfAnHour = 1'800;
constexpr std::uint32_t kPrompt = 100, kTokens = 20;

TimePoint at(double seconds) {
  return TimePoint(std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds)));
}
std::chrono::microseconds micros(double seconds) {
  return std::chrono::microseconds(std::llround(seconds * 1e6));
}

struct Host {
  double ttft = 0.1, token = 0.01;  // seconds
};
constexpr Host kSlow{3, 0.2};

// An app with a hard SLO of 600 ms to the first token, whose requests do not slow each other.
class Recovery {
 public:
  Host host;
  const measure::Book* book = nullptr;
  int refused = 0, probes = 0;
  double refused_last = 0;

  Recovery() { slo_.ttft = milliseconds(600); }

  // One request that an app without a hard SLO sends, to its end.
  void answer() {
    serve(query(), facts(), std::nullopt);
    run_until(1e9);
  }
  // Requests of the app, evenly in time. `now` stands at the last one.
  void ask(int requests, double every) {
    for (int i = 0; i < requests; ++i) {
      run_until(now_ + every);
      ask();
    }
  }
  double now() const { return now_; }

 private:
  predict::Query query() {
    predict::Query out;
    out.app = "app";
    out.model = "model";
    out.prompt = std::make_shared<const predict::PromptPrint>(predict::PromptPrint{4 * kPrompt, 0, {}});
    out.slots = 4;
    out.engines = engines_;
    out.book = book;
    out.unix_seconds = 1'800'000'000;
    out.now = at(now_);
    out.request = ++requests_;
    out.hard_slo = true;
    return out;
  }
  policy::Facts facts() {
    policy::Facts out = testing::make_hardware();
    out.set("backend.cpu.loaded", true, "supervisor");
    out.set("app.slo.ttft", std::int64_t{slo_.ttft->count()}, "manifest");
    return out;
  }
  void ask() {
    const predict::Query asked = query();
    policy::Facts known = facts();
    predictor_.predict(asked, known);
    std::optional<SloGate::Pass> pass;
    if (const auto miss = slo_miss(policy::decide(*tree_, known), known)) {
      const auto answer = gate_.ask("app", "model", predictor_.idle_since("model", "cpu"),
                                    slo_ratio(*miss->nearest, known), at(now_));
      if (!answer) {
        ++refused;
        refused_last = now_;
        return;
      }
      pass = *answer;
      probes += pass->probe ? 1 : 0;
    }
    serve(asked, known, pass);
  }
  void serve(const predict::Query& asked, const policy::Facts& known, std::optional<SloGate::Pass> pass) {
    const auto place = std::make_shared<predict::Predictor::Place>(predictor_.enter({asked, "cpu", known}));
    place->began(at(now_));
    const double began = now_, first = began + host.ttft, end = first + host.token * (kTokens - 1);
    events_.emplace(first, [=, this] {
      place->received({"t", {1}, {}, kPrompt, 0}, at(first));
      if (pass)
        gate_.ended("app", "model", *pass,
                    *slo_held(slo_, {.ttft = micros(first - began), .total = micros(first - began)})
                        ? SloGate::Outcome::held
                        : SloGate::Outcome::missed,
                    at(first));
    });
    events_.emplace(end, [=] {
      place->finished({kPrompt, kTokens, 0}, {0, 0, static_cast<std::uint64_t>((end - first) * 1e6)},
                      at(end));
    });
  }
  void run_until(double then) {
    while (!events_.empty() && events_.begin()->first <= then) {
      now_ = events_.begin()->first;
      events_.extract(events_.begin()).mapped()();
    }
    if (then < 1e9) now_ = then;
  }

  predict::Predictor predictor_{KeyedHash(1, 2)};
  SloGate gate_;
  std::shared_ptr<const policy::Tree> tree_ = testing::tree_of("default: {because: b, use: cpu}\n");
  std::vector<predict::EngineState> engines_{{"cpu", true, 1}};
  config::Slo slo_;
  std::multimap<double, std::function<void()>> events_;
  double now_ = 1'000;
  std::uint64_t requests_ = 0;
};

// A request a second for half an hour after six slow answers. Up to 146 of 1,800 were refused before the
// gate.
TEST(SloRecovery, AHostThatRecoversServesAllWithinSeconds) {
  for (const int good : {0, 6, 50, 200}) {
    SCOPED_TRACE(good);
    Recovery app;
    for (int i = 0; i < good; ++i) app.answer();
    app.host = kSlow;
    for (int i = 0; i < 6; ++i) app.answer();
    app.host = {};
    const double recovered = app.now();
    app.ask(kHalfAnHour, 1);
    EXPECT_GT(app.refused, 0) << "the slow answers count";
    EXPECT_LE(app.refused, 8);
    EXPECT_LE(app.refused_last - recovered, 10);
  }
}

TEST(SloRecovery, SoItDoesForRequestsThatComeQuickly) {
  Recovery app;
  app.host = kSlow;
  for (int i = 0; i < 6; ++i) app.answer();
  app.host = {};
  const double recovered = app.now();
  app.ask(kHalfAnHour, 0.25);
  EXPECT_GT(app.refused, 0);
  EXPECT_LE(app.refused_last - recovered, 6);
}

// Figures measured beside another load are such. All 1,800 requests were refused before the gate.
TEST(SloRecovery, FiguresThatAreTooPessimisticHoldForSeconds) {
  config::ModelEntry model;
  model.id = "model";
  model.embedded = true;
  const measure::Engine cpu{"cpu", "a processor", "1"};
  const auto subject = measure::subject_of(cpu, measure::model_digest(model), model);
  std::vector<measure::Measured> measured;
  using measure::Kind;
  for (const measure::Figure& figure :
       std::vector<measure::Figure>{{Kind::ttft_ms, 32, 1'000, 1'800'000'000},
                                    {Kind::ttft_ms, 512, 9'000, 1'800'000'000},
                                    {Kind::decode_tps, 1, 5, 1'800'000'000},
                                    {Kind::decode_tps, 8, 20, 1'800'000'000}})
    measured.push_back({subject, figure});
  const measure::Book book(measured, {&cpu, 1}, {&model, 1});
  Recovery app;
  app.book = &book;
  const double began = app.now();
  app.ask(kHalfAnHour, 1);
  EXPECT_GT(app.refused, 0) << "the figures count";
  EXPECT_LE(app.refused, 8);
  EXPECT_LE(app.refused_last - began, 10);
}

TEST(SloRecovery, AHostThatStaysSlowIsProbedOnceAMinute) {
  Recovery app;
  app.host = kSlow;
  for (int i = 0; i < 6; ++i) app.answer();
  app.ask(kHalfAnHour, 1);
  EXPECT_GE(app.probes, kHalfAnHour / 70);
  EXPECT_LE(app.probes, kHalfAnHour / 60 + 5);
  EXPECT_EQ(app.refused + app.probes, kHalfAnHour);
}

}  // namespace
}  // namespace flyball::route
