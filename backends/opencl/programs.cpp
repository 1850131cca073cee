#include "backends/opencl/programs.hpp"

#include <cstdlib>
#include <utility>
#include <vector>

#include "embedded/opencl_kernels.hpp"

namespace flyball::opencl {

std::string_view kernel_source(std::string_view name) {
  for (const auto& [known, text] : kKernelSources)
    if (known == name) return {reinterpret_cast<const char*>(text().data()), text().size()};
  std::abort();
}

Programs::Programs(std::shared_ptr<Device> device, const std::filesystem::path& directory,
                   std::function<void(const std::string&)> warn)
    : device_(std::move(device)), cache_(directory, kProgramFiles), warn_(std::move(warn)) {}

Result<Programs::Program> Programs::compile(std::span<const std::string_view> files,
                                            std::span<const std::string_view> sources,
                                            const std::string& options) {
  auto compiled = device_->compile(files.back(), sources, options);
  if (!compiled) return pass(compiled);
  ++compiled_;
  return Program{std::move(*compiled)};
}

Result<Kernel> Programs::kernel(const std::string& name, std::span<const std::string_view> files,
                                const std::string& options) {
  const DeviceFacts& facts = device_->facts();
  std::vector<std::string_view> sources;
  for (const std::string_view file : files) sources.push_back(kernel_source(file));
  std::vector<std::string_view> identity{facts.platform, facts.name, facts.driver, options};
  identity.insert(identity.end(), sources.begin(), sources.end());
  const std::string key = device::digest_of(identity);

  auto it = programs_.find(key);
  if (it == programs_.end()) {
    Program made;
    if (const auto binary = cache_.read(key); !binary.empty())
      made = {device_->from_binary(binary, options), true, true};
    if (!made.program) {
      auto compiled = compile(files, sources, options);
      if (!compiled) return pass(compiled);
      made = std::move(*compiled);
    } else {
      ++from_cache_;
    }
    it = programs_.emplace(key, std::move(made)).first;
  }
  auto kernel = device_->kernel(it->second.program, name);
  if (kernel || !it->second.from_cache) return kernel;
  // What the cache held is not what its name says, or the driver has changed its mind.
  auto compiled = compile(files, sources, options);
  if (!compiled) return pass(compiled);
  --from_cache_;
  it->second = std::move(*compiled);
  return device_->kernel(it->second.program, name);
}

void Programs::store() {
  for (auto& [key, program] : programs_) {
    if (!cache_.keeps()) break;
    if (program.stored) continue;
    program.stored = true;
    cache_.write(key, device_->binary_of(program.program));
  }
  if (cache_.trouble().empty() || !warn_) return;
  std::exchange(warn_, nullptr)(cache_.trouble());
}

}  // namespace flyball::opencl
