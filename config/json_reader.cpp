#include "config/json_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/keyed_hash.hpp"

namespace flyball {
namespace {

using nlohmann::json;

// Counts the bytes the parser has consumed, so that refusals of our own can name a place too.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *seen_ = ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** seen_;
};

// The base of both builders: the limits, and refusals that name their place.
class Bounded : public nlohmann::json_sax<json> {
 public:
  Bounded(JsonLimits limits, std::string_view what, const char* begin, const char* const& seen)
      : limits_(limits), what_(what), begin_(begin), seen_(seen) {}

  std::optional<Error> error;

  bool binary(binary_t&) override { return refuse(ErrorCode::invalid_json, "Binary values are not JSON"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& trouble) override {
    constexpr int kOutOfRange = 406;  // the parser's number for it
    // The parser's own words quote the input; ours do not.
    const char* wrong =
        trouble.id == kOutOfRange ? " has a number beyond what a double holds" : " is not valid JSON";
    return refuse_at(ErrorCode::invalid_json, what_ + wrong, position > 0 ? position - 1 : 0);
  }

 protected:
  // Bytes of the document read so far.
  std::size_t position() const noexcept { return static_cast<std::size_t>(seen_ - begin_); }
  // Whether one more value may be.
  bool count() {
    return ++nodes_ <= limits_.nodes ||
           refuse(ErrorCode::json_too_large,
                  what_ + " has more than " + std::to_string(limits_.nodes) + " JSON values");
  }
  // Whether a container may begin inside `open` others.
  bool may_open(std::size_t open) {
    return open < limits_.depth ||
           refuse(ErrorCode::json_too_deep,
                  what_ + " nests deeper than " + std::to_string(limits_.depth) + " levels");
  }
  bool twice() { return refuse(ErrorCode::invalid_json, "A key appears twice in one object"); }

 private:
  bool refuse(ErrorCode code, std::string message) {
    return refuse_at(code, std::move(message), position() > 0 ? position() - 1 : 0);
  }
  bool refuse_at(ErrorCode code, std::string message, std::size_t byte) {
    const std::string place = "byte " + std::to_string(byte);
    if (!error) error = Error{code, std::move(message) + " (at " + place + ").", {}, place};
    return false;
  }

  const JsonLimits limits_;
  const std::string what_;
  const char* const begin_;
  const char* const& seen_;
  std::size_t nodes_ = 0;
};

class Builder final : public Bounded {
 public:
  using Bounded::Bounded;

  json root;

