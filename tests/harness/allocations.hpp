// Counts what a program takes from the heap: whoever links allocations.cpp has its operator new.
#pragma once

#include <cstddef>

namespace flyball::testing {

std::size_t allocations() noexcept;  // so far, of all threads

template <class F>
std::size_t allocations_of(const F& work) {
  const std::size_t before = allocations();
  work();
  return allocations() - before;
}

}  // namespace flyball::testing
