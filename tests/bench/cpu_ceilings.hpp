// What this machine's processor can do at best with all the threads the CPU engine uses: the ceilings that
// its rates are set against.
#pragma once

#include "backends/device/memory.hpp"
#include "backends/device/thread_pool.hpp"
#include "kernels/cpu/kernels.hpp"

namespace flyball::bench {

class CpuCeilings {
 public:
  // threads > 0. insufficient_memory.
  static Result<std::unique_ptr<CpuCeilings>> open(std::uint32_t threads);
  // One pass of some ten milliseconds each: bytes, f32 and int8 operations (a multiply-add is two), a second.
  double read();
  double f32();
  double int8();

 private:
  explicit CpuCeilings(std::uint32_t threads) : pool_(threads) {}
  double rate(double (*loop)());

  device::ThreadPool pool_;
  device::Pages memory_;
};

}  // namespace flyball::bench
