// Reads the load in a text: volumes and kinds of work; and prices, so that no other reader takes their
// numbers.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "policy/scenario_scan.hpp"

namespace flyball::policy {

inline constexpr std::array<std::string_view, 8> kMultipliers{"k",   "m",        "mio",     "million",
                                                              "mil", "thousand", "hundred", "b"};

// "$1400", "2k euros", "budget of 1080": no card, no year. Returns the number of atoms; 0: no price is here.
std::size_t read_price(Scan& scan, std::size_t at);

// "10k emails a day", "a million documents overnight", "every 5 minutes", "20 requests a day": how much,
// not how many at once. Returns the number of atoms; 0: no volume is here.
std::size_t read_volume(Scan& scan, std::size_t at);

// Lists the kinds of work that the whole text names.
void settle_classes(Scan& scan);

}  // namespace flyball::policy
