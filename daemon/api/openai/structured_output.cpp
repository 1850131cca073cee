#include "daemon/api/openai/structured_output.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "backends/constrain/constraint.hpp"
#include "config/json_reader.hpp"
#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/openai/field_table.hpp"

namespace flyball::api::openai {
namespace {

using Form = Constraint::Kind;

// A field of the body, or a member of structured_outputs, and the constraint that it holds.
struct NamedForm {
  std::string_view name;
  Form form;
};
constexpr std::array kFieldForms{
    NamedForm{"guided_json", Form::json_schema},
    NamedForm{"guided_regex", Form::regex},
    NamedForm{"guided_choice", Form::choice},
    NamedForm{"guided_grammar", Form::gbnf},
    NamedForm{"grammar", Form::gbnf},
    NamedForm{"json_schema", Form::json_schema},
    NamedForm{"regex", Form::regex},
    NamedForm{"ebnf", Form::gbnf},
    NamedForm{"structural_tag", Form::structural_tag},
};
constexpr std::array kStructuredForms{
    NamedForm{"json", Form::json_schema},
    NamedForm{"regex", Form::regex},
    NamedForm{"choice", Form::choice},
    NamedForm{"grammar", Form::gbnf},
    NamedForm{"structural_tag", Form::structural_tag},
};
constexpr std::array<std::string_view, 3> kTagMembers{"structures", "triggers", "format"};

// A string that is empty asks for nothing.
bool is_absent(JsonView value) {
  return !value || value.is_null() || (value.is_string() && value.text().empty());
}

bool is_empty_object(JsonView value) {
  return value.is_object() && value.members().begin() == value.members().end();
}

bool is_list_of_strings(JsonView value) {
  if (!value.is_array()) return false;
  for (const auto& [key, one] : value.members())
    if (!one.is_string()) return false;
  return true;
}

// `what` the object is. A string holds it as JSON text.
Result<PackedJson> read_object(JsonView value, const std::string& place, const std::string& what) {
  if (value.is_object()) return PackedJson(value);
  if (!value.is_string())
    return field_error(ErrorCode::invalid_value, place, "must be " + what + ", an object");
  auto object = read_packed(value.text(), {}, "'" + place + "'");
  if (!object) {
    object.error().param = place;
    return object;
  }
  if (!object->view().is_object())
    return field_error(ErrorCode::invalid_value, place, "must hold " + what + ", an object");
  return object;
}

// A response_format without the members that are not the structural tag's.
PackedJson tag_in(JsonView format) {
  JsonPacker packer;
  packer.open(JsonKind::object);
  for (const std::string_view name : kTagMembers)
    if (const JsonView value = format.member(name)) {
      packer.key(name);
      packer.value(value);
    }
  packer.close(format.json_bytes());
  return packer.take();
}

Result<PackedJson> read_source(Form form, JsonView value, const std::string& place) {
  if (form == Form::json_schema) return read_object(value, place, "a JSON schema");
  if (form == Form::structural_tag) return read_object(value, place, "a structural tag");
  if (form == Form::choice) {
    if (!is_list_of_strings(value))
      return field_error(ErrorCode::invalid_value, place, "must be an array of strings");
  } else if (!value.is_string()) {
    return field_error(ErrorCode::invalid_value, place, "must be a string");
  }
  return PackedJson(value);
}

class StructuredOutputReader {
 public:
  StructuredOutputReader(const Fields& body, UnknownFields& unknown) : body_(body), unknown_(unknown) {}

  Result<StructuredOutput> read() {
    auto ok = read_response_format();
    if (ok) ok = read_structured_outputs();
    for (const NamedForm& one : kFieldForms)
      if (ok) ok = add(one.form, body_.member(one.name), std::string(one.name));
    if (!ok) return pass(ok);
    if (out_.constraint) out_.constraint->compact = compact_ && may_hold_json();
    return std::move(out_);
  }

 private:
  bool may_hold_json() const {
    const Form form = out_.constraint->kind;
    return form == Form::json_object || form == Form::json_schema || form == Form::structural_tag;
  }

  Result<void> put(Form form, PackedJson source, std::string place) {
    if (out_.constraint) {
      std::string message =
          "'" + out_.field + "' and '" + place + "' are both set; an answer has one constraint.";
      return fail(ErrorCode::invalid_value, std::move(message), std::move(place));
    }
    Constraint constraint{form, std::move(source)};
    if (auto ok = constrain::check_size(constraint); !ok)
      return std::unexpected(refusal_at(place, ok.error()));
    out_.constraint = std::move(constraint);
    out_.field = std::move(place);
    return {};
  }

