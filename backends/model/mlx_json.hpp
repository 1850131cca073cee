// Fields of the JSON files of an MLX directory, read under suspicion: each refusal names file, field and
// value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "config/error.hpp"

namespace flyball::model {

// An object in a file; `file` names it, with the way to it: "config.json rope_scaling".
class MlxObject {
 public:
  // Precondition: object is one, and outlives this.
  MlxObject(const nlohmann::json& object, std::string file) : object_(&object), file_(std::move(file)) {}

  const nlohmann::json* find(std::string_view key) const;  // nullptr: absent or null
  const nlohmann::json& value() const noexcept { return *object_; }
  const std::string& file() const noexcept { return file_; }

  // Absent or null: nullopt. Of another type: model_invalid.
  Result<std::optional<std::uint64_t>> count(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;
  Result<std::optional<bool>> flag(std::string_view key) const;
  Result<std::optional<std::string>> text(std::string_view key) const;
  Result<std::optional<MlxObject>> object(std::string_view key) const;

  std::unexpected<Error> invalid(std::string_view key, const std::string& what) const;
  // model_unsupported: sound, but nothing that this build knows.
  std::unexpected<Error> unsupported(std::string_view key, const std::string& what) const;

 private:
  const nlohmann::json* object_;
  std::string file_;
};

// A value as a message shows it: printable, short.
std::string shown(const nlohmann::json& value);

}  // namespace flyball::model
