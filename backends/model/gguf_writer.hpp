// Writing GGUF v3: metadata and tensor directory to bytes; the tensors' data is the caller's to place, at the
// offsets given here. No I/O. Used by make-model and by tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/model/gguf.hpp"
#include "kernels/formats/dtype.hpp"

namespace flyball::model {

class GgufWriter {
 public:
  void set_u32(std::string_view key, std::uint32_t value);
  void set_f32(std::string_view key, float value);
  void set_bool(std::string_view key, bool value);
  void set_string(std::string_view key, std::string_view value);
  void set_strings(std::string_view key, std::span<const std::string> values);
  void set_i32s(std::string_view key, std::span<const std::int32_t> values);
  void set_f32s(std::string_view key, std::span<const float> values);

  // type: one of GGUF. dims[0] is the contiguous one and a multiple of the type's block. Returns the tensor's
  // index.
  std::size_t add_tensor(std::string_view name, kernels::DType type, std::span<const std::uint64_t> dims);

  // Everything before the tensors' data, padded to the alignment: data begins at header().size().
  std::string header() const;
  // From the start of the tensors' data; the last one may be followed by no padding.
  std::uint64_t tensor_offset(std::size_t index) const noexcept { return tensors_[index].offset; }
  std::uint64_t tensor_bytes(std::size_t index) const noexcept { return tensors_[index].bytes; }
  std::uint64_t data_bytes() const noexcept { return data_bytes_; }  // padding included

 private:
  struct Tensor {
    std::string name;
    std::uint32_t type_id;  // ggml's
    std::vector<std::uint64_t> dims;
    std::uint64_t offset, bytes;
  };
  void key(std::string_view name, GgufType type);

  std::string metadata_;
  std::uint64_t n_keys_ = 0;
  std::vector<Tensor> tensors_;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace flyball::model
