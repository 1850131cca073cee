#include "daemon/api/native/model_and_engine.hpp"

#include "config/json_reader.hpp"
#include "config/name_list.hpp"

namespace flyball::api::native {

Result<ModelAndEngine> parse_model_and_engine(std::string_view text) {
  const auto packed = read_packed(text);
  if (!packed) return pass(packed);
  const JsonView body = packed->view();
  if (!body.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  ModelAndEngine out;
  for (const auto& [key, value] : body.members()) {
    if (key != "model" && key != "engine")
      return fail(ErrorCode::unknown_field,
                  "There is no field " + config::not_among(key, {"model", "engine"}) + ".",
                  std::string(key.substr(0, 100)));
    if (!value.is_string())
      return fail(ErrorCode::invalid_value, "'" + std::string(key) + "' must be a string.", std::string(key));
    if (value.text().empty())
      return fail(ErrorCode::invalid_value, "'" + std::string(key) + "' must not be empty.",
                  std::string(key));
    (key == "model" ? out.model : out.engine) = value.text();
  }
  if (out.model.empty()) return fail(ErrorCode::missing_field, "'model' is missing.", "model");
  return out;
}

}  // namespace flyball::api::native
