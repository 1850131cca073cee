// What a probe found out about one device. A device counts only when it ran a kernel and the answer was
// right: drivers that enumerate well and crash at the first dispatch are known.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flyball {

// Facts of a device that both GPU APIs report. Each engine's DeviceFacts add those of its own API.
struct DeviceIdentity {
  // device_id(), then the UUID where the driver gives one. Unique within the API for as long as drivers and
  // hardware stay.
  std::string id;
  std::string name;    // as the driver gives it
  std::string vendor;  // nvidia, amd, intel, apple, arm, qualcomm, other
  std::string kind;    // discrete, integrated, software
  std::string driver;  // name and version
  // Which piece of hardware it is, whatever API tells; "": this one's driver does not.
  std::string pci;                 // its address, "0000:41:00.0"
  std::string uuid;                // 32 hex digits
  std::uint64_t memory_bytes = 0;  // of its own, or the share of main memory the driver offers
  bool unified = false;            // works in the processor's memory: nothing needs to be copied
  bool software() const noexcept { return kind == "software"; }  // runs on this machine's own cores
};

struct DeviceReport : DeviceIdentity {
  std::uint32_t compute_units = 0;  // 0: the API does not say
  bool dispatched = false;          // ran the probe's kernel, and the answer was right
  std::string error = {};           // why not, "" if it did
  std::string features = {};        // vulkan: what the engine can use of it
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

// "name#nth (maker)" in printable ASCII, each text cut to what argv and JSON carry: "NVIDIA H200#0 (NVIDIA)".
inline std::string device_id(std::string_view name, std::ptrdiff_t nth, std::string_view maker) {
  constexpr std::size_t kMaxPart = 200;  // bytes
  const auto printable = [](std::string_view text) {
    std::string out(text.substr(0, kMaxPart));
    for (char& c : out)
      if (c < ' ' || c > '~') c = '?';
    return out;
  };
  return printable(name) + "#" + std::to_string(nth) + " (" + printable(maker) + ")";
}

inline std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t b : bytes) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

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
