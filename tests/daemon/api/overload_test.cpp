// More requests than the engine can answer: those it can are answered as if there were no others, the rest
// are told at once. The engine's time is the test's own: a step gives a token to each of the 8 sequences that
// came first.
#include "tests/daemon/api/inference.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace flyball::testing {
namespace {

constexpr std::uint32_t kTokens = 4, kSequences = 8;
constexpr double kCapacity = double{kSequences} / (kTokens + 1);  // requests a step; the last step is the end
constexpr std::size_t kSteps = 400, kQueue = 32;

struct Figures {
  std::size_t sent = 0, answered = 0, refused = 0, open = 0;
  double refusal_p99_ms = 0;  // of the processor's time: other programs on the machine have none of it
};

double cpu_ms() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

// A client for each request, `load` times as many as the engine can answer, evenly spread.
Figures run(double load) {
  auto settings = make_settings();
  settings->config.max_queue = kQueue;
  settings->apps[0].limits.in_flight = 100'000;
  Rig rig(settings);
  FakeBackend& engine = rig.cpu();
  engine.script = [](const CompletionRequest&) { return Script{.tokens = kTokens, .manual = true}; };
  Figures figures;
  std::vector<std::unique_ptr<Wire>> open;
  std::vector<double> refusal_ms;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const auto due = static_cast<std::size_t>(std::floor(static_cast<double>(step + 1) * kCapacity * load));
    for (; figures.sent < due; ++figures.sent) {
      auto client = std::make_unique<Wire>(rig);
      const double began_ms = cpu_ms();
      client->send(post(kChatPath, kHello));
      if (client->received().empty()) {
        open.push_back(std::move(client));
        continue;
      }
      refusal_ms.push_back(cpu_ms() - began_ms);
      const Answer answer = client->answer();
      EXPECT_EQ(answer.status, 503);
      EXPECT_EQ(nlohmann::json::parse(answer.body)["error"]["code"], "overloaded");
      EXPECT_EQ(answer.field("Retry-After"), "1");
      ++figures.refused;
    }
    engine.emit(1, kSequences);
    std::erase_if(open, [&](const auto& client) {
      client->run();
      if (client->received().empty()) return false;
      EXPECT_EQ(client->answer().status, 200);
      ++figures.answered;
      return true;
    });
    // All that may be here: the queue's, and those at work.
    EXPECT_LE(open.size(), kQueue + kSequences) << "step " << step;
  }
  figures.open = open.size();
  if (!refusal_ms.empty()) {
    std::ranges::sort(refusal_ms);
    figures.refusal_p99_ms = refusal_ms[refusal_ms.size() * 99 / 100];
  }
  return figures;
}

TEST(Overload, GoodputStaysAndRefusalsAreQuick) {
  const Figures once = run(1);
  EXPECT_EQ(once.refused, 0U);
  EXPECT_GE(static_cast<double>(once.answered), 0.95 * kCapacity * kSteps);
  for (const double load : {2.0, 10.0}) {
    const Figures over = run(load);
    std::printf(
        "%.0f times the load: %zu sent, %zu answered (%zu at once the load), %zu refused, p99 %.2f ms of a "
        "processor\n",
        load, over.sent, over.answered, once.answered, over.refused, over.refusal_p99_ms);
    EXPECT_GE(static_cast<double>(over.answered), 0.9 * static_cast<double>(once.answered)) << load;
    EXPECT_EQ(over.answered + over.refused + over.open, over.sent) << load;
    EXPECT_LE(over.refusal_p99_ms, 10) << load;
  }
}

}  // namespace
}  // namespace flyball::testing
