// The forward pass once more, straight from the paper's formulas: doubles, no cache, no batching, every
// position recomputed. What decoder and device together must agree with.
#pragma once

#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::test {

// Logits of the last token. RoPE without scaling, or linear.
std::vector<double> naive_forward(const model::ModelFile& model, std::span<const Token> tokens);

}  // namespace flyball::test
