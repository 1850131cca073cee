#include "backends/model/key_reader.hpp"

#include <utility>

namespace flyball::model {
namespace {

bool holds_integers(const GgufArray& array) {
  return array.type != GgufType::string && array.type != GgufType::f32 && array.type != GgufType::f64;
}

}  // namespace

std::uint32_t KeyReader::keep(Error error) {
  if (!error_) error_ = std::move(error);
  return 1;  // harmless in the divisions between here and the check of error()
}

std::uint32_t KeyReader::refuse(const std::string& key, const std::string& what) {
  return keep(Error{ErrorCode::model_invalid, key + " " + what, {}, key});
}

std::uint32_t KeyReader::count(std::string_view name, std::uint64_t limit, std::uint64_t fallback) {
  const auto key = this->key(name);
  const auto value = file_->get_uint(key);
  if (!value) return keep(value.error());
  if (!*value && fallback == 0)
    return keep(Error{ErrorCode::model_invalid, "the metadata key " + key + " is missing", {}, key});
  const auto n = value->value_or(fallback);
  if (n == 0 || n > limit)
    return refuse(key, "is " + std::to_string(n) + "; 1 to " + std::to_string(limit) + " is allowed");
  return static_cast<std::uint32_t>(n);
}

std::uint32_t KeyReader::count_or_none(std::string_view name, std::uint64_t limit) {
  const auto value = file_->get_uint(key(name));
  if (!value) return keep(value.error());
  return value->value_or(0) == 0 ? 0 : count(name, limit);
}

const GgufArray* KeyReader::array(const std::string& key) const {
  const auto it = file_->metadata().find(key);
  return it == file_->metadata().end() ? nullptr : std::get_if<GgufArray>(&it->second);
}

std::uint32_t KeyReader::uniform_count(std::string_view name, std::uint64_t limit, std::uint64_t fallback) {
  const auto key = this->key(name);
  const GgufArray* counts = array(key);
  if (counts == nullptr) return count(name, limit, fallback);
  const bool integers = counts->count > 0 && holds_integers(*counts) && counts->type != GgufType::boolean;
  const std::int64_t first = integers ? counts->int_at(0) : 0;
  bool same = first > 0;
  for (std::uint64_t i = 1; same && i < counts->count; ++i) same = counts->int_at(i) == first;
  if (!same) return refuse(key, "differs between layers, which this build does not read");
  if (static_cast<std::uint64_t>(first) > limit)
    return refuse(
        key, "is " + std::to_string(first) + " in each layer; 1 to " + std::to_string(limit) + " is allowed");
  return static_cast<std::uint32_t>(first);
}

float KeyReader::number(std::string_view name, float low, float high, float fallback) {
  const auto key = this->key(name);
  const auto value = file_->get_float(key);
  if (!value) return static_cast<float>(keep(value.error()));
  if (!*value) return fallback;
  if (**value < static_cast<double>(low) || **value > static_cast<double>(high))
    return static_cast<float>(refuse(key, "is " + std::to_string(**value) + "; " + std::to_string(low) +
                                              " to " + std::to_string(high) + " is allowed"));
  return static_cast<float>(**value);
}

float KeyReader::number_or_off(std::string_view name, float low, float high, float fallback) {
  const auto value = file_->get_float(key(name));
  return value && *value == 0.0 ? 0.0F : number(name, low, high, fallback);
}

float KeyReader::required_number(std::string_view name, float low, float high) {
  const auto key = this->key(name);
  if (!has(name)) keep(Error{ErrorCode::model_invalid, "the metadata key " + key + " is missing", {}, key});
  return number(name, low, high, low);
}

std::string KeyReader::text(std::string_view name) {
  const auto value = file_->get_string(key(name));
  if (!value) return keep(value.error()), std::string();
  return std::string(value->value_or(""));
}

bool KeyReader::flag(std::string_view name, bool fallback) {
  const auto value = file_->get_bool(key(name));
  if (!value) return keep(value.error()), fallback;
  return value->value_or(fallback);
}

std::optional<std::vector<bool>> KeyReader::flags(std::string_view name, std::uint32_t n) {
  const auto key = this->key(name);
  const GgufArray* values = array(key);
  if (values == nullptr) return std::nullopt;
  if (!holds_integers(*values) || values->count != n) {
    refuse(key, "is no array of " + std::to_string(n) + " flags, one a layer; it has " +
                    std::to_string(values->count) + " values");
    return std::nullopt;
  }
  std::vector<bool> flags(n);
  for (std::uint32_t i = 0; i < n; ++i) flags[i] = values->int_at(i) != 0;
  return flags;
}

}  // namespace flyball::model