  Result<void> add(Form form, JsonView value, std::string place) {
    if (is_absent(value)) return {};
    auto source = read_source(form, value, place);
    if (!source) return pass(source);
    return put(form, std::move(*source), std::move(place));
  }

  Result<void> read_response_format() {
    const JsonView format = body_.member("response_format");
    if (!format) return {};
    const JsonView type = format.is_object() ? format.member("type") : JsonView();
    if (!type.is_string())
      return field_error(ErrorCode::invalid_value, "response_format", "must be an object with a 'type'");
    if (auto ok = check_members(format, field_table(), FieldOf::response_format, kBoth, "response_format",
                                unknown_);
        !ok)
      return ok;
    const JsonView wrapper = format.member("json_schema"), schema = format.member("schema");
    const bool is_tag = type.text() == "structural_tag";
    for (const std::string_view name : kTagMembers)
      if (!is_tag && format.member(name))
        return field_error(ErrorCode::invalid_value, "response_format." + std::string(name),
                           "is only allowed with the type 'structural_tag'");
    if (type.text() == "json_schema") return read_json_schema(wrapper, schema);
    if (wrapper)
      return field_error(ErrorCode::invalid_value, "response_format.json_schema",
                         "is only allowed with the type 'json_schema'");
    if (type.text() == "json_object")
      return is_absent(schema) || is_empty_object(schema)
                 ? put(Form::json_object, {}, "response_format")
                 : add(Form::json_schema, schema, "response_format.schema");
    if (type.text() != "text" && !is_tag)
      return field_error(ErrorCode::unsupported_value, "response_format.type",
                         "is served as 'text', 'json_object', 'json_schema' or 'structural_tag' only");
    if (schema)
      return field_error(ErrorCode::invalid_value, "response_format.schema",
                         "is only allowed with the type 'json_schema' or 'json_object'");
    if (is_tag) return put(Form::structural_tag, tag_in(format), "response_format");
    return {};
  }

  // `wrapper`: OpenAI's object around the schema; llama.cpp's server has the schema beside the type.
  Result<void> read_json_schema(JsonView wrapper, JsonView schema) {
    if (!is_absent(schema))
      if (auto ok = add(Form::json_schema, schema, "response_format.schema"); !ok || !wrapper) return ok;
    const std::string place = "response_format.json_schema";
    if (wrapper && !wrapper.is_object())
      return field_error(ErrorCode::invalid_value, place, "must be an object with a 'schema'");
    const JsonView wrapped = wrapper ? wrapper.member("schema") : JsonView();
    if (wrapper)
      if (auto ok = check_members(wrapper, field_table(), FieldOf::json_schema, kBoth, place, unknown_); !ok)
        return ok;
    if (is_absent(wrapped)) return field_error(ErrorCode::missing_field, place + ".schema", "is required");
    return add(Form::json_schema, wrapped, place + ".schema");
  }

  Result<void> read_structured_outputs() {
    const std::string place = "structured_outputs";
    const JsonView object = body_.member(place);
    if (!object) return {};
    if (!object.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
    if (auto ok = check_members(object, field_table(), FieldOf::structured_outputs, kBoth, place, unknown_);
        !ok)
      return ok;
    for (const NamedForm& one : kStructuredForms) {
      std::string member = place + "." + std::string(one.name);
      if (auto ok = add(one.form, object.member(one.name), std::move(member)); !ok) return ok;
    }
    const auto any_object = read_flag(object, place, "json_object");
    if (!any_object) return pass(any_object);
    const auto compact = read_flag(object, place, "disable_any_whitespace");
    if (!compact) return pass(compact);
    compact_ = *compact;
    if (*any_object) return put(Form::json_object, {}, place + ".json_object");
    return {};
  }

  static Result<bool> read_flag(JsonView object, const std::string& place, std::string_view name) {
    const JsonView flag = object.member(name);
    if (!flag) return false;
    if (!flag.is_boolean())
      return field_error(ErrorCode::invalid_value, place + "." + std::string(name), "must be a boolean");
    return flag.as_bool();
  }

  const Fields& body_;
  UnknownFields& unknown_;
  StructuredOutput out_;
  bool compact_ = false;  // no whitespace between the tokens of JSON
};

}  // namespace

Result<StructuredOutput> read_structured_output(const Fields& body, UnknownFields& unknown) {
  return StructuredOutputReader(body, unknown).read();
}

}  // namespace flyball::api::openai
