#include "daemon/api/calls/structure.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/call_markers.hpp"
#include "config/name_list.hpp"
#include "daemon/api/calls/format_table.hpp"
#include "daemon/api/calls/parameter_value.hpp"
#include "daemon/api/calls/tag_writer.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::calls {
namespace {

struct Tool {
  std::string_view name;
  JsonView parameters;  // absent: any object
};

std::unexpected<Error> unserved(std::string_view tool, const std::string& reason) {
  return fail(ErrorCode::unsupported_feature,
              "Calls of the tool " + config::quoted(tool) + " cannot be held to its schema: " + reason);
}

constexpr std::string_view kXmlOnly =
    " This model writes arguments as elements of XML; a tool without it, or tools that are not required or "
    "strict, are served.";

// The annotations and keywords of a schema that a parameter's free text follows by itself.
bool is_free(std::string_view key) {
  static constexpr std::array<std::string_view, 12> kFree{
      "type",     "title",     "description", "default", "examples",         "deprecated",
      "readOnly", "writeOnly", "$comment",    "format",  "contentMediaType", "contentEncoding"};
  return std::ranges::find(kFree, key) != kFree.end() || key.starts_with("x-");
}

bool refers_elsewhere(JsonView value) {
  if (!value.is_array() && !value.is_object()) return false;
  for (const auto& [key, member] : value.members()) {
    if (key == "$ref" && member.is_string() && !member.text().starts_with("#/$defs/") &&
        !member.text().starts_with("#/definitions/"))
      return true;
    if (refers_elsewhere(member)) return true;
  }
  return false;
}

// A parameter's text in XML.
struct Parameter {
  std::string_view name;
  JsonView schema;
  bool required = false;
  bool text = false;                              // free text; else JSON by the schema
  std::vector<std::string_view> enumerated = {};  // text: one of these; empty: any
};

Result<std::vector<Parameter>> parameters_of(const Tool& tool, const FormatRow& row) {
  std::vector<Parameter> out;
  if (!tool.parameters) return out;
  for (const std::string_view keyword :
       {"$ref", "anyOf", "oneOf", "allOf", "not", "if", "minProperties", "maxProperties", "patternProperties",
        "propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
        "enum", "const"})
    if (tool.parameters.find(keyword))
      return unserved(tool.name,
                      "it has \"" + std::string(keyword) + "\" at its top." + std::string(kXmlOnly));
  const JsonView properties = tool.parameters.member("properties"),
                 required = tool.parameters.member("required");
  const auto is_required = [&](std::string_view name) {
    if (!required.is_array()) return false;
    for (const auto& [key, one] : required.members())
      if (one.is_string() && one.text() == name) return true;
    return false;
  };
  if (required.is_array())
    for (const auto& [key, one] : required.members())
      if (one.is_string() && !(properties.is_object() && properties.find(one.text())))
        return unserved(tool.name, "the required " + config::quoted(one.text()) +
                                       " is not among its properties." + std::string(kXmlOnly));
  if (!properties.is_object()) return out;
  for (const auto& [name, schema] : properties.members()) {
    Parameter parameter{.name = name, .schema = schema, .required = is_required(name)};
    if (name.empty() || name.contains(row.key_close) || name.contains('\n') || name.size() > 256)
      return unserved(tool.name,
                      "the name " + config::quoted(name) + " cannot be written." + std::string(kXmlOnly));
    const ValueTypes types = types_of(schema);
    const bool any =
        types.string && types.number && types.boolean && types.null && types.array && types.object;
    if (types.string && (!any || !schema.is_object() || schema.size() == 0)) {
      parameter.text = true;
      if (schema.is_object())
        for (const auto& [key, value] : schema.members()) {
          if (is_free(key)) continue;
          if (key == "enum" && !types.other && value.is_array()) {
            for (const auto& [item, one] : value.members())
              if (one.is_string()) parameter.enumerated.push_back(one.text());
          } else if (key == "const" && !types.other && value.is_string()) {
            parameter.enumerated = {value.text()};
          } else {
            return unserved(tool.name, "the string " + config::quoted(name) + " has " + config::quoted(key) +
                                           "." + std::string(kXmlOnly));
          }
        }
      for (const std::string_view text : parameter.enumerated)
        if (text.contains(row.value_close))
          return unserved(tool.name, "a value of " + config::quoted(name) + " has " +
                                         config::quoted(row.value_close) + " in it." + std::string(kXmlOnly));
    } else if (refers_elsewhere(schema)) {
      return unserved(tool.name, config::quoted(name) + " has a \"$ref\" that leads out of \"$defs\"." +
                                     std::string(kXmlOnly));
    }
    out.push_back(std::move(parameter));
  }
  return out;
}

class CallStructure {
 public:
  CallStructure(const ToolSet& tools, const AnswerForm& form)
      : tools_(tools), form_(form), row_(row_of(form.calls)), one_(!tools.parallel || !tools.named.empty()) {}

