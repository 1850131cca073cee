// Measures a decision before policy::decide(): the queues' forecasts and the predictor's times for six
// targets, into storage that is used again, while at every engine an answer ends between two decisions.
// predict_bench [--json] prints p50 and p99 in microseconds, and allocations; the target for the
// predictions, with 256 answers open, is a p50 of at most 20, and no allocation.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/daemon/route/crowd.hpp"
#include "tests/harness/allocations.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using flyball::route::Crowd;

struct Series {
  std::vector<double> us;
  double at(double q) {
    std::ranges::sort(us);
    return us[static_cast<std::size_t>(q * static_cast<double>(us.size() - 1))];
  }
};

struct Figures {
  Crowd::Size size;
  std::uint32_t waiting = 0;
  Series forecast, predict, decision;
  double allocations = 0;  // for each decision
};

Figures measure(const Crowd::Size& size) {
  constexpr int kWarmUp = 200, kSamples = 2'000;
  Figures out;
  out.size = size;
  Crowd crowd(size);
  for (Series* series : {&out.forecast, &out.predict, &out.decision}) series->us.reserve(kSamples);
  for (int i = -kWarmUp; i < kSamples; ++i) {
    crowd.pass();
    crowd.forget();
    const auto us = [](Clock::time_point from, Clock::time_point to) {
      return std::chrono::duration<double, std::micro>(to - from).count();
    };
    const std::size_t before = flyball::testing::allocations();
    const auto start = Clock::now();
    crowd.forecast();
    const auto between = Clock::now();
    crowd.predict();
    const auto end = Clock::now();
    if (i < 0) continue;
    out.allocations += static_cast<double>(flyball::testing::allocations() - before) / kSamples;
    out.forecast.us.push_back(us(start, between));
    out.predict.us.push_back(us(between, end));
    out.decision.us.push_back(us(start, end));
  }
  out.waiting = crowd.waiting();
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  // All answers decode; 32 of 256 decode and the others wait; all engines together have 256. The last rows
  // predict the delay to others, with half of the answers interactive; one has 50 models more.
  const Crowd::Size sizes[] = {
      {.apps = 4, .slots = 256},
      {.apps = 50, .slots = 256},
      {.apps = 4, .slots = 32},
      {.apps = 50, .slots = 32},
      {.apps = 4, .slots = 8, .open = 43},
      {.apps = 50, .slots = 8, .open = 43},
      {.apps = 4, .slots = 8, .open = 43, .asks_delay_to_others = true},
      {.apps = 50, .slots = 8, .open = 43, .asks_delay_to_others = true},
      {.apps = 4, .slots = 256, .asks_delay_to_others = true},
      {.apps = 4, .slots = 8, .open = 43, .asks_delay_to_others = true, .other_models = 50}};
  if (json) std::printf("{\"bench\":\"predict\",\"unit\":\"us\",\"targets\":6,\"target_p50\":20,\"rows\":[");
  for (const Crowd::Size& size : sizes) {
    Figures row = measure(size);
    if (json)
      std::printf(
          "%s{\"apps\":%u,\"slots\":%u,\"open_each\":%u,\"delay_to_others\":%s,\"other_models\":%u,"
          "\"waiting\":%u,"
          "\"forecast_p50\":%.2f,"
          "\"predict_p50\":%.2f,\"p50\":%.2f,\"p99\":%.2f,\"allocations\":%.2f}",
          &size == sizes ? "" : ",", size.apps, size.slots, size.open,
          size.asks_delay_to_others ? "true" : "false", size.other_models, row.waiting, row.forecast.at(0.5),
          row.predict.at(0.5), row.decision.at(0.5), row.decision.at(0.99), row.allocations);
    else
      std::printf(
          "%2u apps, %3u slots, %3u answers at each engine, %2u other models%s   forecasts p50 %6.2f us   "
          "predictions p50 "
          "%6.2f "
          "us   "
          "both p50 %6.2f us, p99 %6.2f us   %.2f allocations\n",
          size.apps, size.slots, size.open, size.other_models,
          size.asks_delay_to_others ? ", delay to others" : "", row.forecast.at(0.5), row.predict.at(0.5),
          row.decision.at(0.5), row.decision.at(0.99), row.allocations);
  }
  if (json) std::printf("]}\n");
  return 0;
}
