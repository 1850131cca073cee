// How much equal steps of the CPU engine differ: times of a prompt's chunk and of decode, in the order in
// which they ran, divided by their median. Prints tests/bench/simulation/noise.inc, which the routing
// simulation replays. step_noise MODEL.gguf
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/model/model_file.hpp"
#include "tests/bench/engine_steps.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;
using namespace flyball::bench;

constexpr std::uint32_t kStreams = 4;
constexpr int kWarmUp = 8;

void print(const char* name, const std::vector<double>& seconds) {
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  const double median = sorted[sorted.size() / 2];
  std::printf("// median %.1f ms, p90 %.2f and p99 %.2f times as long\n", median * 1e3,
              sorted[sorted.size() * 9 / 10] / median, sorted[sorted.size() * 99 / 100] / median);
  std::printf("inline constexpr float %s[] = {", name);
  for (std::size_t i = 0; i < seconds.size(); ++i)
    std::printf("%s%.3fF,", i % 16 == 0 ? "\n    " : " ", seconds[i] / median);
  std::printf("\n};\n");
}

template <class Step>
std::vector<double> record(int n, Step step) {
  std::vector<double> seconds;
  for (int i = -kWarmUp; i < n; ++i)
    if (const double took = expect(step()); i >= 0) seconds.push_back(took);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) die("usage: step_noise MODEL.gguf", 64);
  const auto model = expect(model::ModelFile::open(argv[1]));
  cpu::CpuDeviceOptions options;
  options.max_step_tokens = kPromptTokens;
  options.max_logit_rows = kStreams;
  const auto steps =
      expect(EngineSteps::over(expect(cpu::make_cpu_executor(*model, options)), *model, kStreams));
  print("kPrefillNoise", record(256, [&] { return steps->prefill(); }));
  print("kDecodeNoise", record(512, [&] { return steps->decode(kStreams); }));
}