  Result<PackedJson> required() {
    if (auto ok = read_tools(); !ok) return pass(ok);
    out_.key("format");
    out_.sequence([&] {
      rest_of_reasoning();
      if (row_.notation == Notation::harmony) {
        out_.optional([&] { analysis(); });
        out_.separated([&] { tags(); }, "", true);
      } else if (row_.list || !row_.sections[0].open.empty()) {
        sections();
      } else {
        out_.separated([&] { tags(); }, separator(), one_);
      }
    });
    return checked();
  }

  // Free text with calls in it.
  Result<PackedJson> automatic() {
    const bool marked =
        row_.notation == Notation::harmony ||
        std::ranges::none_of(row_.sections, [](const Section& one) { return one.known_names; });
    if (!marked)
      return fail(
          ErrorCode::unsupported_feature,
          "This model marks its calls by nothing, so calls that it may leave out cannot be held to their "
          "schemas: use tool_choice \"required\", or tools that are not strict.");
    if (auto ok = read_tools(); !ok) return pass(ok);
    out_.key("format");
    out_.sequence([&] {
      rest_of_reasoning();
      if (row_.notation == Notation::harmony)
        out_.triggered(
            " to=functions.", [&] { harmony_tags(); }, true);
      else if (row_.sections[0].open.empty())
        out_.triggered(
            row_.call_open, [&] { tags(); }, one_);
      else
        out_.triggered(
            row_.sections[0].open, [&] { section(row_.sections[0]); }, one_);
    });
    return checked();
  }

 private:
  Result<void> read_tools() {
    for (const auto& [key, tool] : tools_.tools.view().members()) {
      const JsonView function = tool.find("function");
      const std::string_view name = function.find("name").text();
      if (!tools_.named.empty() && name != tools_.named) continue;
      all_.push_back({name, function.member("parameters")});
      if (row_.notation != Notation::xml) {
        xml_.emplace_back();
        continue;
      }
      auto parameters = parameters_of(all_.back(), row_);
      if (!parameters) return pass(parameters);
      xml_.push_back(*std::move(parameters));
    }
    for (const Tool& tool : all_) {
      if (!tool.parameters) continue;
      if (!tool.parameters.is_object()) return unserved(tool.name, "its \"parameters\" are no object.");
      const JsonView type = tool.parameters.find("type");
      if (type && !(type.is_string() && type.text() == "object"))
        return unserved(tool.name, "the type of its \"parameters\" is not \"object\".");
    }
    return {};
  }

  // Packed JSON nests no deeper on the way to an engine.
  Result<PackedJson> checked() {
    auto json = PackedJson::from_bytes(out_.take().bytes());
    if (!json && json.error().code == ErrorCode::json_too_deep)
      return fail(ErrorCode::unsupported_feature,
                  "The tools' parameters nest too deep for a constraint of calls.");
    return json;
  }

  std::string_view separator() const { return row_.list ? ", " : row_.separator; }

  // Up to its end, where the prompt ends within it, and the line's ends behind that.
  void rest_of_reasoning() {
    const auto markers = markers_of(form_.reasoning);
    const std::string_view close = markers.empty() ? row_.reasoning_close : markers[1];
    if (!form_.in_reasoning || close.empty()) return;
    out_.tag(
        "", [&] { out_.any_text(); }, close);
    out_.regex("\n{0,2}");
  }

