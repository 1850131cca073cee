#include "backends/opencl/ceilings.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

namespace flyball::opencl {
namespace {

constexpr std::uint32_t kChains = 12, kRounds = 20'000;
constexpr std::size_t kGpuGroup = 256, kGroupsPerUnit = 16;  // of a GPU: enough to hide every latency
constexpr std::size_t kProcessorReaders = 512, kProcessorAdders = 64;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<DeviceCeilings>> DeviceCeilings::open(const DeviceOptions& options,
                                                             std::uint64_t read_bytes) {
  auto device = Device::open(options);
  if (!device) return pass(device);
  std::unique_ptr<DeviceCeilings> out(new DeviceCeilings(std::move(*device)));
  if (auto ok = out->build(read_bytes); !ok) return pass(ok);
  return out;
}

// Vectors as wide as a processor's registers, a run of them a work-item; on GPUs 16 bytes, neighbours side by
// side.
Result<void> DeviceCeilings::build(std::uint64_t read_bytes) {
  const DeviceFacts& facts = device_->facts();
  const std::size_t gpu_items = kGpuGroup * kGroupsPerUnit * facts.compute_units;
  const std::uint32_t words = facts.processor ? 16 : 4;  // of 4 bytes, a load
  floats_ = facts.processor ? facts.vector_floats : 1;
  const auto grid = [&](std::size_t processor_items) {
    Grid g;
    g.global[0] = facts.processor ? processor_items : gpu_items;
    g.local[0] = facts.processor ? 1 : kGpuGroup;
    return g;
  };
  read_grid_ = grid(kProcessorReaders);
  multiply_add_grid_ = grid(kProcessorAdders);
  // The kernel wants four equal runs a work-item.
  const std::uint64_t share = read_bytes / (4 * words) / (4 * read_grid_.global[0]);
  read_words_ = static_cast<std::uint32_t>(share * 4 * read_grid_.global[0]);

  const auto make = [&](Kernel& kernel, const char* name, const std::string& options) -> Result<void> {
    const std::string_view files[] = {name};
    auto made = programs_.kernel(name, files, options);
    if (!made) return pass(made);
    kernel = std::move(*made);
    return {};
  };
  if (auto ok = make(read_kernel_, "read_bandwidth",
                     "-D WIDTH=" + std::to_string(words) + " -D CHUNKED=" + (facts.processor ? "1" : "0"));
      !ok)
    return ok;
  if (auto ok = make(multiply_add_kernel_, "multiply_add",
                     "-D WIDTH=" + std::to_string(floats_) + " -D CHAINS=" + std::to_string(kChains));
      !ok)
    return ok;
  const std::uint64_t sums =
      16 * sizeof(float) * std::max(read_grid_.global[0], multiply_add_grid_.global[0]);
  for (const auto& [bytes, to] :
       {std::pair(std::uint64_t{read_words_} * words * 4, &read_from_),
        std::pair(std::uint64_t{2 * sizeof(float)}, &factors_), std::pair(sums, &sums_)}) {
    auto memory = device_->allocate(bytes, "the ceilings");
    if (!memory) return pass(memory);
    *to = std::move(*memory);
  }
  const float factors[] = {0.5F, 0.25F};
  if (auto ok = device_->write(factors_, 0, std::as_bytes(std::span(factors))); !ok) return pass(ok);
  for (int i = 0; i < 2; ++i) {  // compiles, touches the memory
    if (auto ok = read(); !ok) return pass(ok);
    if (auto ok = multiply_add(); !ok) return pass(ok);
  }
  return {};
}

Result<double> DeviceCeilings::read() {
  const double start = seconds();
  if (auto ok = device_->run(read_kernel_, read_grid_, read_from_, sums_, cl_uint{read_words_}); !ok)
    return pass(ok);
  if (auto ok = device_->finish(); !ok) return pass(ok);
  return static_cast<double>(read_from_.bytes) / (seconds() - start);
}

Result<double> DeviceCeilings::multiply_add() {
  const double start = seconds();
  if (auto ok = device_->run(multiply_add_kernel_, multiply_add_grid_, factors_, sums_, cl_uint{kRounds});
      !ok)
    return pass(ok);
  if (auto ok = device_->finish(); !ok) return pass(ok);
  const double operations =
      2.0 * floats_ * kChains * kRounds * static_cast<double>(multiply_add_grid_.global[0]);
  return operations / (seconds() - start);
}

}  // namespace flyball::opencl
