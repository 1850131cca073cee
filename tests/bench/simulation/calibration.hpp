// What `flyball calibrate` would measure of a simulated engine that has nothing else to do.
#pragma once

#include <vector>

#include "daemon/measure/figures.hpp"
#include "tests/bench/simulation/machine.hpp"

namespace flyball::simulation {

// Times of prompts of 32 and 512 tokens, tokens a second of one stream and of eight, and the load.
std::vector<measure::Figure> calibrate(const EngineSpec& spec, const ModelSpec& model);

// TTFT in seconds of a prompt of so many tokens on a loaded engine with an empty prefix cache, without noise.
double ttft_alone(const EngineSpec& spec, const ModelSpec& model, std::uint32_t prompt_tokens);
// Seconds of a whole request on the same engine.
double seconds_alone(const EngineSpec& spec, const ModelSpec& model, std::uint32_t prompt_tokens,
                     std::uint32_t output_tokens);

}  // namespace flyball::simulation
