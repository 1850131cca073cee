// GGUF v2 and v3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): metadata and tensor directory
// over bytes we do not trust. Every length is checked against the bytes that remain before it is used; all
// arithmetic is checked; the result only views the given bytes, which must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
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
inline constexpr std::uint64_t kMaxGgufArray =
    4'194'304;  // elements; the largest vocabularies hold under 600k
inline constexpr std::uint32_t kMaxGgufDims = 4;
inline constexpr std::uint64_t kMaxGgufKeyBytes = 65'535;  // the specification's limit
inline constexpr std::uint64_t kMaxGgufTensorName = 64;    // the specification's limit
inline constexpr std::uint64_t kDefaultGgufAlignment = 32;
inline constexpr std::uint64_t kMinGgufAlignment = 8, kMaxGgufAlignment = 65'536;

enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// The strings of an array where they lie in the file: each has its 8-byte length before it. Validated by
// parse. Only every 16th position is kept, so that a hostile file of empty strings costs half a byte each,
// not sixteen; operator[] walks at most 15 lengths.
class GgufStrings {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using reference = std::string_view;
    using pointer = void;
    Iterator() = default;
    explicit Iterator(const std::byte* at) noexcept : at_(at) {}
    std::string_view operator*() const noexcept {
      return {reinterpret_cast<const char*>(at_ + sizeof(std::uint64_t)), length()};
    }
    Iterator& operator++() noexcept {
      at_ += sizeof(std::uint64_t) + length();
      return *this;
    }
    Iterator operator++(int) noexcept {
      const auto before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    std::uint64_t length() const noexcept {
      std::uint64_t n = 0;
      std::memcpy(&n, at_, sizeof n);
      return n;
    }
    const std::byte* at_ = nullptr;
  };

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::string_view operator[](std::size_t i) const noexcept;  // precondition: i < size()
  Iterator begin() const noexcept { return Iterator(raw_.data()); }
  Iterator end() const noexcept { return Iterator(raw_.data() + raw_.size()); }

 private:
  friend class GgufReader;
  static constexpr std::size_t kStride = 16;
  std::span<const std::byte> raw_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> every_16th_;  // offsets into raw_
};

struct GgufArray {
  GgufType type = GgufType::u8;  // never array: nested arrays are refused
  std::uint64_t count = 0;
  std::span<const std::byte> raw;  // numbers: packed little-endian
  GgufStrings strings;             // when type is string
  // Element i as an integer or a float, whatever width the file has. Precondition: numeric type, i < count.
  std::int64_t int_at(std::uint64_t i) const noexcept;  // u64 beyond int64 wraps; floats truncate nothing: 0
  double float_at(std::uint64_t i) const noexcept;
};
// Integers are widened to 64 bits, f32 to double.
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string_view name;
  kernels::DType type = kernels::DType::f32;
  std::uint32_t n_dims = 0;
  std::uint64_t dims[kMaxGgufDims] = {1, 1, 1, 1};  // dims[0] is the contiguous one (columns)
  std::span<const std::byte> data;                  // exactly the tensor's bytes, inside the file
  // Of affine types, which no GGUF file has: one for each group of dims[0], of scale_type.
  std::span<const std::byte> scales, biases;
  kernels::DType scale_type = kernels::DType::f32;
  std::uint64_t rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
  std::uint64_t bytes() const noexcept { return data.size() + scales.size() + biases.size(); }
};

class Gguf {
 public:
  // model_invalid with the field and its byte offset.
  static Result<Gguf> parse(std::span<const std::byte> file);
  // A model of another format in GGUF's terms: metadata as GgufWriter writes it, and tensors by GGUF's names
  // that lie elsewhere. All that is given is viewed. model_invalid also where two tensors have one name.
  static Result<Gguf> assemble(std::span<const std::byte> metadata, std::vector<GgufTensor> tensors);

  std::uint32_t version() const noexcept { return version_; }  // of assemble()'s: that of the metadata
  const std::map<std::string_view, GgufValue>& metadata() const noexcept { return metadata_; }
  const std::vector<GgufTensor>& tensors() const noexcept { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const noexcept;  // nullptr: none of that name

  // Typed look-ups. Absent key: nullopt. Present with another type, or out of range: model_invalid naming the
  // key.
  Result<std::optional<std::uint64_t>> get_uint(std::string_view key) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> get_string(std::string_view key) const;
  Result<const GgufArray*> get_array(std::string_view key) const;  // nullptr: absent

 private:
  friend class GgufReader;
  Result<void> index_names();
  std::uint32_t version_ = 0;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, in order of name
};

// Text of an untrusted file in a message: printable ASCII, cut at 64 characters.
std::string printable(std::string_view text);
// "F32, F16 and Q4_0": the tensor types that this build reads, for messages.
std::string readable_types();

}  // namespace flyball::model