  // Of harmony: a message of analysis, and the beginning of the next one.
  void analysis() {
    out_.tag(
        std::string(kHarmonyChannel) + std::string(kHarmonyReasoning) + std::string(kHarmonyMessage),
        [&] { out_.any_text(); }, std::string(kHarmonyEnd) + std::string(kHarmonyStart) + "assistant");
  }

  // Each spelling of a section that a marker begins.
  void sections() {
    std::vector<const Section*> marked;
    for (const Section& one : row_.sections)
      if (!one.open.empty() && one.place == Place::anywhere) marked.push_back(&one);
    if (marked.size() == 1) return section(*marked[0]);
    out_.either([&] {
      for (const Section* one : marked) section(*one);
    });
  }

  // A section of several calls as one tag, or a tag for each call where it has one alone.
  void section(const Section& each) {
    const bool spans = row_.list || row_.notation == Notation::named || row_.format == CallFormat::minimax_m2;
    if (!spans) {
      // The section's markers are around each call.
      one_call_sections(each);
      return;
    }
    const std::string open = std::string(each.open) + (row_.list ? "[" : line());
    out_.tag(
        open, [&] { out_.separated([&] { tags(); }, between(), one_); },
        (row_.list ? "]" : "") + std::string(each.close));
  }
  std::string line() const { return row_.notation == Notation::xml ? "\n" : ""; }
  std::string_view between() const { return row_.notation == Notation::xml ? "" : separator(); }

  void one_call_sections(const Section& each) {
    const std::string open = std::string(each.open) + "\n", close = "\n" + std::string(each.close);
    if (in_trigger()) {
      calls(open, close);
      return;
    }
    out_.separated([&] { calls(open, close); }, separator(), one_);
  }
  bool in_trigger() const { return tools_.choice == ToolSet::Choice::automatic; }

