// Apps whose clients wait for an answer before they send the next request, as their manifests declare.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/app_manifest.hpp"
#include "tests/bench/simulation/world.hpp"

namespace flyball::simulation {

struct Workload {
  config::WorkloadClass kind = config::WorkloadClass::chat;
  std::uint32_t streams = 1, prompt_tokens = 0, output_tokens = 0;
  std::uint32_t shared_tokens = 0;  // of every prompt
  bool throughput = false;          // the objective it declares; else none

  bool has_people() const noexcept;  // who wait for answers, and think before they ask again
  std::uint32_t requests_a_stream() const noexcept;  // alone; 16 to 32 of the app
  std::string name() const;                          // "chat x4 2048>256 shared throughput"
  config::AppManifest manifest(std::string id) const;
};
// All combinations of six classes, 1, 4 and 8 streams, prompts of 256 and 2,048 tokens, answers of 32 and 256,
// prompts that share nothing or a half, and an objective that is not said or throughput: 288.
std::vector<Workload> workloads();

// One app or two. Lengths vary lognormally about the declared ones. An app with people sends a fixed number of
// requests. An app without people does the same alone, and sends requests beside another app until the run
// ends; the run ends when every app has had so many answers as it must.
class ClosedLoop final : public Clients {
 public:
  struct App {
    Workload workload;
    double seconds_alone = 0;  // of a request of the declared length on the machine's best engine
  };
  ClosedLoop(std::vector<App> apps, std::uint64_t seed);

  std::span<const config::AppManifest> manifests() const noexcept { return manifests_; }
  std::span<const SimRequest> first() const noexcept { return first_; }  // of each stream
  std::optional<SimRequest> next(std::size_t answered, const World& world) override;
  bool over() const override;

 private:
  struct Origin {
    std::size_t app = 0;
    std::uint32_t stream = 0, nth = 0;
  };
  SimRequest request(const Origin& origin, double now);
  double draw(const Origin& origin, std::uint64_t which) const;  // in [0, 1)
  double lognormal(const Origin& origin, std::uint64_t which) const;

  const std::vector<App> apps_;
  const std::uint64_t seed_;
  std::vector<config::AppManifest> manifests_;
  std::vector<std::uint32_t> a_stream_;  // requests that each stream of an app must send
  std::vector<std::uint32_t> answered_;  // by app
  std::vector<Origin> origins_;          // by request
  std::vector<SimRequest> first_;
};

// One app's part of a run.
struct AppCost {
  double cost = 0;  // seconds to the end of an answer, the mean; without people seconds a token
  double ttft_p99 = 0;
};
std::vector<AppCost> costs_of(const World& world, std::span<const Workload> apps);

}  // namespace flyball::simulation
