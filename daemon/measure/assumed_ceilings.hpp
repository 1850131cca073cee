// Ceilings assumed of a device that was never measured, by its class. They stand in until `flyball measure`
// has run on it. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/measure/roofline.hpp"

namespace flyball::measure {

// kind: discrete, integrated or software, as drivers report it (DeviceIdentity). processor: the measured
// rates of this machine's processor. nullopt: no class has that name, or the class follows the processor and
// its rates are unknown.
std::optional<Ceilings> assumed_ceilings(std::string_view kind, const Ceilings& processor);

// The same of an engine that spreads a model over devices of these kinds, at least one.
std::optional<Ceilings> assumed_ceilings(std::span<const std::string> kinds, const Ceilings& processor);

}  // namespace flyball::measure
