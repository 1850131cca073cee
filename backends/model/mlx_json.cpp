#include "backends/model/mlx_json.hpp"

#include <cmath>

#include "backends/model/gguf.hpp"

namespace flyball::model {

using nlohmann::json;

std::string shown(const json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) {
    const auto type = value.find("type");
    return type != value.end() && type->is_string() ? printable(type->get_ref<const std::string&>())
                                                    : "an object";
  }
  if (value.is_string()) return "\"" + printable(value.get_ref<const std::string&>()) + "\"";
  return value.dump();
}

const json* MlxObject::find(std::string_view key) const {
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

std::unexpected<Error> MlxObject::invalid(std::string_view key, const std::string& what) const {
  return fail(ErrorCode::model_invalid, file_ + ": " + std::string(key) + " " + what, {}, std::string(key));
}
std::unexpected<Error> MlxObject::unsupported(std::string_view key, const std::string& what) const {
  return fail(ErrorCode::model_unsupported, file_ + ": " + std::string(key) + " " + what, {},
              std::string(key));
}

Result<std::optional<std::uint64_t>> MlxObject::count(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned()) return invalid(key, "is " + shown(*value) + ", not a count");
  return value->get<std::uint64_t>();
}

Result<std::optional<double>> MlxObject::number(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    return invalid(key, "is " + shown(*value) + ", not a number");
  return value->get<double>();
}

Result<std::optional<bool>> MlxObject::flag(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return invalid(key, "is " + shown(*value) + ", not true or false");
  return value->get<bool>();
}

Result<std::optional<std::string>> MlxObject::text(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return invalid(key, "is " + shown(*value) + ", not a text");
  return value->get<std::string>();
}

Result<std::optional<MlxObject>> MlxObject::object(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) return invalid(key, "is " + shown(*value) + ", not an object");
  return MlxObject(*value, file_ + " " + std::string(key));
}

}  // namespace flyball::model
