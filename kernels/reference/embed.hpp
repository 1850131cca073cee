// One row of an embedding table, decoded.
#pragma once

#include <cstdint>

#include "kernels/formats/source_rows.hpp"

namespace flyball::kernels::reference {

// out: [cols]
void embed(DType type, const SourceRows& row, std::uint32_t cols, double* out);

}  // namespace flyball::kernels::reference
