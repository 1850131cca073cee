// Kernels from the .cl files in this binary, compiled for the device once and kept as binaries in the cache
// directory under a digest of driver, sources and options: a second start compiles nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/device/kernel_cache.hpp"
#include "backends/opencl/device.hpp"

namespace flyball::opencl {

// The text of kernels/opencl/<name>.cl. Precondition: it is one of ours.
std::string_view kernel_source(std::string_view name);

inline constexpr device::KernelCache::Kind kProgramFiles{"flyball opencl program 1\n", ".clbin"};

// Builds with fewer and fewer work-items a group, down to one, until the device takes it: `build` gives
// model_unsupported where it does not.
template <class Build>
auto with_fewer_items(std::uint32_t& items, Build&& build) {
  auto made = build(items);
  while (!made && made.error().code == ErrorCode::model_unsupported && items > 1) made = build(items /= 2);
  return made;
}

class Programs {
 public:
  // directory: of a KernelCache; "" keeps nothing. warn: told once that it is off.
  Programs(std::shared_ptr<Device> device, const std::filesystem::path& directory,
           std::function<void(const std::string&)> warn = {});

  // Kernel `name` of the files' texts, one after the other, built with `options` ("-D WG=64").
  // model_unsupported, model_unavailable. A cached program that is not taken, or lacks the kernel, is
  // compiled anew.
  Result<Kernel> kernel(const std::string& name, std::span<const std::string_view> files,
                        const std::string& options);
  // Writes what was compiled into the cache. Best after the first step: some drivers finish compiling there.
  void store();

  std::uint32_t compiled() const noexcept { return compiled_; }
  std::uint32_t from_cache() const noexcept { return from_cache_; }

 private:
  struct Program {
    Handle<cl_program> program;
    bool stored = false, from_cache = false;
  };
  Result<Program> compile(std::span<const std::string_view> files, std::span<const std::string_view> sources,
                          const std::string& options);

  std::shared_ptr<Device> device_;
  device::KernelCache cache_;
  std::function<void(const std::string&)> warn_;
  std::map<std::string, Program> programs_;  // by key
  std::uint32_t compiled_ = 0, from_cache_ = 0;
};

}  // namespace flyball::opencl
