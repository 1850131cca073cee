// One row of an embedding table, decoded and scaled.
#pragma once

#include <cstdint>

#include "kernels/formats/source_rows.hpp"

namespace flyball::kernels::reference {

// out: [cols], the row times scale
void embed(DType type, const SourceRows& row, std::uint32_t cols, float scale, double* out);

}  // namespace flyball::kernels::reference
