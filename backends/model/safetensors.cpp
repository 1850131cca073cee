#include "backends/model/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/model/gguf.hpp"
#include "backends/model/invalid.hpp"
#include "config/json_reader.hpp"

namespace flyball::model {

static_assert(std::endian::native == std::endian::little, "safetensors' numbers are read in place");

namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
// A tensor takes at least 60 bytes of a directory and has eight values (itself, three fields, and a number
// for its dimension and each end of its place). The limit leaves room for more dimensions and metadata.
constexpr JsonLimits kLimits{.depth = 4, .nodes = kMaxSafetensorsHeader / 60 * 8};

struct ElementType {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr ElementType kElementTypes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"U32", 4}, {"I32", 4},
                                         {"U8", 1},  {"I8", 1},  {"U16", 2},  {"I16", 2}, {"F64", 8},
                                         {"U64", 8}, {"I64", 8}, {"BOOL", 1}};

// Reads one entry of the directory; `data` is all of the tensors' bytes.
class EntryReader {
 public:
  EntryReader(const std::string& name, const json& entry, std::span<const std::byte> data)
      : name_(printable(name)), entry_(entry), data_(data) {}

  Result<SafeTensor> read(const std::string& name) const {
    if (name.empty() || name.size() > kMaxSafetensorsName)
      return refuse("has a name of " + std::to_string(name.size()) + " bytes; 1 to " +
                    std::to_string(kMaxSafetensorsName) + " are allowed");
    if (!entry_.is_object() || entry_.size() != 3)
      return refuse("is not described by dtype, shape and data_offsets");
    SafeTensor tensor;
    tensor.name = name;
    const auto size = read_shape(tensor);
    if (!size) return pass(size);
    const auto place = read_place();
    if (!place) return pass(place);
    const auto [begin, end] = *place;
    if (end - begin != *size)
      return refuse("of " + std::to_string(*size) + " bytes lies from " + std::to_string(begin) + " to " +
                    std::to_string(end));
    tensor.data = data_.subspan(begin, end - begin);
    return tensor;
  }

 private:
  std::unexpected<Error> refuse(const std::string& what) const {
    return invalid("the tensor " + name_ + " " + what, name_.empty() ? "the header" : name_);
  }

  Result<std::vector<std::uint64_t>> numbers(const char* field) const {
    const auto it = entry_.find(field);
    if (it == entry_.end() || !it->is_array())
      return refuse(std::string("has no ") + field + " that is a list");
    if (it->size() > kMaxSafetensorsDims)
      return refuse(std::string("has ") + std::to_string(it->size()) + " numbers as its " + field +
                    "; at most " + std::to_string(kMaxSafetensorsDims) + " are allowed");
    std::vector<std::uint64_t> out;
    for (const json& number : *it) {
      if (!number.is_number_unsigned())
        return refuse(std::string("has something in its ") + field + " that is no count");
      out.push_back(number.get<std::uint64_t>());
    }
    return out;
  }

  // The tensor's bytes.
  Result<std::uint64_t> read_shape(SafeTensor& tensor) const {
    const auto dtype = entry_.find("dtype");
    if (dtype == entry_.end() || !dtype->is_string()) return refuse("has no dtype");
    tensor.dtype = dtype->get<std::string>();
    const auto* type = std::ranges::find(kElementTypes, tensor.dtype, &ElementType::name);
    if (type == std::end(kElementTypes))
      return refuse("is of the type " + printable(tensor.dtype) + ", which this build does not know");
    auto shape = numbers("shape");
    if (!shape) return pass(shape);
    tensor.shape = std::move(*shape);
    std::uint64_t size = type->bytes;
    for (const std::uint64_t dim : tensor.shape) {
      if (dim == 0) return refuse("has a dimension of 0");
      if (__builtin_mul_overflow(size, dim, &size)) return refuse("has a shape beyond 64 bits");
    }
    return size;
  }

  Result<std::pair<std::uint64_t, std::uint64_t>> read_place() const {
    const auto offsets = numbers("data_offsets");
    if (!offsets) return pass(offsets);
    if (offsets->size() != 2) return refuse("has no beginning and end as its data_offsets");
    const std::uint64_t begin = (*offsets)[0], end = (*offsets)[1];
    if (begin > end || end > data_.size())
      return refuse("lies from " + std::to_string(begin) + " to " + std::to_string(end) + ", outside the " +
                    std::to_string(data_.size()) + " bytes of tensor data");
    return std::pair(begin, end);
  }

  std::string name_;
  const json& entry_;
  std::span<const std::byte> data_;
};

// Each tensor begins where another ends: nothing lies twice, and no byte is unaccounted for.
Result<void> check_places(const std::vector<SafeTensor>& tensors, std::span<const std::byte> data) {
  std::vector<const SafeTensor*> in_order;
  for (const SafeTensor& tensor : tensors) in_order.push_back(&tensor);
  std::ranges::sort(in_order, {}, [](const SafeTensor* t) { return t->data.data(); });
  const std::byte* at = data.data();
  for (const SafeTensor* tensor : in_order) {
    const auto begin = tensor->data.data() - data.data();
    if (tensor->data.data() != at)
      return invalid("the tensor " + printable(tensor->name) + " begins at byte " + std::to_string(begin) +
                         " of the tensor data, where byte " + std::to_string(at - data.data()) + " is next",
                     printable(tensor->name));
    at += tensor->data.size();
  }
  if (at != data.data() + data.size())
    return invalid("the last " + std::to_string(data.data() + data.size() - at) +
                       " bytes of tensor data belong to no tensor",
                   "tensor data");
  return {};
}

}  // namespace

Result<std::vector<SafeTensor>> read_safetensors(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes)
    return invalid("the file of " + std::to_string(file.size()) + " bytes ends inside its header's length",
                   "byte 0");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  const std::uint64_t room = file.size() - kLengthBytes;
  if (length > kMaxSafetensorsHeader || length > room)
    return invalid("the header claims " + std::to_string(length) + " bytes where " + std::to_string(room) +
                       " remain and " + std::to_string(kMaxSafetensorsHeader) + " are allowed",
                   "byte 0");
  const auto header =
      read_json({reinterpret_cast<const char*>(file.data() + kLengthBytes), static_cast<std::size_t>(length)},
                kLimits, "The header");
  if (!header) return invalid(header.error().message, header.error().where);
  if (!header->is_object()) return invalid("the header is not a JSON object", "byte 8");
  if (header->size() > kMaxSafetensors + 1)
    return invalid("the header names " + std::to_string(header->size()) + " tensors, the limit is " +
                       std::to_string(kMaxSafetensors),
                   "byte 8");
  const auto data = file.subspan(kLengthBytes + length);
  std::vector<SafeTensor> out;
  for (const auto& [name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    auto tensor = EntryReader(name, entry, data).read(name);
    if (!tensor) return pass(tensor);
    out.push_back(std::move(*tensor));
  }
  if (auto ok = check_places(out, data); !ok) return pass(ok);
  return out;
}

}  // namespace flyball::model
