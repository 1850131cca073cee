#include "daemon/probe/same_hardware.hpp"

#include <cstddef>

namespace flyball::probe {
namespace {

struct Namesakes {
  std::size_t count = 0;
  std::size_t number = 0;  // of the device itself among them, in the API's order
};

// The devices of the same name and driver: one driver shows a card once, two drivers may both show it.
Namesakes namesakes(const ProbedDevice& of) {
  Namesakes out;
  for (const DeviceReport& device : of.probe->devices) {
    if (&device == of.device) out.number = out.count;
    if (device.name == of.device->name && device.driver == of.device->driver) ++out.count;
  }
  return out;
}

}  // namespace

bool same_hardware(const ProbedDevice& a, const ProbedDevice& b) {
  if (!a.device->pci.empty() && !b.device->pci.empty()) return a.device->pci == b.device->pci;
  if (!a.device->uuid.empty() && !b.device->uuid.empty()) return a.device->uuid == b.device->uuid;
  if (a.device->name != b.device->name) return false;
  const Namesakes in_a = namesakes(a), in_b = namesakes(b);
  return in_a.count != in_b.count || in_a.number == in_b.number;
}

}  // namespace flyball::probe
