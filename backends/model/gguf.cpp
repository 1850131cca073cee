// GGUF parsing: one cursor over untrusted bytes, then the tensor directory against the file's size; and
// look-ups in what was parsed.
#include "backends/model/gguf.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "backends/model/gguf_outline.hpp"

namespace flyball::model {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read in place");

namespace {

constexpr std::array<std::byte, 4> kMagic{std::byte{'G'}, std::byte{'G'}, std::byte{'U'}, std::byte{'F'}};
// The smallest record of its kind: it bounds a count by the bytes that remain, before anything is reserved.
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;  // length, one character, type, one byte of value
constexpr std::uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;  // length, name, n_dims, one dim, type, offset

// ggml's names of tensor types by their numbers (ggml.h), those too that this build cannot read.
struct TensorType {
  std::uint32_t id;
  std::string_view name;
};
constexpr TensorType kTensorTypes[] = {
    {0, "F32"},     {1, "F16"},    {2, "Q4_0"},     {3, "Q4_1"},    {6, "Q5_0"},     {7, "Q5_1"},
    {8, "Q8_0"},    {9, "Q8_1"},   {10, "Q2_K"},    {11, "Q3_K"},   {12, "Q4_K"},    {13, "Q5_K"},
    {14, "Q6_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},
    {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {30, "BF16"},    {34, "TQ1_0"},
    {35, "TQ2_0"},  {39, "MXFP4"},
};
constexpr bool rows_have_their_numbers() {
  return std::ranges::all_of(kernels::kAllDTypes, [](kernels::DType type) {
    const auto& row = kernels::row_of(type);
    return std::ranges::any_of(
        kTensorTypes, [&](const TensorType& t) { return t.id == row.gguf_type && t.name == row.name; });
  });
}
static_assert(rows_have_their_numbers(), "kTensorTypes lacks a row of format_table.h, or gives its number to another type");

std::string tensor_type_name(std::uint32_t id) {
  const auto* it = std::ranges::find(kTensorTypes, id, &TensorType::id);
  return it == std::end(kTensorTypes) ? "type " + std::to_string(id) : std::string(it->name);
}

bool is_named(std::uint32_t type) {
  return std::ranges::find(kTensorTypes, type, &TensorType::id) != std::end(kTensorTypes);
}

// Bytes of one element of a metadata array, 0 for those without a fixed size.
std::uint64_t element_bytes(GgufType type) noexcept {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

std::unexpected<Error> invalid_at(std::string message, std::uint64_t offset) {
  return fail(ErrorCode::model_invalid, std::move(message), {}, "byte " + std::to_string(offset));
}

std::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted) {
  return fail(ErrorCode::model_invalid,
              "the metadata key " + printable(key) + " is not " + std::string(wanted), {}, std::string(key));
}

template <class T>
T load(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

std::string readable_types() {
  std::string out(to_string(kernels::kAllDTypes.front()));
  for (std::size_t i = 1; i < kernels::kAllDTypes.size(); ++i) {
    out += i + 1 < kernels::kAllDTypes.size() ? ", " : " and ";
    out += to_string(kernels::kAllDTypes[i]);
  }
  return out;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMaxShown = 64;
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return text.size() > kMaxShown ? out + "..." : out;
}

std::string_view GgufStrings::operator[](std::size_t i) const noexcept {
  Iterator it(raw_.data() + every_16th_[i / kStride]);
  for (std::size_t left = i % kStride; left > 0; --left) ++it;
  return *it;
}

std::int64_t GgufArray::int_at(std::uint64_t i) const noexcept {
  const auto* at = raw.data() + i * element_bytes(type);
  switch (type) {
    case GgufType::u8:
    case GgufType::boolean:
      return load<std::uint8_t>(at);
    case GgufType::i8:
      return load<std::int8_t>(at);
    case GgufType::u16:
      return load<std::uint16_t>(at);
    case GgufType::i16:
      return load<std::int16_t>(at);
    case GgufType::u32:
      return load<std::uint32_t>(at);
    case GgufType::i32:
      return load<std::int32_t>(at);
    case GgufType::u64:
    case GgufType::i64:
      return load<std::int64_t>(at);
    default:
      return 0;
  }
}

double GgufArray::float_at(std::uint64_t i) const noexcept {
  const auto* at = raw.data() + i * element_bytes(type);
  if (type == GgufType::f32) return load<float>(at);
  if (type == GgufType::f64) return load<double>(at);
  return static_cast<double>(int_at(i));
}

// Reads forward over the file; every read first compares what it needs with what remains.
class GgufReader {
 public:
  explicit GgufReader(std::span<const std::byte> file) : file_(file) {}

  Result<Gguf> read() {
    Gguf out;
    if (auto ok = read_directory(out); !ok) return pass(ok);
    if (auto ok = out.index_names(); !ok) return pass(ok);
    if (auto ok = place_tensors(out); !ok) return pass(ok);
    return out;
  }

  // Tensors of types that no DType names are counted alone.
  Result<GgufOutline> outline() {
    GgufOutline out;
    outline_ = &out;
    Gguf directory;
    if (auto ok = read_directory(directory); !ok) return pass(ok);
    if (const auto name = directory.get_string("general.architecture"); name && *name)
      out.architecture = printable(**name);
    return out;
  }

 private:
  Result<void> read_directory(Gguf& out) {
    std::uint64_t n_tensors = 0;
    std::uint64_t n_keys = 0;
    if (auto ok = read_header(out, n_tensors, n_keys); !ok) return pass(ok);
    for (std::uint64_t i = 0; i < n_keys; ++i) {
      if (auto ok = read_key(out); !ok) return pass(ok);
    }
    if (auto ok = read_alignment(out); !ok) return pass(ok);
    if (remaining() / kMinTensorBytes < n_tensors) {
      return invalid_at(
          "the file ends inside its tensor directory (" + std::to_string(n_tensors) + " tensors)", at_);
    }
    out.tensors_.reserve(n_tensors);
    offsets_.reserve(n_tensors);
    for (std::uint64_t i = 0; i < n_tensors; ++i) {
      if (auto ok = read_tensor(out); !ok) return pass(ok);
    }
    return {};
  }

  static constexpr std::uint64_t kNoLimit =
      std::numeric_limits<std::uint64_t>::max();  // but the bytes that remain

  std::uint64_t remaining() const noexcept { return file_.size() - at_; }

  template <class T>
  Result<T> number(const char* what) {
    if (remaining() < sizeof(T)) return invalid_at(std::string("the file ends inside ") + what, at_);
    const T value = load<T>(file_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

  Result<std::string_view> string(const char* what, std::uint64_t limit) {
    const auto start = at_;
    const auto length = number<std::uint64_t>(what);
    if (!length) return pass(length);
    if (*length > limit) {
      return invalid_at(std::string(what) + " has " + std::to_string(*length) + " bytes, the limit is " +
                            std::to_string(limit),
                        start);
    }
    if (*length > remaining()) {
      return invalid_at(std::string(what) + " claims " + std::to_string(*length) + " bytes where " +
                            std::to_string(remaining()) + " remain",
                        start);
    }
    const std::string_view value(reinterpret_cast<const char*>(file_.data() + at_), *length);
    at_ += *length;
    return value;
  }

  Result<void> read_header(Gguf& out, std::uint64_t& n_tensors, std::uint64_t& n_keys) {
    if (remaining() < kMagic.size() || !std::ranges::equal(file_.first(kMagic.size()), kMagic)) {
      return invalid_at("not a GGUF file: it does not begin with GGUF", 0);
    }
    at_ = kMagic.size();
    const auto version = number<std::uint32_t>("the version");
    if (!version) return pass(version);
    if (*version == 0x0200'0000 || *version == 0x0300'0000) return invalid_at("a big-endian GGUF file", 4);
    if (*version != 2 && *version != 3) {
      return invalid_at("GGUF version " + std::to_string(*version) + "; this build reads 2 and 3", 4);
    }
    out.version_ = *version;
    const auto tensors = number<std::uint64_t>("the tensor count");
    if (!tensors) return pass(tensors);
    if (*tensors > kMaxGgufTensors) {
      return invalid_at("the tensor count is " + std::to_string(*tensors) + ", the limit is " +
                            std::to_string(kMaxGgufTensors),
                        8);
    }
    const auto keys = number<std::uint64_t>("the metadata count");
    if (!keys) return pass(keys);
    if (*keys > kMaxGgufKeys) {
      return invalid_at(
          "the metadata count is " + std::to_string(*keys) + ", the limit is " + std::to_string(kMaxGgufKeys),
          16);
    }
    if (remaining() / kMinKeyBytes < *keys) {
      return invalid_at("the file ends inside its metadata (" + std::to_string(*keys) + " keys)", at_);
    }
    n_tensors = *tensors;
    n_keys = *keys;
    return {};
  }

  Result<void> read_key(Gguf& out) {
    const auto start = at_;
    const auto key = string("a metadata key", kMaxGgufKeyBytes);
    if (!key) return pass(key);
    if (key->empty()) return invalid_at("a metadata key is empty", start);
    const auto type = number<std::uint32_t>("the type of a metadata value");
    if (!type) return pass(type);
    auto value = read_value(*key, *type);
    if (!value) return pass(value);
    if (!out.metadata_.emplace(*key, std::move(*value)).second) {
      return invalid_at("the metadata key " + printable(*key) + " appears twice", start);
    }
    return {};
  }

  template <class Stored, class Widened>
  Result<GgufValue> widened() {
    const auto value = number<Stored>("a metadata value");
    if (!value) return pass(value);
    return GgufValue(static_cast<Widened>(*value));
  }

  Result<GgufValue> read_value(std::string_view key, std::uint32_t type) {
    switch (static_cast<GgufType>(type)) {
      case GgufType::u8:
        return widened<std::uint8_t, std::uint64_t>();
      case GgufType::i8:
        return widened<std::int8_t, std::int64_t>();
      case GgufType::u16:
        return widened<std::uint16_t, std::uint64_t>();
      case GgufType::i16:
        return widened<std::int16_t, std::int64_t>();
      case GgufType::u32:
        return widened<std::uint32_t, std::uint64_t>();
      case GgufType::i32:
        return widened<std::int32_t, std::int64_t>();
      case GgufType::f32:
        return widened<float, double>();
      case GgufType::u64:
        return widened<std::uint64_t, std::uint64_t>();
      case GgufType::i64:
        return widened<std::int64_t, std::int64_t>();
      case GgufType::f64:
        return widened<double, double>();
      case GgufType::boolean: {
        const auto value = number<std::uint8_t>("a metadata value");
        if (!value) return pass(value);
        if (*value > 1) {
          return invalid_at("the boolean " + printable(key) + " is " + std::to_string(*value), at_ - 1);
        }
        return GgufValue(*value == 1);
      }
      case GgufType::string: {
        const auto value = string("a metadata string", kNoLimit);
        if (!value) return pass(value);
        return GgufValue(*value);
      }
      case GgufType::array:
        return read_array(key);
    }
    return invalid_at("the metadata key " + printable(key) + " has the unknown type " + std::to_string(type),
                      at_ - 4);
  }

  Result<GgufValue> read_array(std::string_view key) {
    const auto start = at_;
    const auto type = number<std::uint32_t>("the element type of an array");
    if (!type) return pass(type);
    const auto count = number<std::uint64_t>("the length of an array");
    if (!count) return pass(count);
    if (*type > static_cast<std::uint32_t>(GgufType::f64)) {
      return invalid_at(
          "the array " + printable(key) + " has the unknown element type " + std::to_string(*type), start);
    }
    GgufArray array;
    array.type = static_cast<GgufType>(*type);
    array.count = *count;
    if (array.type == GgufType::array)
      return invalid_at("the array " + printable(key) + " holds arrays", start);
    if (*count > kMaxGgufArray) {
      return invalid_at("the array " + printable(key) + " has " + std::to_string(*count) +
                            " elements, the limit is " + std::to_string(kMaxGgufArray),
                        start);
    }
    const auto size = array.type == GgufType::string ? sizeof(std::uint64_t) : element_bytes(array.type);
    if (remaining() / size < *count) {
      return invalid_at("the array " + printable(key) + " claims " + std::to_string(*count) +
                            " elements of at least " + std::to_string(size) + " bytes where " +
                            std::to_string(remaining()) + " bytes remain",
                        start);
    }
    if (array.type != GgufType::string) {
      array.raw = file_.subspan(at_, *count * size);
      at_ += *count * size;
      return GgufValue(std::move(array));
    }
    const auto first = at_;
    auto& strings = array.strings;
    strings.every_16th_.reserve((*count + GgufStrings::kStride - 1) / GgufStrings::kStride);
    for (std::uint64_t i = 0; i < *count; ++i) {
      if (i % GgufStrings::kStride == 0) strings.every_16th_.push_back(at_ - first);
      if (auto ok = string("a string of an array", kNoLimit); !ok) return pass(ok);
    }
    strings.raw_ = file_.subspan(first, at_ - first);
    strings.size_ = *count;
    return GgufValue(std::move(array));
  }

  Result<void> read_alignment(const Gguf& out) {
    const auto value = out.get_uint("general.alignment");
    if (!value) return pass(value);
    alignment_ = value->value_or(kDefaultGgufAlignment);
    if (!std::has_single_bit(alignment_) || alignment_ < kMinGgufAlignment ||
        alignment_ > kMaxGgufAlignment) {
      return fail(ErrorCode::model_invalid,
                  "the alignment is " + std::to_string(alignment_) + "; it must be a power of two from " +
                      std::to_string(kMinGgufAlignment) + " to " + std::to_string(kMaxGgufAlignment),
                  {}, "general.alignment");
    }
    return {};
  }

  // Everything of one directory entry but its data, whose place is only known when the directory ends.
  Result<void> read_tensor(Gguf& out) {
    const auto start = at_;
    GgufTensor tensor;
    const auto name = string("a tensor name", kMaxGgufTensorName);
    if (!name) return pass(name);
    if (name->empty()) return invalid_at("a tensor name is empty", start);
    tensor.name = *name;
    const auto n_dims = number<std::uint32_t>("a tensor's dimensions");
    if (!n_dims) return pass(n_dims);
    if (*n_dims == 0 || *n_dims > kMaxGgufDims) {
      return invalid_at("the tensor " + printable(*name) + " has " + std::to_string(*n_dims) +
                            " dimensions; 1 to " + std::to_string(kMaxGgufDims) + " are allowed",
                        at_ - 4);
    }
    tensor.n_dims = *n_dims;
    std::uint64_t values = 1;
    for (std::uint32_t d = 0; d < *n_dims; ++d) {
      const auto dim = number<std::uint64_t>("a tensor's dimensions");
      if (!dim) return pass(dim);
      if (*dim == 0) return invalid_at("the tensor " + printable(*name) + " has a dimension of 0", at_ - 8);
      if (__builtin_mul_overflow(values, *dim, &values) ||
          values > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return invalid_at("the dimensions of the tensor " + printable(*name) + " overflow", at_ - 8);
      }
      tensor.dims[d] = *dim;
    }
    const auto type = number<std::uint32_t>("a tensor's type");
    if (!type) return pass(type);
    if (outline_ != nullptr) {
      GgufOutline::Tensors& tensors = outline_->types[is_named(*type) ? tensor_type_name(*type) : "unknown"];
      ++tensors.count;
      if (__builtin_add_overflow(tensors.values, values, &tensors.values)) tensors.values = kNoLimit;
      if (auto offset = number<std::uint64_t>("a tensor's offset"); !offset) return pass(offset);
      return {};
    }
    const auto known = kernels::dtype_of_gguf(*type);
    if (!known) {
      return invalid_at("the tensor " + printable(*name) + " has the type " + tensor_type_name(*type) +
                            "; this build reads " + readable_types(),
                        at_ - 4);
    }
    tensor.type = *known;
    const auto offset = number<std::uint64_t>("a tensor's offset");
    if (!offset) return pass(offset);
    if (*offset % alignment_ != 0) {
      return invalid_at("the offset " + std::to_string(*offset) + " of the tensor " + printable(*name) +
                            " is not a multiple of the alignment " + std::to_string(alignment_),
                        at_ - 8);
    }
    out.tensors_.push_back(tensor);
    offsets_.push_back(*offset);
    return {};
  }

  Result<void> place_tensors(Gguf& out) {
    if (out.tensors_.empty()) return {};
    std::uint64_t start = 0;
    if (__builtin_add_overflow(at_, alignment_ - 1, &start)) return invalid_at("the file is too large", at_);
    start &= ~(alignment_ - 1);
    if (start > file_.size()) return invalid_at("the file ends before its tensor data", file_.size());
    const std::uint64_t room = file_.size() - start;
    for (std::size_t i = 0; i < out.tensors_.size(); ++i) {
      auto& tensor = out.tensors_[i];
      const auto block = kernels::block_shape(tensor.type);
      if (tensor.dims[0] % block.values != 0) {
        return invalid_at("the rows of the tensor " + printable(tensor.name) + " have " +
                              std::to_string(tensor.dims[0]) + " values, not a multiple of the " +
                              std::to_string(block.values) + " of a " + std::string(to_string(tensor.type)) +
                              " block",
                          start);
      }
      // The product of all dimensions fits 63 bits (read_tensor); a block's bytes may exceed its values.
      const std::uint64_t blocks = tensor.dims[0] / block.values * tensor.rows();
      std::uint64_t size = 0;
      std::uint64_t end = 0;
      if (__builtin_mul_overflow(blocks, std::uint64_t{block.bytes}, &size) ||
          __builtin_add_overflow(offsets_[i], size, &end) || end > room) {
        return invalid_at("the tensor " + printable(tensor.name) + " at offset " +
                              std::to_string(offsets_[i]) + " lies outside the " + std::to_string(room) +
                              " bytes of tensor data",
                          start);
      }
      tensor.data = file_.subspan(start + offsets_[i], size);
    }
    return check_overlaps(out);
  }

  static Result<void> check_overlaps(const Gguf& out) {
    std::vector<std::uint32_t> order(out.tensors_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return out.tensors_[i].data.data(); });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const auto& before = out.tensors_[order[i - 1]];
      const auto& after = out.tensors_[order[i]];
      if (before.data.data() + before.data.size() > after.data.data()) {
        return fail(ErrorCode::model_invalid,
                    "the tensors " + printable(before.name) + " and " + printable(after.name) + " overlap");
      }
    }
    return {};
  }

  std::span<const std::byte> file_;
  std::uint64_t at_ = 0;
  std::uint64_t alignment_ = kDefaultGgufAlignment;
  std::vector<std::uint64_t> offsets_;  // of each tensor, from the start of the tensor data
  GgufOutline* outline_ = nullptr;      // tensors are counted there instead of being kept
};

Result<Gguf> Gguf::parse(std::span<const std::byte> file) {
  return GgufReader(file).read();
}

Result<GgufOutline> outline_gguf(std::span<const std::byte> file) {
  return GgufReader(file).outline();
}

Result<Gguf> Gguf::assemble(std::span<const std::byte> metadata, std::vector<GgufTensor> tensors) {
  auto out = parse(metadata);
  if (!out) return pass(out);
  out->tensors_ = std::move(tensors);
  if (auto ok = out->index_names(); !ok) return pass(ok);
  return out;
}

Result<void> Gguf::index_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  const auto name_of = [&](std::uint32_t i) { return tensors_[i].name; };
  std::ranges::sort(by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twice == by_name_.end()) return {};
  return fail(ErrorCode::model_invalid, "the tensor " + printable(name_of(*twice)) + " appears twice");
}

const GgufTensor* Gguf::tensor(std::string_view name) const noexcept {
  const auto name_of = [&](std::uint32_t i) { return tensors_[i].name; };
  const auto it = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return it == by_name_.end() || name_of(*it) != name ? nullptr : &tensors_[*it];
}

Result<std::optional<std::uint64_t>> Gguf::get_uint(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::nullopt;
  if (const auto* value = std::get_if<std::uint64_t>(&it->second)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&it->second); value != nullptr && *value >= 0) {
    return static_cast<std::uint64_t>(*value);
  }
  return wrong_type(key, "a non-negative integer");
}

Result<std::optional<double>> Gguf::get_float(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::nullopt;
  if (const auto* value = std::get_if<double>(&it->second); value != nullptr && std::isfinite(*value))
    return *value;
  return wrong_type(key, "a finite number");
}

Result<std::optional<bool>> Gguf::get_bool(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::nullopt;
  if (const auto* value = std::get_if<bool>(&it->second)) return *value;
  return wrong_type(key, "a boolean");
}

Result<std::optional<std::string_view>> Gguf::get_string(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return std::nullopt;
  if (const auto* value = std::get_if<std::string_view>(&it->second)) return *value;
  return wrong_type(key, "a string");
}

Result<const GgufArray*> Gguf::get_array(std::string_view key) const {
  const auto it = metadata_.find(key);
  if (it == metadata_.end()) return nullptr;
  if (const auto* value = std::get_if<GgufArray>(&it->second)) return value;
  return wrong_type(key, "an array");
}

}  // namespace flyball::model
