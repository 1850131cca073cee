// A stable sort that stays in bounds whatever the comparison answers (NaNs have no order) and may be thrown
// out of. std::stable_sort would do, but its libstdc++ 12 form warns under clang.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace flyball::text::jinja {

template <class T, class Less>
void merge_sort(std::vector<T>& items, Less less) {
  std::vector<T> merged(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t from = 0; from < items.size(); from += 2 * width) {
      const auto at = [&](std::size_t i) {
        return items.begin() + static_cast<std::ptrdiff_t>(std::min(i, items.size()));
      };
      std::merge(at(from), at(from + width), at(from + width), at(from + 2 * width),
                 merged.begin() + static_cast<std::ptrdiff_t>(from), less);
    }
    std::swap(items, merged);
  }
}

}  // namespace flyball::text::jinja
