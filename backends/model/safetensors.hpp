// Safetensors (https://huggingface.co/docs/safetensors): the directory of a file we do not trust. An 8-byte
// length, so many bytes of JSON (name -> dtype, shape, place), then the tensors, each beginning where the one
// before ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"

namespace flyball::model {

// A directory's bytes; the largest published models, of 200 bytes a tensor, stay below 4 MiB.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 16'777'216;
// Tensors in all files of a model: 384 experts in 60 layers, three matrices with scales and biases each, are
// 207,360.
inline constexpr std::uint64_t kMaxSafetensors = 1'048'576;
inline constexpr std::size_t kMaxSafetensorsDims = 4;
inline constexpr std::size_t kMaxSafetensorsName = 256;

struct SafeTensor {
  std::string name;
  std::string dtype;  // "F32", "F16", "BF16", "U32", and others that a reader has no use for
  std::vector<std::uint64_t>
      shape;                        // at most kMaxSafetensorsDims, none 0; the last one is the contiguous one
  std::span<const std::byte> data;  // exactly the tensor's bytes, inside the file, at any alignment
};

// In order of name; the views are into `file`. model_invalid with the value, the limit and the place.
Result<std::vector<SafeTensor>> read_safetensors(std::span<const std::byte> file);

}  // namespace flyball::model
