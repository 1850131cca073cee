// What `flyball calibrate` has kept, for the commands that decide.
#pragma once

#include <span>
#include <vector>

#include "config/config.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/measure/subject.hpp"
#include "daemon/route/probe.hpp"

namespace flyball::cli {

// The engines that this machine has for this configuration: the processor, and the devices that the probe
// approves.
std::vector<measure::Engine> engines_of(const route::HardwareReport& report, const config::Config& config);

// What is known of the configuration's models on these engines; nothing where there is no store. io_error:
// there is one, and it cannot be read.
Result<measure::Book> measured_book(const config::Config& config, std::span<const measure::Engine> engines);

}  // namespace flyball::cli
