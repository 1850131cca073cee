// Element types as GoogleTest prints them, in the names of tests and in failures, and chosen by their rows.
#pragma once

#include <ostream>
#include <vector>

#include "kernels/formats/dtype.hpp"

namespace flyball::kernels {

inline void PrintTo(DType type, std::ostream* out) {
  *out << to_string(type);
}

// dtypes_where([](const FormatRow& row) { return row.texel; })
template <class Wanted>
std::vector<DType> dtypes_where(Wanted wanted) {
  std::vector<DType> out;
  for (std::size_t i = 0; i < kDTypeCount; ++i)
    if (wanted(kFormatRows[i])) out.push_back(static_cast<DType>(i));
  return out;
}
inline std::vector<DType> block_dtypes() {
  return dtypes_where([](const FormatRow& row) { return row.kind == FormatKind::blocks; });
}

}  // namespace flyball::kernels
