#include "config/json_reader.hpp"

#include <optional>
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

class Builder final : public nlohmann::json_sax<json> {
 public:
  Builder(JsonLimits limits, std::string_view what, const char* begin, const char* const& seen)
      : limits_(limits), what_(what), begin_(begin), seen_(seen) {}

  json root;
  std::optional<Error> error;

  bool null() override { return place(nullptr) != nullptr; }
  bool boolean(bool value) override { return place(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return place(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return place(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return place(value) != nullptr; }
  bool string(string_t& value) override { return place(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return refuse(ErrorCode::invalid_json, "Binary values are not JSON"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    auto [it, fresh] = stack_.back()->get_ref<json::object_t&>().try_emplace(name, nullptr);
    if (!fresh) return refuse(ErrorCode::invalid_json, "A key appears twice in one object");
    slot_ = &it->second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& trouble) override {
    constexpr int kOutOfRange = 406;  // the parser's number for it
    // The parser's own words quote the input; ours do not.
    const char* wrong =
        trouble.id == kOutOfRange ? " has a number beyond what a double holds" : " is not valid JSON";
    return refuse_at(ErrorCode::invalid_json, what_ + wrong, position > 0 ? position - 1 : 0);
  }

 private:
  template <class V>
  json* place(V&& value) {
    if (++nodes_ > limits_.nodes) {
      refuse(ErrorCode::json_too_large,
             what_ + " has more than " + std::to_string(limits_.nodes) + " JSON values");
      return nullptr;
    }
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
    if (stack_.size() == limits_.depth)
      return refuse(ErrorCode::json_too_deep,
                    what_ + " nests deeper than " + std::to_string(limits_.depth) + " levels");
    json* placed = place(std::move(container));
    if (!placed) return false;
    stack_.push_back(placed);
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  bool refuse(ErrorCode code, std::string message) {
    const auto at = static_cast<std::size_t>(seen_ - begin_);
    return refuse_at(code, std::move(message), at > 0 ? at - 1 : 0);
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
  std::vector<json*> stack_;  // open containers; a container's address is stable while it is open
  json* slot_ = nullptr;      // value of the key just read
  std::size_t nodes_ = 0;
};

}  // namespace

Result<json> read_json(std::string_view text, JsonLimits limits, std::string_view what) {
  if (text.empty())
    return fail(ErrorCode::invalid_json, std::string(what) + " is empty, and no JSON.", {}, "byte 0");
  const char* seen = text.data();
  Builder builder(limits, what, text.data(), seen);
  const bool ok = json::sax_parse(CountingIterator(text.data(), &seen),
                                  CountingIterator(text.data() + text.size(), &seen), &builder);
  if (!ok) {
    if (builder.error) return std::unexpected(std::move(*builder.error));
    return fail(ErrorCode::invalid_json, std::string(what) + " is not valid JSON.");
  }
  return std::move(builder.root);
}

}  // namespace flyball