  // A tag for each tool.
  void tags() { calls("", ""); }
  void calls(const std::string& open, const std::string& close) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      switch (row_.notation) {
        case Notation::json:
          json_call(all_[i], open, close);
          break;
        case Notation::named:
          named_call(all_[i]);
          break;
        case Notation::xml:
          xml_call(all_[i], xml_[i], open, close);
          break;
        case Notation::harmony:
          out_.tag(
              std::string(kHarmonyChannel) + "commentary to=functions." + std::string(all_[i].name) + " " +
                  std::string(kHarmonyConstrain) + "json" + std::string(kHarmonyMessage),
              [&] { arguments(all_[i]); }, "");
          break;
      }
    }
  }

  // Behind " to=", which stands in the header of the role or of the channel.
  void harmony_tags() {
    for (const Tool& tool : all_)
      out_.tag(
          " to=functions." + std::string(tool.name),
          [&] {
            out_.sequence([&] {
              out_.either([&] {
                out_.constant(" <|constrain|>json<|message|>");
                out_.constant("<|channel|>commentary <|constrain|>json<|message|>");
                out_.constant("<|channel|>commentary json<|message|>");
              });
              arguments(tool);
            });
          },
          "");
  }

  void json_call(const Tool& tool, const std::string& open, const std::string& close) {
    std::string name;
    append_json_string(name, tool.name);
    const std::string head =
        "\"" + std::string(row_.name_key) + "\": " + name + ", \"" + std::string(row_.arguments_key) + "\": ";
    if (row_.format != CallFormat::command_r7b) {
      out_.tag(
          open + "{" + head, [&] { arguments(tool); }, "}" + close);
      return;
    }
    out_.tag(
        "{\"" + std::string(row_.id_key) + "\": \"",
        [&] {
          out_.sequence([&] {
            out_.regex("[0-9]{1,3}");
            out_.constant("\", " + head);
            arguments(tool);
          });
        },
        "}");
  }

  void named_call(const Tool& tool) {
    const std::string begin = std::string(row_.call_open) + std::string(row_.prefix);
    std::string fence, unfence;
    if (!row_.fence_open.empty()) {
      fence = std::string(row_.fence_open) + "\n";
      unfence = "\n" + std::string(row_.fence_close);
    }
    const std::string close = unfence + std::string(row_.call_close);
    if (row_.name_is_id) {
      out_.tag(
          begin + "functions." + std::string(tool.name) + ":",
          [&] {
            out_.sequence([&] {
              out_.regex("[0-9]{1,3}");
              out_.constant(row_.name_close);
              arguments(tool);
            });
          },
          close);
      return;
    }
    // At the beginning of a line or of the answer a call has no opening.
    out_.tag((starts_bare() ? "" : begin) + std::string(tool.name) + std::string(row_.name_close) + fence,
             [&] { arguments(tool); }, close);
  }
  bool starts_bare() const { return row_.sections[0].place != Place::anywhere; }

  void xml_call(const Tool& tool, const std::vector<Parameter>& parameters, const std::string& open,
                const std::string& close) {
    out_.tag(
        open + std::string(row_.call_open) + std::string(tool.name) + std::string(row_.name_close) + "\n",
        [&] {
          out_.sequence([&] {
            out_.constant("");
            for (const Parameter& parameter : parameters) {
              const auto write = [&] { xml_parameter(tool, parameter); };
              if (parameter.required)
                write();
              else
                out_.optional(write);
            }
          });
        },
        std::string(row_.call_close) + (row_.format == CallFormat::minimax_m2 ? "\n" : "") + close);
  }

  void xml_parameter(const Tool& tool, const Parameter& parameter) {
    std::string begin =
        std::string(row_.key_open) + std::string(parameter.name) + std::string(row_.key_close);
    if (!row_.value_open.empty()) begin += "\n" + std::string(row_.value_open);
    if (row_.value_on_lines) begin += "\n";
    const std::string line_end = row_.value_on_lines ? "\n" : "",
                      end = line_end + std::string(row_.value_close);
    out_.sequence([&] {
      if (parameter.text && parameter.enumerated.empty()) {
        // Its own last line's end is one of the text.
        out_.tag(
            begin, [&] { out_.any_text(); }, row_.value_close);
      } else if (parameter.text) {
        out_.tag(
            begin,
            [&] {
              out_.either([&] {
                for (const std::string_view text : parameter.enumerated) out_.constant(text);
              });
            },
            end);
      } else {
        out_.tag(
            begin, [&] { out_.json_schema([&] { property_schema(tool, parameter.schema); }); }, end);
      }
      out_.constant("\n");
    });
  }

  // With the definitions that its references lead to.
  void property_schema(const Tool& tool, JsonView schema) {
    if (!schema.is_object()) return out_.value(schema);
    out_.object([&] {
      for (const auto& [key, value] : schema.members()) {
        if (key == "$defs" || key == "definitions") continue;
        out_.key(key);
        out_.value(value);
      }
      for (const std::string_view key : {"$defs", "definitions"})
        if (const JsonView all = tool.parameters.find(key)) {
          out_.key(key);
          out_.value(all);
        }
    });
  }

  void arguments(const Tool& tool) {
    out_.json_schema([&] {
      out_.object([&] {
        out_.member("type", "object");
        if (!tool.parameters) return;
        for (const auto& [key, value] : tool.parameters.members()) {
          if (key == "type") continue;
          out_.key(key);
          out_.value(value);
        }
      });
    });
  }

  const ToolSet& tools_;
  const AnswerForm& form_;
  const FormatRow& row_;
  const bool one_;
  std::vector<Tool> all_;                    // those that may be called
  std::vector<std::vector<Parameter>> xml_;  // of each; empty of other notations
  TagWriter out_;
};

}  // namespace

Result<std::optional<Constraint>> call_constraint(const ToolSet& tools, const AnswerForm& form) {
  const bool required = tools.choice == ToolSet::Choice::required;
  if (tools.tools.empty() || tools.choice == ToolSet::Choice::none || (!required && !tools.strict))
    return std::optional<Constraint>();
  CallStructure structure(tools, form);
  auto source = required ? structure.required() : structure.automatic();
  if (!source) return pass(source);
  return Constraint{Constraint::Kind::structural_tag, *std::move(source)};
}

}  // namespace flyball::api::calls
