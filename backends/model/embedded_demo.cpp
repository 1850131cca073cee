// FLYBALL_HAS_DEMO_MODEL is set by CMake where packaging/demo_model/demo.gguf exists.
#include "backends/model/embedded_demo.hpp"

#ifdef FLYBALL_HAS_DEMO_MODEL
#include "embedded/demo_model.hpp"
#endif

namespace flyball::model {

std::span<const std::byte> embedded_demo_model() noexcept {
#ifdef FLYBALL_HAS_DEMO_MODEL
  return embedded::demo_model();
#else
  return {};
#endif
}

}  // namespace flyball::model
