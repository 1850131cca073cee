// The demo model inside the binary (packaging/demo_model: a demo, nothing more).
#pragma once

#include <cstddef>
#include <span>

namespace flyball::model {

std::span<const std::byte> embedded_demo_model() noexcept;

}  // namespace flyball::model
