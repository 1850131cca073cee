#include "config/packed_json.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "config/utf8.hpp"

namespace flyball {
namespace {

constexpr std::size_t kSize = 4;         // of a u32
constexpr std::size_t kNumber = 8;       // of an i64 or f64
constexpr std::size_t kHeader = 1 + 12;  // of an array or object: tag, json_bytes, count, size

std::uint32_t get_u32(const char* at) noexcept {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < kSize; ++i)
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(at[i])) << (8 * i);
  return value;
}

std::uint64_t get_u64(const char* at) noexcept {
  return get_u32(at) | static_cast<std::uint64_t>(get_u32(at + kSize)) << 32;
}

bool is_container(JsonKind kind) noexcept {
  return kind == JsonKind::array || kind == JsonKind::object;
}

// The bytes of a well-formed value.
std::size_t size_of(const char* at) noexcept {
  switch (static_cast<JsonKind>(*at)) {
    case JsonKind::null:
    case JsonKind::no:
    case JsonKind::yes:
      return 1;
    case JsonKind::integer:
    case JsonKind::real:
      return 1 + kNumber;
    case JsonKind::digits:
    case JsonKind::string:
      return 1 + kSize + get_u32(at + 1);
    case JsonKind::array:
    case JsonKind::object:
      break;
  }
  return kHeader + get_u32(at + 1 + 2 * kSize);
}

