// GGUF v3, little-endian, default alignment: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include "backends/model/gguf_writer.hpp"

#include <bit>
#include <cstdlib>
#include <type_traits>

namespace flyball::model {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
requires std::is_arithmetic_v<T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out.append(text);
}
void put_array_head(std::string& out, GgufType type, std::uint64_t count) {
  put(out, static_cast<std::uint32_t>(type));
  put(out, count);
}

std::uint64_t padded(std::uint64_t bytes) noexcept {
  return (bytes + kDefaultGgufAlignment - 1) / kDefaultGgufAlignment * kDefaultGgufAlignment;
}

}  // namespace

void GgufWriter::key(std::string_view name, GgufType type) {
  put(metadata_, name);
  put(metadata_, static_cast<std::uint32_t>(type));
  ++n_keys_;
}
void GgufWriter::set_u32(std::string_view name, std::uint32_t value) {
  key(name, GgufType::u32);
  put(metadata_, value);
}
void GgufWriter::set_f32(std::string_view name, float value) {
  key(name, GgufType::f32);
  put(metadata_, value);
}
void GgufWriter::set_bool(std::string_view name, bool value) {
  key(name, GgufType::boolean);
  put(metadata_, static_cast<std::uint8_t>(value));
}
void GgufWriter::set_string(std::string_view name, std::string_view value) {
  key(name, GgufType::string);
  put(metadata_, value);
}
void GgufWriter::set_strings(std::string_view name, std::span<const std::string> values) {
  key(name, GgufType::array);
  put_array_head(metadata_, GgufType::string, values.size());
  for (const auto& value : values) put(metadata_, std::string_view(value));
}
void GgufWriter::set_i32s(std::string_view name, std::span<const std::int32_t> values) {
  key(name, GgufType::array);
  put_array_head(metadata_, GgufType::i32, values.size());
  for (const auto value : values) put(metadata_, value);
}
void GgufWriter::set_f32s(std::string_view name, std::span<const float> values) {
  key(name, GgufType::array);
  put_array_head(metadata_, GgufType::f32, values.size());
  for (const auto value : values) put(metadata_, value);
}

std::size_t GgufWriter::add_tensor(std::string_view name, kernels::DType type,
                                   std::span<const std::uint64_t> dims) {
  const std::uint32_t type_id = kernels::row_of(type).gguf_type;
  if (type_id == kernels::FormatRow::kNoGguf) std::abort();
  std::uint64_t rows = 1;
  for (const auto dim : dims.subspan(1)) rows *= dim;
  const std::uint64_t bytes = kernels::row_bytes(type, dims[0]) * rows;
  tensors_.push_back({std::string(name), type_id, {dims.begin(), dims.end()}, data_bytes_, bytes});
  data_bytes_ += padded(bytes);
  return tensors_.size() - 1;
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  put(out, std::uint32_t{3});
  put(out, std::uint64_t{tensors_.size()});
  put(out, n_keys_);
  out += metadata_;
  for (const auto& tensor : tensors_) {
    put(out, std::string_view(tensor.name));
    put(out, static_cast<std::uint32_t>(tensor.dims.size()));
    for (const auto dim : tensor.dims) put(out, dim);
    put(out, tensor.type_id);
    put(out, tensor.offset);
  }
  out.resize(padded(out.size()));
  return out;
}

}  // namespace flyball::model
