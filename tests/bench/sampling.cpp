// What it costs to get from logits to tokens on an OpenCL device: whole rows read and sampled on the host
// beside candidates chosen on the device. The model around it is one layer of 64 columns; what it costs is in
// every line alike.
//   sampling_bench [STREAMS [VOCABULARY]]       (32, 49152). Exit 77 where there is no device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "backends/decode/logprobs.hpp"
#include "backends/decode/sampler.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/model/synthetic.hpp"
#include "backends/opencl/opencl_device.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;
using bench::expect, bench::seconds;

constexpr int kRuns = 40;

struct Way {
  const char* name;
  bool cut;
  SamplingParams params;
};

struct Bench {
  opencl::OpenClExecutor& executor;
  std::uint32_t streams, vocab;
  std::vector<Token> tokens = std::vector<Token>(streams, 1);
  std::vector<std::vector<device::BlockId>> tables = {};
  decode::SamplerScratch scratch = {};
  Token sink = 0;  // so that nothing is left out

  template <class Row>
  void sample(const decode::Sampler& sampler, const SamplingParams& params, const Row& row) {
    if (!decode::all_finite(row)) std::exit(1);
    const Token token = sampler.sample(row, scratch);
    sink += token;
    if (params.top_logprobs >= 0)
      sink += static_cast<Token>(
          decode::logprobs(row, token, static_cast<std::uint32_t>(params.top_logprobs)).top.size());
  }

  // Seconds of a step and its samples.
  double step(const Way& way) {
    const decode::Sampler sampler(way.params, vocab);
    std::vector<device::StepSequence> sequences;
    for (std::uint32_t i = 0; i < streams; ++i) {
      device::StepSequence s{i, 1, 0, tables[i], true};
      if (way.cut) {
        s.n_candidates =
            std::max(sampler.candidates(), static_cast<std::uint32_t>(std::max(way.params.top_logprobs, 0)));
        s.want_exp_sum = way.params.top_logprobs >= 0;
      }
      sequences.push_back(s);
    }
    const double start = seconds();
    const auto output = expect(executor.wait(expect(executor.submit({tokens, sequences}, {}))));
    for (const decode::Candidates& row : output.candidates) sample(sampler, way.params, row);
    for (std::size_t at = 0; at < output.logits.size(); at += vocab)
      sample(sampler, way.params, output.logits.subspan(at, vocab));
    return seconds() - start;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, std::uint32_t otherwise) {
    return argc > i ? static_cast<std::uint32_t>(std::atoi(argv[i])) : otherwise;
  };
  const std::uint32_t streams = argument(1, 32);
  auto spec = expect(model::parse_synthetic_shape("dim=64,layers=1,heads=1,kv_heads=1,ffn=64,vocab=" +
                                                  std::to_string(argument(2, 49152))));
  spec.type = kernels::DType::q8_0;
  const auto bytes = expect(model::synthetic_bytes(spec));
  const auto file = expect(model::ModelFile::from_bytes(bytes));
  opencl::OpenClDeviceOptions options;
  options.devices[0].allow_processor = true;
  options.max_step_tokens = options.max_logit_rows = streams;
  const auto made = opencl::make_opencl_executor(*file, options);
  if (!made)
    bench::die(made.error().message, made.error().code == ErrorCode::model_unavailable ? bench::kSkipped : 1);
  const auto& executor = *made;
  if (auto ok = executor->reserve_kv(graph::kv_layout(file->config()), streams); !ok) return 1;

  Bench bench{*executor, streams, file->config().vocab_size};
  for (std::uint32_t i = 0; i < streams; ++i) {
    bench.tokens[i] = static_cast<Token>(i);
    bench.tables.push_back({i});
  }
  SamplingParams greedy, top_k, logprobs, all;
  greedy.temperature = 0;
  top_k.top_k = 40;
  logprobs.temperature = 0;
  logprobs.top_logprobs = 5;
  const Way ways[] = {{"greedy, whole rows", false, greedy},
                      {"greedy, candidates", true, greedy},
                      {"top_k 40, whole rows", false, top_k},
                      {"top_k 40, candidates", true, top_k},
                      {"greedy with 5 logprobs, whole rows", false, logprobs},
                      {"greedy with 5 logprobs, candidates", true, logprobs},
                      {"any token, whole rows", false, all}};
  double best[std::size(ways)];
  std::uint64_t read[std::size(ways)];
  std::ranges::fill(best, 1e9);
  for (int n = -1; n < kRuns; ++n)  // in turns, because a shared machine drifts; -1 compiles and warms
    for (std::size_t i = 0; i < std::size(ways); ++i) {
      const auto before = executor->statistics().result_bytes;
      const double s = bench.step(ways[i]);
      read[i] = executor->statistics().result_bytes - before;
      if (n >= 0) best[i] = std::min(best[i], s);
    }
  std::printf("%s, %u streams, vocabulary %u\n", executor->parts()[0].facts.name.c_str(), streams,
              bench.vocab);
  for (std::size_t i = 0; i < std::size(ways); ++i)
    std::printf("%-36s %8.3f ms a step, %9llu bytes read\n", ways[i].name, best[i] * 1e3,
                static_cast<unsigned long long>(read[i]));
  return bench.sink == -1 ? 1 : 0;
}
