#include "tests/harness/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> count{0};

void* counted(std::size_t size) {
  count.fetch_add(1, std::memory_order_relaxed);
  if (void* out = std::malloc(size == 0 ? 1 : size)) return out;
  throw std::bad_alloc();
}

// Not inlined: beside an operator new that is not, GCC takes free() for a mismatch.
[[gnu::noinline]] void give_back(void* at) noexcept {
  std::free(at);
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void operator delete(void* at) noexcept {
  give_back(at);
}
void operator delete[](void* at) noexcept {
  give_back(at);
}
void operator delete(void* at, std::size_t) noexcept {
  give_back(at);
}
void operator delete[](void* at, std::size_t) noexcept {
  give_back(at);
}

std::size_t flyball::testing::allocations() noexcept {
  return count.load(std::memory_order_relaxed);
}
