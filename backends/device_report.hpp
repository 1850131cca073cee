// What a probe found out about one device. A device counts only when it ran a kernel and the answer was
// right: drivers that enumerate well and crash at the first dispatch are known.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace flyball {

struct DeviceReport {
  std::string name;                 // as the driver gives it
  std::string vendor;               // nvidia, amd, intel, apple, arm, qualcomm, other
  std::string kind;                 // discrete, integrated, software
  std::string driver;               // name and version
  std::uint64_t memory_bytes = 0;   // of its own, or the share of main memory the driver offers
  std::uint32_t compute_units = 0;  // 0: the API does not say
  bool unified = false;             // works in the processor's memory
  bool dispatched = false;          // ran the probe's kernel, and the answer was right
  std::string error;                // why not, "" if it did
  std::string id;                   // tells it from every other device of its API; printable ASCII
  std::string features;             // vulkan: what the engine can use of it
  // Which piece of hardware it is, whatever API tells; "": this one's driver does not.
  std::string pci = {};   // its address, "0000:41:00.0"
  std::string uuid = {};  // 32 hex digits
};

struct DeviceProbe {
  std::vector<DeviceReport> devices;
  // Why nothing could be asked: no loader, no driver, the probe crashed or hung; "" if it could.
  std::string error;
  bool answered = true;  // false: it crashed, hung or did not start, and what is there is not known
};

// How an API's devices are asked, one after the other.
struct ProbeRun {
  std::chrono::milliseconds patience{20'000};          // with all of them: nobody waits longer
  std::function<void(const DeviceReport&)> on_device;  // each as soon as it is known: the next may hang
};

// What the next of `left` devices may take: one that hangs leaves the others their share, and whoever waits
// the time to be told.
inline std::chrono::milliseconds patience_with_next(std::chrono::steady_clock::time_point asked,
                                                    const ProbeRun& run, std::size_t left) {
  const auto spent = std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now() - asked);
  return std::max((run.patience * 4 / 5 - spent) / static_cast<std::int64_t>(left),
                  std::chrono::milliseconds(1));
}

// The kernel of every probe: element i becomes i * kProbeFactor + data[i].
inline constexpr std::uint32_t kProbeElements = 4096;
inline constexpr std::uint32_t kProbeFactor = 2654435761U;

// "0000:41:00.0", as Linux writes it.
inline std::string pci_address(std::uint32_t domain, std::uint32_t bus, std::uint32_t device,
                               std::uint32_t function) {
  char text[48];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

// From a PCI vendor id.
constexpr const char* vendor_name(std::uint32_t id) noexcept {
  switch (id) {
    case 0x10DE:
      return "nvidia";
    case 0x1002:
      return "amd";
    case 0x8086:
      return "intel";
    case 0x106B:
      return "apple";
    case 0x13B5:
      return "arm";
    case 0x5143:
      return "qualcomm";
    default:
      return "other";
  }
}

}  // namespace flyball
