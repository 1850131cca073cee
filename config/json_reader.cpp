#include "config/json_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

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
    constexpr std::size_t kLooked = 16;  // so many keys are compared one by one, more are sorted
    Open& top = open_.back();
    const auto same = [&](const Key& known) { return out.written(known.at, known.size) == name; };
    if (top.sorted.empty() &&
        std::any_of(keys_.begin() + static_cast<std::ptrdiff_t>(top.first_key), keys_.end(), same))
      return twice();
    out.key(name);
    keys_.push_back({out.size() - name.size(), name.size()});
    if (keys_.size() - top.first_key <= kLooked) return true;
    if (top.sorted.empty())
      top.sorted =
          Sorted(keys_.begin() + static_cast<std::ptrdiff_t>(top.first_key), keys_.end() - 1, Less{&out});
    return top.sorted.insert(keys_.back()).second || twice();
  }

 private:
  struct Key {
    std::size_t at, size;  // in what is written
  };
  struct Less {
    const JsonPacker* packer = nullptr;
    bool operator()(const Key& a, const Key& b) const {
      return packer->written(a.at, a.size) < packer->written(b.at, b.size);
    }
  };
  using Sorted = std::set<Key, Less>;
  struct Open {
    std::size_t begin;      // the container's first byte in the document
    std::size_t first_key;  // its keys are keys_ from here
    Sorted sorted;          // all of them, once there are many
  };

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
