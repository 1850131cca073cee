// A part of a text, by its bytes.
#pragma once

#include <cstddef>

namespace flyball::text {

struct TextSpan {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

}  // namespace flyball::text
