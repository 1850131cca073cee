// Eight answers at once under a JSON Schema beside the same without one: how much longer a step takes, over a
// model of random weights with qwen2's 151k tokens.
//   constrained_bench [cpu|vulkan|opencl [SHAPE [ROUNDS]]]   (cpu,
//   dim=256,layers=4,heads=4,kv_heads=2,ffn=512, 6)
// vulkan and opencl: software devices are taken, too. The ways take turns; the grammar of `any text` allows
// every token that is text, so that it costs what a mask costs beside its making. Exit 77 without the
// vocabulary (../shared/data/vocab) or the device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "backends/local/local_backend.hpp"
#include "config/json_reader.hpp"
#include "tests/bench/client.hpp"
#include "tests/bench/vocabulary_model.hpp"

namespace {

using namespace flyball;
using bench::expect;

constexpr std::uint32_t kStreams = 8, kPrompt = 16, kAnswer = 96;

// An array that no answer of kAnswer tokens ends.
constexpr const char* kSchema = R"({"type":"array","minItems":100,"items":{"type":"object","properties":{
  "id":{"type":"integer"},"name":{"type":"string","maxLength":24},"active":{"type":"boolean"},
  "role":{"enum":["admin","editor","viewer","guest"]},"score":{"type":"number"},
  "tags":{"type":"array","items":{"type":"string","maxLength":12},"minItems":1,"maxItems":3}},
  "required":["id","name","active","role","score","tags"],"additionalProperties":false}})";

struct Way {
  const char* name;
  float presence_penalty = 0;
  std::optional<Constraint> constraint = {};
  std::vector<double> steps = {};  // seconds of those that decoded one token of every stream
  std::uint64_t mask_us = 0, tokens = 0;
};

Constraint constraint(Constraint::Kind kind, std::string_view source) {
  return {kind, expect(read_packed(source)), false};
}

double share_of(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

// The steps of the engine since the last call.
class Steps {
 public:
  void add(const engine::StepTrace& trace) {
    const std::scoped_lock lock(mutex_);
    if (trace.work.tokens == kStreams)
      steps_.push_back(std::chrono::duration<double>(trace.end - trace.begin).count());
  }
  std::vector<double> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(steps_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<double> steps_;
};

void round(Backend& backend, Way& way, std::uint64_t seed, Steps& steps, bool counts) {
  std::vector<std::shared_ptr<bench::Waiter>> waiters;
  std::vector<Ticket> tickets;
  for (std::uint32_t stream = 0; stream < kStreams; ++stream) {
    CompletionRequest request;
    request.id = "bench-" + std::to_string(seed) + "-" + std::to_string(stream) + way.name;
    std::vector<Token> prompt;
    for (std::uint32_t i = 0; i < kPrompt; ++i)
      prompt.push_back(static_cast<Token>((seed * 977 + stream * 131 + i * 17) % 100'000));
    request.prompt = TokenPrompt{std::move(prompt)};
    request.max_tokens = kAnswer;
    request.ignore_eos = true;
    request.sampling.top_k = 40;
    request.sampling.seed = seed * kStreams + stream;
    request.sampling.presence_penalty = way.presence_penalty;
    request.constraint = way.constraint;
    waiters.push_back(std::make_shared<bench::Waiter>());
    tickets.push_back(expect(backend.start(std::move(request), waiters.back())));
  }
  for (const auto& waiter : waiters) {
    const Timings timings = waiter->wait_timings();
    if (!counts) continue;
    way.mask_us += timings.mask_us;
    way.tokens += kAnswer;
  }
  const auto taken = steps.take();
  if (counts) way.steps.insert(way.steps.end(), taken.begin(), taken.end());
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const fs::path vocabulary = fs::path(FLYBALL_SOURCE_DIR) / "../shared/data/vocab/ggml-vocab-qwen2.gguf";
  if (!fs::exists(vocabulary)) bench::die(vocabulary.string() + " is absent", bench::kSkipped);
  const fs::path model = fs::temp_directory_path() / ("constrained-" + std::to_string(getpid()) + ".gguf");
  expect(bench::write_vocabulary_model(
      model, argc > 2 ? argv[2] : "dim=256,layers=4,heads=4,kv_heads=2,ffn=512,context=512", vocabulary));
  Steps steps;
  local::LocalBackendOptions options;
  options.model_id = "bench";
  options.path = model;
  options.backend = argc > 1 ? argv[1] : "cpu";
  options.context = 512;
  options.max_sequences = kStreams;
  options.vulkan.allow_processor = options.opencl[0].allow_processor = true;
  options.observer = [&](const engine::StepTrace& trace) { steps.add(trace); };
  const auto backend = local::make_local_backend(options);
  fs::remove(model);
  if (!backend) bench::die(backend.error().message, bench::kSkipped);

  std::vector<Way> ways;
  ways.push_back({.name = "candidates"});
  ways.push_back({.name = "whole rows (a penalty)", .presence_penalty = 0.1F});
  ways.push_back(
      {.name = "any text", .constraint = constraint(Constraint::Kind::gbnf, R"("root ::= [^\\x00]*")")});
  ways.push_back({.name = "a JSON Schema", .constraint = constraint(Constraint::Kind::json_schema, kSchema)});
  const auto rounds = static_cast<std::uint64_t>(argc > 3 ? std::atoi(argv[3]) : 6);
  for (std::uint64_t i = 0; i <= rounds; ++i)  // the first one warms
    for (std::size_t n = 0; n < ways.size(); ++n)
      round(**backend, ways[(i + n) % ways.size()], i, steps, i > 0);

  std::printf("%s, %u streams\n%-24s %8s | step p50 p90 p99 ms | mask us a token\n", options.backend.c_str(),
              kStreams, "", "steps");
  for (Way& way : ways) {
    std::ranges::sort(way.steps);
    if (way.steps.empty()) bench::die("no step held a token of every stream");
    std::printf(
        "%-24s %8zu | %7.3f %7.3f %7.3f | %.1f\n", way.name, way.steps.size(), 1e3 * share_of(way.steps, 0.5),
        1e3 * share_of(way.steps, 0.9), 1e3 * share_of(way.steps, 0.99),
        static_cast<double>(way.mask_us) / static_cast<double>(std::max<std::uint64_t>(way.tokens, 1)));
  }
  for (std::size_t before = 1; before + 1 < ways.size(); ++before) {
    std::printf("us a row that the schema's step is longer than that of %s: p50 %.1f, p90 %.1f, p99 %.1f\n",
                ways[before].name,
                1e6 * (share_of(ways.back().steps, 0.5) - share_of(ways[before].steps, 0.5)) / kStreams,
                1e6 * (share_of(ways.back().steps, 0.9) - share_of(ways[before].steps, 0.9)) / kStreams,
                1e6 * (share_of(ways.back().steps, 0.99) - share_of(ways[before].steps, 0.99)) / kStreams);
  }
  return 0;
}
