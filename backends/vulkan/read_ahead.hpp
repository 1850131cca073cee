// Reads mapped files ahead of a device that takes their pages as its kernels come to them: in the file's
// order and much at a time, where a fault reads what lies around one page.
#pragma once

#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace flyball::vulkan {

class ReadAhead {
 public:
  ReadAhead() = default;
  // Begins at once, on a thread of its own; without one to have, nothing is read ahead. The bytes outlive it.
  explicit ReadAhead(std::vector<std::span<const std::byte>> bytes);
  // Waits until all is read. Without it the end of the object ends the reading, too.
  void finish();

 private:
  std::jthread thread_;
};

}  // namespace flyball::vulkan
