#include "tests/bench/simulation/closed_loop.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tests/bench/simulation/hash.hpp"
#include "tests/bench/simulation/measure.hpp"

namespace flyball::simulation {
namespace {

using config::WorkloadClass;

constexpr double kThink = 4;      // mean pause of a person, in times of a request alone
constexpr double kLengths = 0.3;  // sigma of the logarithm of lengths
constexpr std::uint32_t kMostRequests = 40;      // of an app with people
constexpr std::size_t kMostInARun = 100'000;     // no client sends beyond: a bound, never met so far
constexpr std::uint64_t kAppBlocks = 1ULL << 44;  // block ids of each app

}  // namespace

bool Workload::has_people() const noexcept {
  return kind != WorkloadClass::batch && kind != WorkloadClass::summarization;
}

std::uint32_t Workload::requests_a_stream() const noexcept {
  return streams == 1 ? 24 : 12;
}

std::string Workload::name() const {
  return std::string(to_string(kind)) + " x" + std::to_string(streams) + " " + std::to_string(prompt_tokens) + ">" +
         std::to_string(output_tokens) + (shared_tokens > 0 ? " shared" : "") + (throughput ? " throughput" : "");
}

config::AppManifest Workload::manifest(std::string id) const {
  config::AppManifest out;
  out.id = std::move(id);
  out.workload.kind = kind;
  out.workload.concurrency = streams;
  out.workload.prompt_tokens = prompt_tokens;
  out.workload.output_tokens = output_tokens;
  if (shared_tokens > 0) out.workload.shared_prefix_tokens = shared_tokens;
  if (throughput) out.workload.objective = "throughput";
  return out;
}

std::vector<Workload> workloads() {
  std::vector<Workload> out;
  for (const WorkloadClass kind : {WorkloadClass::chat, WorkloadClass::agent, WorkloadClass::completion,
                                   WorkloadClass::rag, WorkloadClass::batch, WorkloadClass::summarization})
    for (const std::uint32_t streams : {1U, 4U, 8U})
      for (const std::uint32_t prompt : {256U, 2048U})
        for (const std::uint32_t output : {32U, 256U})
          for (const std::uint32_t shared : {0U, prompt / 2})
            for (const bool throughput : {false, true})
              out.push_back({kind, streams, prompt, output, shared, throughput});
  return out;
}

ClosedLoop::ClosedLoop(std::vector<App> apps, std::uint64_t seed)
    : apps_(std::move(apps)), seed_(seed), answered_(apps_.size()) {
  const auto seconds = [](const App& app) { return app.workload.requests_a_stream() * app.seconds_alone; };
  for (std::size_t i = 0; i < apps_.size(); ++i) {
    const Workload& own = apps_[i].workload;
    manifests_.push_back(own.manifest("app-" + std::to_string(i + 1)));
    std::uint32_t must = own.requests_a_stream();
    if (apps_.size() > 1) {
      const App& other = apps_[1 - i];
      // People of short requests ask more often while the other app's are at work.
      if (own.has_people() && other.workload.has_people())
        must = std::clamp(static_cast<std::uint32_t>(must * seconds(other) / seconds(apps_[i])), must,
                          std::max(must, kMostRequests / own.streams));
      else if (other.workload.has_people())
        must = 0;
    }
    a_stream_.push_back(must);
    for (std::uint32_t stream = 0; stream < own.streams; ++stream) first_.push_back(request({i, stream, 0}, 0));
  }
}

double ClosedLoop::draw(const Origin& origin, std::uint64_t which) const {
  const std::uint64_t of_app = mixed(mixed(seed_) + origin.app);
  return unit_interval(mixed(mixed(of_app + origin.stream * 1'000'003ULL + origin.nth * 16ULL) + which));
}

double ClosedLoop::lognormal(const Origin& origin, std::uint64_t which) const {
  const double radius = std::sqrt(-2 * std::log(1 - draw(origin, which)));
  return std::exp(kLengths * radius * std::cos(2 * std::numbers::pi * draw(origin, which + 1)));
}

SimRequest ClosedLoop::request(const Origin& origin, double now) {
  const App& app = apps_[origin.app];
  const Workload& workload = app.workload;
  const auto about = [&](std::uint32_t tokens, std::uint64_t which) {
    return std::max(1U, static_cast<std::uint32_t>(std::lround(tokens * lognormal(origin, which))));
  };
  SimRequest out;
  out.app = origin.app;
  out.interactive = workload.has_people();
  out.at = now;
  if (out.interactive) out.at -= kThink * app.seconds_alone * std::log(1 - draw(origin, 0));
  out.prompt_tokens = std::max(workload.shared_tokens + 1, about(workload.prompt_tokens, 1));
  out.output_tokens = about(workload.output_tokens, 3);
  const std::uint64_t blocks = (1 + origin.app) * kAppBlocks;
  out.first_block = blocks + (1 + origins_.size()) * 1024;
  out.shared_tokens = workload.shared_tokens;
  out.shared_block = blocks;
  origins_.push_back(origin);
  return out;
}

std::optional<SimRequest> ClosedLoop::next(std::size_t answered, const World& world) {
  Origin origin = origins_[answered];
  ++answered_[origin.app];
  const bool goes_on = apps_.size() > 1 && !apps_[origin.app].workload.has_people();
  if (++origin.nth >= a_stream_[origin.app] && !goes_on) return std::nullopt;
  if (over() || origins_.size() >= kMostInARun) return std::nullopt;
  return request(origin, world.now());
}

bool ClosedLoop::over() const {
  for (std::size_t i = 0; i < apps_.size(); ++i)
    if (answered_[i] < a_stream_[i] * apps_[i].workload.streams) return false;
  return true;
}

std::vector<AppCost> costs_of(const World& world, std::span<const Workload> apps) {
  std::vector<AppCost> out(apps.size());
  std::vector<std::vector<double>> ttft(apps.size());
  std::vector<double> seconds(apps.size()), tokens(apps.size()), answers(apps.size());
  for (std::size_t i = 0; i < world.requests().size(); ++i) {
    const SimRequest& request = world.requests()[i];
    const Outcome& outcome = world.outcome(i);
    if (outcome.first_token < 0) continue;
    ttft[request.app].push_back(outcome.first_token - request.at);
    tokens[request.app] += request.prompt_tokens + outcome.output_tokens;
    if (outcome.done < 0) continue;
    seconds[request.app] += outcome.done - request.at;
    ++answers[request.app];
  }
  for (std::size_t app = 0; app < apps.size(); ++app) {
    out[app].ttft_p99 = quantile(ttft[app], 0.99);
    out[app].cost = apps[app].has_people() ? seconds[app] / answers[app]
                                           : world.now() / std::max(tokens[app], 1.0);
  }
  return out;
}

}  // namespace flyball::simulation