  bool null() override { return place(nullptr) != nullptr; }
  bool boolean(bool value) override { return place(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return place(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return place(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return place(value) != nullptr; }
  bool string(string_t& value) override { return place(std::move(value)) != nullptr; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto [it, fresh] = stack_.back()->get_ref<json::object_t&>().try_emplace(name, nullptr);
    if (!fresh) return twice();
    slot_ = &it->second;
    return true;
  }

 private:
  template <class V>
  json* place(V&& value) {
    if (!count()) return nullptr;
    if (stack_.empty()) {
      root = json(std::forward<V>(value));
      return &root;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) return &parent.get_ref<json::array_t&>().emplace_back(std::forward<V>(value));
    *slot_ = json(std::forward<V>(value));
    return slot_;
  }

  bool open(json container) {
    if (!may_open(stack_.size())) return false;
    json* placed = place(std::move(container));
    if (!placed) return false;
    stack_.push_back(placed);
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  std::vector<json*> stack_;  // open containers; a container's address is stable while it is open
  json* slot_ = nullptr;      // value of the key just read
};

class Packer final : public Bounded {
 public:
  using Bounded::Bounded;

  JsonPacker out;

  bool null() override { return count() && (out.null(), true); }
  bool boolean(bool value) override { return count() && (out.boolean(value), true); }
  bool number_integer(number_integer_t value) override { return count() && (out.integer(value), true); }
  bool number_unsigned(number_unsigned_t value) override {
    if (!count()) return false;
    if (value <= static_cast<number_unsigned_t>(INT64_MAX))
      out.integer(static_cast<std::int64_t>(value));
    else
      out.digits(std::to_string(value));
    return true;
  }
  bool number_float(number_float_t value, const string_t& written) override {
    if (!count()) return false;
    if (written.find_first_of(".eE") == std::string::npos)
      out.digits(written);
    else
      out.real(value);
    return true;
  }
  bool string(string_t& value) override { return count() && (out.string(value), true); }
  bool start_object(std::size_t) override { return open(JsonKind::object); }
  bool start_array(std::size_t) override { return open(JsonKind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    constexpr std::size_t kCompared = 16;  // so many keys are compared one by one; more are hashed
    Open& top = open_.back();
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(top.first_key);
    if (keys_.size() - top.first_key < kCompared) {
      if (std::any_of(first, keys_.end(), [&](const Key& known) { return text_of(known) == name; }))
        return twice();
    } else {
      if (!hash_) hash_ = KeyedHash::random();
      if (top.hashed.empty())
        for (std::size_t i = top.first_key; i < keys_.size(); ++i) insert(top, text_of(keys_[i]), i);
      if (!insert(top, name, keys_.size())) return twice();
    }
    out.key(name);
    keys_.push_back({out.size() - name.size(), name.size()});
    return true;
  }

 private:
  struct Key {
    std::size_t at, size;  // in what is written
  };
  // A place in an open object's table of keys, which is found by the low bits of the hash.
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t key = kFree;  // its index in keys_
  };
  static constexpr std::uint32_t kFree = UINT32_MAX;
  struct Open {
    std::size_t begin;         // the container's first byte in the document
    std::size_t first_key;     // its keys are keys_ from here
    std::vector<Slot> hashed;  // all of them, once there are many; a power of two, at most half of it taken
  };

  std::string_view text_of(const Key& key) const noexcept { return out.written(key.at, key.size); }

  // False: the object has the key already.
  bool insert(Open& object, std::string_view name, std::size_t index) {
    if (object.hashed.size() < 2 * (index + 1 - object.first_key)) {
      std::vector<Slot> wider(std::bit_ceil(4 * (index + 1 - object.first_key)));
      for (const Slot& slot : object.hashed)
        if (slot.key != kFree) place_of(wider, slot.hash, [](const Slot&) { return false; }) = slot;
      object.hashed = std::move(wider);
    }
    const auto hash = static_cast<std::uint32_t>((*hash_)(name));
    Slot& place = place_of(object.hashed, hash, [&](const Slot& slot) {
      return slot.hash == hash && text_of(keys_[slot.key]) == name;
    });
    if (place.key != kFree) return false;
    place = {hash, static_cast<std::uint32_t>(index)};
    return true;
  }
  // The slot for which `same` is true, or the free one where the search ends.
  static Slot& place_of(std::vector<Slot>& slots, std::uint32_t hash, const auto& same) {
    for (std::size_t i = hash;; ++i) {
      Slot& slot = slots[i & (slots.size() - 1)];
      if (slot.key == kFree || same(slot)) return slot;
    }
  }

  bool open(JsonKind kind) {
    if (!may_open(open_.size()) || !count()) return false;
    out.open(kind);
    open_.push_back({position() - 1, keys_.size(), {}});
    return true;
  }

  bool close() {
    out.close(static_cast<std::uint32_t>(position() - open_.back().begin));
    keys_.resize(open_.back().first_key);
    open_.pop_back();
    return true;
  }

  std::vector<Key> keys_;
  std::vector<Open> open_;
  std::optional<KeyedHash> hash_;  // drawn for the document's first large object
};

// Nothing, or why the document was refused.
std::optional<Error> read(Bounded& builder, std::string_view text, const char*& seen, std::string_view what) {
  const bool ok = json::sax_parse(CountingIterator(text.data(), &seen),
                                  CountingIterator(text.data() + text.size(), &seen), &builder);
  if (ok) return std::nullopt;
  if (builder.error) return std::move(builder.error);
  return Error{ErrorCode::invalid_json, std::string(what) + " is not valid JSON.", {}, {}};
}

std::unexpected<Error> nothing(std::string_view what) {
  return fail(ErrorCode::invalid_json, std::string(what) + " is empty, and no JSON.", {}, "byte 0");
}

}  // namespace

Result<json> read_json(std::string_view text, JsonLimits limits, std::string_view what) {
  if (text.empty()) return nothing(what);
  const char* seen = text.data();
  Builder builder(limits, what, text.data(), seen);
  if (auto error = read(builder, text, seen, what)) return std::unexpected(std::move(*error));
  return std::move(builder.root);
}

Result<PackedJson> read_packed(std::string_view text, JsonLimits limits, std::string_view what) {
  if (text.empty()) return nothing(what);
  if (text.size() > kMaxPackedText)
    return fail(ErrorCode::json_too_large, std::string(what) + " has " + std::to_string(text.size()) +
                                               " bytes; the limit is " + std::to_string(kMaxPackedText) +
                                               ".");
  const char* seen = text.data();
  Packer packer(limits, what, text.data(), seen);
  packer.out.reserve(text.size() + text.size() / 8);
  if (auto error = read(packer, text, seen, what)) return std::unexpected(std::move(*error));
  return packer.out.take();
}

}  // namespace flyball
