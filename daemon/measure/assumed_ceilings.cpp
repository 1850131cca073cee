#include "daemon/measure/assumed_ceilings.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace flyball::measure {
namespace {

// Rates in the units of Ceilings. A class that works in the processor's memory has shares of the processor's
// measured rates instead. No class has a rate of int8: measured GPUs have none either, because the engines'
// ceilings time multiply-adds of floats alone.
struct DeviceClass {
  std::string_view kind, words;
  bool follows_processor;
  double read, multiply_add;
  double load;  // GB/s at which weights reach the device; 0: they are read and written in its memory
};

constexpr std::array kClasses{
    // NVIDIA's data sheets give 360 GB/s and 12.7 TFLOP/s for an RTX 3060, 272 GB/s and 15.1 TFLOP/s for an
    // RTX 4060. Kernels that were not tuned for a card reach about half of its arithmetic. PCIe 3.0 x16
    // carries 15.75 GB/s (PCI-SIG), of which packets leave some 12.
    DeviceClass{"discrete", "a discrete GPU", false, 300, 6'000, 12},
    // It reads the same memory as the cores. Makers state two to eight times the cores' float rate; two is
    // what the smallest keep.
    DeviceClass{"integrated", "an integrated GPU", true, 1, 2, 0},
    // It is a program on the same cores. lavapipe decodes 13 times slower than the cpu engine
    // (tests/service/calibrate_test.py).
    DeviceClass{"software", "a software device", true, 0.1, 0.1, 0},
};

}  // namespace

std::optional<Ceilings> assumed_ceilings(std::string_view kind, const Ceilings& processor) {
  const auto row = std::ranges::find(kClasses, kind, &DeviceClass::kind);
  if (row == kClasses.end()) return std::nullopt;
  if (row->follows_processor && (processor.read_gbps <= 0 || processor.float_gops <= 0)) return std::nullopt;
  Ceilings out;
  out.read_gbps = row->read * (row->follows_processor ? processor.read_gbps : 1);
  out.float_gops = row->multiply_add * (row->follows_processor ? processor.float_gops : 1);
  out.load_gbps = row->load;
  if (row->follows_processor) out.page_gbps = processor.page_gbps;
  out.measured_at = std::numeric_limits<std::int64_t>::max();  // an assumption does not age
  out.assumed_of = row->words;
  return out;
}

std::optional<Ceilings> assumed_ceilings(std::span<const std::string> kinds, const Ceilings& processor) {
  std::vector<Ceilings> devices;
  for (const std::string& kind : kinds) {
    const auto one = assumed_ceilings(kind, processor);
    if (!one) return std::nullopt;
    devices.push_back(*one);
  }
  if (devices.empty()) return std::nullopt;
  return devices.size() == 1 ? devices.front() : in_turn(devices);
}

}  // namespace flyball::measure
