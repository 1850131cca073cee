// Whether two APIs' devices are one piece of hardware: for the choice of devices and for the pools of memory.
#pragma once

#include "backends/device_report.hpp"

namespace flyball::probe {

// A device and the report of the API that shows it. Both outlive it.
struct ProbedDevice {
  const DeviceProbe* probe = nullptr;
  const DeviceReport* device = nullptr;
};

// Compares the PCI addresses where both APIs tell them, else the UUIDs, else the names. Devices of one name
// are told apart by their number: where both APIs' drivers show as many of them, the first of one API is the
// first of the other, since drivers go through the bus in one order. Where the counts differ, all devices of
// one name are taken for one: too little memory rather than too much.
bool same_hardware(const ProbedDevice& a, const ProbedDevice& b);

}  // namespace flyball::probe
