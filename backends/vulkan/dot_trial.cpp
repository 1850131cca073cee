#include "backends/vulkan/dot_trial.hpp"

#include <algorithm>

#include "backends/vulkan/matmul_plan.hpp"

namespace flyball::vulkan {
namespace {

constexpr std::uint32_t kGroup = 64, kPairs = 256;

// Pair i: every byte value there is, at every place.
std::uint32_t word_of(std::uint32_t i, std::uint32_t step) noexcept {
  std::uint32_t word = 0;
  for (std::uint32_t byte = 0; byte < 4; ++byte) word |= ((i * step + 67 * byte) & 0xffU) << (8 * byte);
  return word;
}

}  // namespace

bool dots_are_right(std::span<const std::uint32_t> words, std::span<const std::int32_t> dots) noexcept {
  const auto byte_of = [](std::uint32_t word, std::uint32_t i) {
    return static_cast<std::int32_t>(static_cast<std::int8_t>(word >> (8 * i) & 0xffU));
  };
  for (std::size_t pair = 0; pair < dots.size(); ++pair) {
    std::int32_t want = 0;
    for (std::uint32_t i = 0; i < 4; ++i)
      want += byte_of(words[2 * pair], i) * byte_of(words[2 * pair + 1], i);
    if (dots[pair] != want) return false;
  }
  return true;
}

Result<bool> dots_are_right(Device& device) {
  const std::uint32_t constants[] = {std::min(kGroup, device.facts().max_work_group)};
  auto kernel = device.pipeline("matmul_dot_trial", constants, sizeof(ElementwisePush));
  if (!kernel) return pass(kernel);
  auto buffer = device.allocate(3 * kPairs * sizeof(std::uint32_t), "a trial of dot products", Place::shared);
  if (!buffer) return pass(buffer);
  const std::span words(reinterpret_cast<std::uint32_t*>(buffer->host()), 2 * kPairs);
  const std::span dots(reinterpret_cast<std::int32_t*>(buffer->host()) + words.size(), kPairs);
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    words[2 * i] = word_of(i, 1);
    words[2 * i + 1] = word_of(i, 3);
    dots[i] = -1;
  }
  const ElementwisePush push{buffer->address(), buffer->address() + words.size_bytes(), kPairs, 0};
  auto ran = device.run([&](Commands& c) {
    c.dispatch(*kernel, push, {divided_up(kPairs, constants[0]), 1, 1});
  });
  if (!ran) return pass(ran);
  return dots_are_right(words, dots);
}

}  // namespace flyball::vulkan
