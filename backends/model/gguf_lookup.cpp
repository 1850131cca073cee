// What a parsed file answers: tensors by name, metadata by key and type.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/model/gguf.hpp"

namespace flyball::model {
namespace {

std::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted) {
  return fail(ErrorCode::model_invalid,
              "the metadata key " + printable(key) + " is not " + std::string(wanted), {}, std::string(key));
}

}  // namespace

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
