// The JSON Schema of a table, for editors: the same rows that check_shape reads.
#include <nlohmann/json.hpp>

#include "config/table.hpp"
#include "config/units.hpp"

namespace flyball::config {
namespace {

using Json = nlohmann::ordered_json;

class SchemaWriter {
 public:
  Json write(const Shape& shape) {
    switch (shape.kind) {
      case Shape::Kind::boolean:
        return {{"type", "boolean"}};
      case Shape::Kind::integer:
        return {{"type", "integer"}, {"minimum", shape.min}, {"maximum", shape.max}};
      case Shape::Kind::text: {
        Json out = {{"type", "string"}, {"minLength", shape.min}, {"maxLength", shape.max}};
        if (!shape.form->pattern.empty()) out["pattern"] = shape.form->pattern;
        return out;
      }
      case Shape::Kind::choice:
        return {{"enum", shape.names}};
      case Shape::Kind::duration:
        return {{"type", "string"},
                {"pattern", "^[0-9]+(ms|s|m|h)$"},
                {"description", "from " + format_duration(std::chrono::milliseconds(shape.min)) + " to " +
                                    format_duration(std::chrono::milliseconds(shape.max))}};
      case Shape::Kind::size:
        return {{"type", "string"},
                {"pattern", "^[0-9]+(B|KiB|MiB|GiB|TiB)$"},
                {"description", "from " + format_bytes(static_cast<std::uint64_t>(shape.min)) + " to " +
                                    format_bytes(static_cast<std::uint64_t>(shape.max))}};
      case Shape::Kind::scalar:
        return {{"type", {"boolean", "number", "string"}}};
      case Shape::Kind::list: {
        const Json element = write(*shape.element);
        Json out = {{"type", "array"}, {"items", element}, {"minItems", shape.min}, {"maxItems", shape.max}};
        return shape.or_single ? Json{{"anyOf", {element, out}}} : out;
      }
      case Shape::Kind::map:
        return {{"type", "object"},
                {"propertyNames", {{"pattern", kId.pattern}}},
                {"additionalProperties", write(*shape.element)},
                {"minProperties", shape.min},
                {"maxProperties", shape.max}};
      case Shape::Kind::object:
        return write_object(shape);
      case Shape::Kind::reference: {
        const std::string name(shape.name);
        if (!definitions_.contains(name)) {
          definitions_[name] = nullptr;  // before the visit: the shape may name itself
          Json body = write(shape.target());
          definitions_[name] = std::move(body);
        }
        return {{"$ref", "#/$defs/" + name}};
      }
    }
    return nullptr;
  }

  const Json& definitions() const { return definitions_; }

 private:
  Json write_object(const Shape& shape) {
    Json properties = Json::object();
    Json required = Json::array();
    for (const Row& row : shape.rows) {
      Json property = write(row.shape);
      std::string description(row.meaning);
      if (property.contains("description")) description += "; " + property["description"].get<std::string>();
      property["description"] = description;
      properties[std::string(row.key)] = std::move(property);
      if (row.required) required.push_back(row.key);
    }
    Json out = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
    if (!required.empty()) out["required"] = std::move(required);
    return out;
  }

  Json definitions_ = Json::object();
};

}  // namespace

std::string json_schema(const Shape& shape, std::string_view title) {
  SchemaWriter writer;
  const Json body = writer.write(shape);
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  out.update(body);
  if (!writer.definitions().empty()) out["$defs"] = writer.definitions();
  return out.dump(2) + "\n";
}

}  // namespace flyball::config
