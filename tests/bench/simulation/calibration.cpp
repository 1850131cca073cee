#include "tests/bench/simulation/calibration.hpp"

#include <cstdint>
#include <optional>

#include "tests/bench/program.hpp"
#include "tests/bench/simulation/engine.hpp"
#include "tests/bench/simulation/workload.hpp"

namespace flyball::simulation {
namespace {

// An engine alone in its time. Every request has a prompt of its own.
class Lone {
 public:
  Lone(const EngineSpec& spec, const ModelSpec& model, std::optional<std::uint64_t> noise_seed)
      : engine_(spec, model, noise_seed) {
    engine_.load(static_cast<std::uint64_t>(model.kv_bytes_per_token * model.context * 2));
    for (int i = 0; i < 2; ++i) run(1, 1024, 16);  // it learns what its steps cost
  }
  struct Took {
    double ttft = 0, decode = 0;  // seconds until the last first token, and from there to the end
  };
  Took run(std::uint32_t streams, std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
    for (std::uint32_t i = 0; i < streams; ++i) {
      SimRequest request;
      request.prompt_tokens = prompt_tokens;
      request.first_block = ++last_ << 20U;
      bench::expect(engine_.submit(last_, "calibrate", request.tokens(), output_tokens));
    }
    const double begin = now_;
    double first = now_;
    while (engine_.open() > 0) {
      engine_.begin_step(now_);
      now_ += engine_.left();
      for (const Produced& token : engine_.end_step(now_))
        if (token.first) first = now_;
    }
    return {first - begin, now_ - first};
  }

 private:
  double now_ = 0;
  std::uint64_t last_ = 0;
  SimEngine engine_;
};

}  // namespace

std::vector<measure::Figure> calibrate(const EngineSpec& spec, const ModelSpec& model) {
  using measure::Kind;
  std::vector<measure::Figure> out;
  Lone engine(spec, model, 0);
  for (const std::uint32_t tokens : {32U, 512U}) {
    constexpr int kTimes = 5;
    double sum = 0;
    for (int i = 0; i < kTimes; ++i) sum += engine.run(1, tokens, 1).ttft;
    out.push_back({Kind::ttft_ms, tokens, 1e3 * sum / kTimes, 0});
    out.push_back({Kind::prefill_tps, tokens, tokens * kTimes / sum, 0});
  }
  for (const std::uint32_t streams : {1U, 8U}) {
    constexpr std::uint32_t kTokens = 64;
    out.push_back(
        {Kind::decode_tps, streams, streams * (kTokens - 1) / engine.run(streams, 32, kTokens).decode, 0});
  }
  out.push_back({Kind::load_ms, 0, spec.load_seconds * 1e3, 0});
  return out;
}

double ttft_alone(const EngineSpec& spec, const ModelSpec& model, std::uint32_t prompt_tokens) {
  return Lone(spec, model, std::nullopt).run(1, prompt_tokens, 1).ttft;
}

double seconds_alone(const EngineSpec& spec, const ModelSpec& model, std::uint32_t prompt_tokens,
                     std::uint32_t output_tokens) {
  const auto took = Lone(spec, model, std::nullopt).run(1, prompt_tokens, output_tokens);
  return took.ttft + took.decode;
}

}  // namespace flyball::simulation
