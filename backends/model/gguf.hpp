// GGUF v2 and v3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata and tensor directory over
// bytes we do not trust. Every length is checked against the bytes that remain before it is used; all arithmetic
// is checked; the result only views the given bytes, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/error.hpp"
#include "kernels/formats/dtype.hpp"

namespace flyball::model {

inline constexpr std::uint64_t kMaxGgufKeys = 65'536;
inline constexpr std::uint64_t kMaxGgufTensors = 65'536;
inline constexpr std::uint64_t kMaxGgufArray = 4'194'304;  // elements; the largest vocabularies hold under 600k
inline constexpr std::uint32_t kMaxGgufDims = 4;

enum class GgufType : std::uint32_t {
  u8 = 0, i8 = 1, u16 = 2, i16 = 3, u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9,
  u64 = 10, i64 = 11, f64 = 12,
};

struct GgufArray {
  GgufType type = GgufType::u8;              // never array: nested arrays are refused
  std::uint64_t count = 0;
  std::span<const std::byte> raw;            // numbers: packed little-endian
  std::vector<std::string_view> strings;     // when type is string
};
// Integers are widened to 64 bits, f32 to double.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string_view name;
  kernels::DType type = kernels::DType::f32;
  std::uint32_t n_dims = 0;
  std::uint64_t dims[kMaxGgufDims] = {1, 1, 1, 1};  // dims[0] is the contiguous one (columns)
  std::span<const std::byte> data;                  // exactly the tensor's bytes, inside the file
  std::uint64_t rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
};

class Gguf {
 public:
  // model_invalid with the field and its byte offset.
  static Result<Gguf> parse(std::span<const std::byte> file);

  std::uint32_t version() const noexcept { return version_; }
  const std::map<std::string_view, GgufValue>& metadata() const noexcept { return metadata_; }
  const std::vector<GgufTensor>& tensors() const noexcept { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const noexcept;  // nullptr: none of that name

  // Typed look-ups. Absent key: nullopt. Present with another type, or out of range: model_invalid naming the key.
  Result<std::optional<std::uint64_t>> get_uint(std::string_view key) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> get_string(std::string_view key) const;
  Result<const GgufArray*> get_array(std::string_view key) const;  // nullptr: absent

 private:
  std::uint32_t version_ = 0;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace flyball::model
