// What a number on the command line may be. A refusal says the value, the range and the option:
// --port: "99999" is no whole number from 0 to 65535
#pragma once

#include <cstdint>
#include <string>

#include <CLI/App.hpp>

namespace flyball::cli {

// For CLI::Option::check: decimal digits and nothing else.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most);

// A decimal number; `least_excluded`: the least is itself none of them.
CLI::Validator number(double least, double most, bool least_excluded = false);

}  // namespace flyball::cli
