// One JSON value as bytes that are read in place. read_packed (json_reader) parses a client's document into
// them once; whoever needs a part of it copies that part's bytes, over the process line too.
//
// A value is a tag of one byte and, little-endian without padding:
//   null, false, true  nothing
//   integer            i64
//   digits             u32 size, the digits as written: an integer beyond 64 signed bits
//   real               f64
//   string             u32 size, UTF-8
//   array, object      u32 json_bytes, u32 count, u32 size of the members, the members;
//                      a member of an object is u32 size and UTF-8 of its key, then its value
// json_bytes is the length of the container as JSON text, blanks within it included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "config/error.hpp"

namespace flyball {

enum class JsonKind : std::uint8_t { null, no, yes, integer, digits, real, string, array, object };

// A value inside packed bytes, which outlive it. Absent (a null view) unless found.
class JsonView {
 public:
  JsonView() = default;

  explicit operator bool() const noexcept { return at_ != nullptr; }
  JsonKind kind() const noexcept { return static_cast<JsonKind>(*at_); }
  bool is(JsonKind kind) const noexcept { return at_ != nullptr && this->kind() == kind; }
  bool is_null() const noexcept { return is(JsonKind::null); }
  bool is_string() const noexcept { return is(JsonKind::string); }
  bool is_array() const noexcept { return is(JsonKind::array); }
  bool is_object() const noexcept { return is(JsonKind::object); }
  bool is_boolean() const noexcept { return is(JsonKind::no) || is(JsonKind::yes); }
  bool is_integer() const noexcept { return is(JsonKind::integer); }
  bool is_number() const noexcept { return is_integer() || is(JsonKind::digits) || is(JsonKind::real); }

  // The kind is the precondition of each.
  bool as_bool() const noexcept { return kind() == JsonKind::yes; }
  std::int64_t as_integer() const noexcept;
  double as_double() const noexcept;  // any number, rounded
  std::optional<std::uint64_t> as_unsigned()
      const noexcept;                         // any number; nullopt: not an integer of 64 bits
  std::string_view text() const noexcept;     // string, or digits
  std::uint32_t size() const noexcept;        // members of an array or object
  std::uint32_t json_bytes() const noexcept;  // array or object

  // The member of an object, an absent view where there is none. Looks at every key before it.
  JsonView find(std::string_view key) const noexcept;
  // The same, absent where the member is null.
  JsonView member(std::string_view key) const noexcept;

  // "null", "boolean", "number", "string", "array", "object"
  const char* type_name() const noexcept;
  std::string_view bytes() const noexcept;  // of the whole value

  class Members;
  Members members() const noexcept;  // of an array or object; of an array, keys are ""

 private:
  friend class PackedJson;
  explicit JsonView(const char* at) : at_(at) {}
  const char* at_ = nullptr;
};

class JsonView::Members {
 public:
  struct Member {
    std::string_view key;
    JsonView value;
  };
  class Iterator {
   public:
    Member operator*() const noexcept;
    Iterator& operator++() noexcept;
    bool operator==(const Iterator& other) const noexcept { return at_ == other.at_; }

   private:
    friend class Members;
    Iterator(const char* at, bool keyed) : at_(at), keyed_(keyed) {}
    const char* at_;
    bool keyed_;
  };
  Iterator begin() const noexcept { return {begin_, keyed_}; }
  Iterator end() const noexcept { return {end_, keyed_}; }

 private:
  friend class JsonView;
  const char *begin_ = nullptr, *end_ = nullptr;
  bool keyed_ = false;
};

// Owns the bytes of one value, or of none. They are always well formed, so JsonView need not check, and never
// change, so copies share them, on other threads too.
class PackedJson {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 30;  // sizes inside are 32 bits
  // Bytes from another process nest no deeper than a document may.
  static constexpr std::size_t kMaxDepth = 64;

  PackedJson() = default;
  explicit PackedJson(JsonView value) : PackedJson(std::string(value.bytes())) {}  // a copy of its bytes
  // Bytes from another process, looked through once. invalid_json naming the byte; json_too_deep.
  static Result<PackedJson> from_bytes(std::string bytes);

  bool empty() const noexcept { return bytes_ == nullptr; }
  JsonView view() const noexcept { return empty() ? JsonView() : JsonView(bytes_->data()); }
  std::string_view bytes() const noexcept { return empty() ? std::string_view() : *bytes_; }
  const std::shared_ptr<const std::string>& shared() const noexcept { return bytes_; }  // nullptr: no value
  // Its length as JSON text, 0 where there is no value. Precondition: an array, an object or no value.
  std::uint64_t json_bytes() const noexcept { return empty() ? 0 : view().json_bytes(); }

 private:
  friend class JsonPacker;
  explicit PackedJson(std::string bytes)
      : bytes_(bytes.empty() ? nullptr : std::make_shared<const std::string>(std::move(bytes))) {}
  std::shared_ptr<const std::string> bytes_;  // nullptr: no value
};

// Writes one value. Containers are opened and closed in pairs; inside an object each value follows its key.
class JsonPacker {
 public:
  void reserve(std::size_t bytes) { out_.reserve(bytes); }
  void null() { tag(JsonKind::null); }
  void boolean(bool value) { tag(value ? JsonKind::yes : JsonKind::no); }
  void integer(std::int64_t value);
  void digits(std::string_view text);
  void real(double value);
  void string(std::string_view text);  // UTF-8
  void value(JsonView value);          // a copy
  void key(std::string_view name);     // UTF-8; the one before the value that comes next
  void open(JsonKind kind);            // array or object
  void close(std::uint32_t json_bytes);

  std::size_t size() const noexcept { return out_.size(); }
  std::string_view written(std::size_t at, std::size_t n) const noexcept {
    return std::string_view(out_).substr(at, n);
  }
  PackedJson take() { return PackedJson(std::move(out_)); }

 private:
  struct Open {
    std::size_t header;  // of the container
    std::uint32_t count = 0;
  };
  void tag(JsonKind kind);
  void u32(std::uint32_t value);
  void put_u32(std::size_t at, std::uint32_t value);

  std::string out_;
  std::vector<Open> open_;
};

// The same value as the JSON library has it; null of an absent view.
nlohmann::json to_nlohmann(JsonView value);

}  // namespace flyball