// An integer as JSON spells it, but for leading zeros.
bool is_digits(std::string_view text) noexcept {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Walks bytes that another process sent.
class Checker {
 public:
  explicit Checker(std::string_view bytes) : bytes_(bytes) {}

  Result<void> run() {
    if (bytes_.size() >= PackedJson::kMaxBytes) return refuse("is too long");
    if (auto ok = value(bytes_.size()); !ok) return pass(ok);
    while (!open_.empty()) {
      Open& top = open_.back();
      if (top.left == 0) {
        if (at_ != top.end) return refuse("has bytes behind its last member");
        open_.pop_back();
        continue;
      }
      --top.left;
      const std::size_t end = top.end;
      if (top.keyed)
        if (auto ok = text(end); !ok) return pass(ok);
      if (auto ok = value(end); !ok) return pass(ok);
    }
    if (at_ != bytes_.size()) return refuse("has bytes left over");
    return {};
  }

 private:
  struct Open {
    std::size_t end;
    std::uint32_t left;  // members not seen yet
    bool keyed;
  };

  std::unexpected<Error> refuse(const char* why) const {
    const std::string place = "byte " + std::to_string(at_);
    return fail(ErrorCode::invalid_json, std::string("A packed JSON value ") + why + " (at " + place + ").",
                {}, place);
  }
  bool has(std::size_t n, std::size_t end) const noexcept { return n <= end - at_; }

  Result<void> text(std::size_t end, bool digits = false) {
    if (!has(kSize, end)) return refuse("is cut off");
    const std::size_t size = get_u32(bytes_.data() + at_);
    at_ += kSize;
    if (!has(size, end)) return refuse("is cut off");
    const std::string_view view = bytes_.substr(at_, size);
    if (digits ? !is_digits(view) : !is_utf8(view))
      return refuse(digits ? "has a number that is none" : "has text that is not UTF-8");
    at_ += size;
    return {};
  }

  Result<void> value(std::size_t end) {
    if (!has(1, end)) return refuse("is cut off");
    const auto tag = static_cast<unsigned char>(bytes_[at_]);
    if (tag > static_cast<unsigned char>(JsonKind::object)) return refuse("has an unknown tag");
    const auto kind = static_cast<JsonKind>(tag);
    if (is_container(kind)) return container(kind, end);
    ++at_;
    if (kind == JsonKind::string || kind == JsonKind::digits) return text(end, kind == JsonKind::digits);
    if (kind != JsonKind::integer && kind != JsonKind::real) return {};
    if (!has(kNumber, end)) return refuse("is cut off");
    if (kind == JsonKind::real && !std::isfinite(std::bit_cast<double>(get_u64(bytes_.data() + at_))))
      return refuse("has a number that is not finite");
    at_ += kNumber;
    return {};
  }

  Result<void> container(JsonKind kind, std::size_t end) {
    if (open_.size() == PackedJson::kMaxDepth)
      return fail(ErrorCode::json_too_deep, "A packed JSON value nests deeper than " +
                                                std::to_string(PackedJson::kMaxDepth) + " levels.");
    if (!has(kHeader, end)) return refuse("is cut off");
    const char* header = bytes_.data() + at_;
    const std::size_t size = get_u32(header + 1 + 2 * kSize);
    at_ += kHeader;
    if (!has(size, end)) return refuse("is cut off");
    open_.push_back({at_ + size, get_u32(header + 1 + kSize), kind == JsonKind::object});
    return {};
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::vector<Open> open_;
};

}  // namespace

// ---- JsonView ---------------------------------------------------------------------------------------------

std::int64_t JsonView::as_integer() const noexcept {
  return static_cast<std::int64_t>(get_u64(at_ + 1));
}

double JsonView::as_double() const noexcept {
  if (kind() == JsonKind::integer) return static_cast<double>(as_integer());
  if (kind() == JsonKind::real) return std::bit_cast<double>(get_u64(at_ + 1));
  double value = 0;
  const std::string_view digits = text();
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::optional<std::uint64_t> JsonView::as_unsigned() const noexcept {
  if (kind() == JsonKind::integer && as_integer() >= 0) return static_cast<std::uint64_t>(as_integer());
  if (kind() != JsonKind::digits) return std::nullopt;
  std::uint64_t value = 0;
  const std::string_view digits = text();
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (ec != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::string_view JsonView::text() const noexcept {
  return {at_ + 1 + kSize, get_u32(at_ + 1)};
}
std::uint32_t JsonView::json_bytes() const noexcept {
  return get_u32(at_ + 1);
}
std::uint32_t JsonView::size() const noexcept {
  return get_u32(at_ + 1 + kSize);
}

JsonView JsonView::find(std::string_view key) const noexcept {
  for (const auto& [name, value] : members())
    if (name == key) return value;
  return {};
}

JsonView JsonView::member(std::string_view key) const noexcept {
  const JsonView found = find(key);
  return found.is_null() ? JsonView() : found;
}

const char* JsonView::type_name() const noexcept {
  switch (kind()) {
    case JsonKind::null:
      return "null";
    case JsonKind::no:
    case JsonKind::yes:
      return "boolean";
    case JsonKind::integer:
    case JsonKind::digits:
    case JsonKind::real:
      return "number";
    case JsonKind::string:
      return "string";
    case JsonKind::array:
      return "array";
    case JsonKind::object:
      break;
  }
  return "object";
}

std::string_view JsonView::bytes() const noexcept {
  return {at_, size_of(at_)};
}

JsonView::Members JsonView::members() const noexcept {
  Members out;
  out.begin_ = at_ + kHeader;
  out.end_ = at_ + size_of(at_);
  out.keyed_ = kind() == JsonKind::object;
  return out;
}

JsonView::Members::Member JsonView::Members::Iterator::operator*() const noexcept {
  if (!keyed_) return {{}, JsonView(at_)};
  const std::string_view key(at_ + kSize, get_u32(at_));
  return {key, JsonView(key.data() + key.size())};
}

JsonView::Members::Iterator& JsonView::Members::Iterator::operator++() noexcept {
  if (keyed_) at_ += kSize + get_u32(at_);
  at_ += size_of(at_);
  return *this;
}

// ---- PackedJson -------------------------------------------------------------------------------------------

Result<PackedJson> PackedJson::from_bytes(std::string bytes) {
  if (auto ok = Checker(bytes).run(); !ok) return pass(ok);
  return PackedJson(std::move(bytes));
}

// ---- JsonPacker -------------------------------------------------------------------------------------------

void JsonPacker::tag(JsonKind kind) {
  if (!open_.empty()) ++open_.back().count;
  out_.push_back(static_cast<char>(kind));
}

void JsonPacker::u32(std::uint32_t value) {
  char bytes[kSize];
  for (unsigned i = 0; i < kSize; ++i) bytes[i] = static_cast<char>((value >> (8 * i)) & 0xFF);
  out_.append(bytes, kSize);
}

void JsonPacker::put_u32(std::size_t at, std::uint32_t value) {
  for (unsigned i = 0; i < kSize; ++i) out_[at + i] = static_cast<char>((value >> (8 * i)) & 0xFF);
}

void JsonPacker::integer(std::int64_t value) {
  tag(JsonKind::integer);
  u32(static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)));
  u32(static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32));
}

void JsonPacker::digits(std::string_view text) {
  tag(JsonKind::digits);
  key(text);
}

void JsonPacker::real(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  tag(JsonKind::real);
  u32(static_cast<std::uint32_t>(bits));
  u32(static_cast<std::uint32_t>(bits >> 32));
}

void JsonPacker::string(std::string_view text) {
  tag(JsonKind::string);
  key(text);
}

void JsonPacker::value(JsonView value) {
  if (!open_.empty()) ++open_.back().count;
  out_.append(value.bytes());
}

void JsonPacker::key(std::string_view name) {
  u32(static_cast<std::uint32_t>(name.size()));
  out_.append(name);
}

void JsonPacker::open(JsonKind kind) {
  tag(kind);
  open_.push_back({out_.size() - 1});
  out_.append(kHeader - 1, '\0');
}

void JsonPacker::close(std::uint32_t json_bytes) {
  const Open top = open_.back();
  open_.pop_back();
  put_u32(top.header + 1, json_bytes);
  put_u32(top.header + 1 + kSize, top.count);
  put_u32(top.header + 1 + 2 * kSize, static_cast<std::uint32_t>(out_.size() - top.header - kHeader));
}

// ---- the JSON library's own type --------------------------------------------------------------------------

nlohmann::json to_nlohmann(JsonView value) {
  using nlohmann::json;
  if (!value || value.is_null()) return nullptr;
  if (value.is_boolean()) return value.as_bool();
  if (value.is_string()) return std::string(value.text());
  if (value.is_number()) {
    if (const auto whole = value.as_unsigned()) return *whole;
    return value.is_integer() ? json(value.as_integer()) : json(value.as_double());
  }
  json out = value.is_array() ? json::array() : json::object();
  for (const auto& [key, member] : value.members()) {
    if (value.is_array())
      out.push_back(to_nlohmann(member));
    else
      out[std::string(key)] = to_nlohmann(member);
  }
  return out;
}

}  // namespace flyball
