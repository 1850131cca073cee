// Figures of a machine on which a cold GPU is worth waiting for, or not.
#pragma once

#include "daemon/measure/book.hpp"

namespace flyball::testing {

// The processor takes some 0.2 s for a first token. The GPU is ten times faster once it has loaded the model,
// which takes it 1 s.
inline measure::Book book_of_a_slow_processor(const config::ModelEntry& model) {
  const measure::Engine cpu{
      "cpu", "a processor", "v1", {.read_gbps = 10, .float_gops = 1e6, .measured_at = 1}};
  const measure::Engine gpu{
      "vulkan", "a device", "v1", {.read_gbps = 100, .float_gops = 1e7, .measured_at = 1}};
  const measure::ModelSize size{40'000'000'000, 1'000'000'000, 40'000'000'000, false, false};
  const measure::Engine engines[] = {cpu, gpu};
  return measure::Book({}, engines, {&model, 1}, {{{model.id, size}}, nullptr, nullptr});
}

}  // namespace flyball::testing
