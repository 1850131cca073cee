// How far the load of a model is.
#pragma once

#include <cstdint>
#include <functional>

namespace flyball::graph {

// Bytes of weights that the device has, and in all. Called on the loading thread, often; empty: nobody asks.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace flyball::graph
