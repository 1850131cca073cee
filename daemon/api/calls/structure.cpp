#include "daemon/api/calls/structure.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backends/call_markers.hpp"
#include "backends/grammar/fuel.hpp"
#include "backends/grammar/schema_document.hpp"
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
  std::string place;    // of its schema in the request
};

std::unexpected<Error> unserved(const Tool& tool, const std::string& reason) {
  return fail(ErrorCode::unsupported_feature,
              "Calls of the tool " + config::quoted(tool.name) + " cannot be held to its schema: " + reason,
              tool.place);
}

constexpr std::string_view kXmlOnly =
    " This model writes arguments as elements of XML; a tool without it, or tools that are not required "
    "or strict, and no format beside them, are served.";

// The annotations and keywords of a schema that a parameter's free text follows by itself.
bool is_free(std::string_view key) {
  static constexpr std::array<std::string_view, 11> kFree{
      "type",     "title",     "description", "default",          "examples",       "deprecated",
      "readOnly", "writeOnly", "$comment",    "contentMediaType", "contentEncoding"};
  return std::ranges::find(kFree, key) != kFree.end() || key.starts_with("x-");
}

// Types and nothing else, each another one: as a list of types in "type".
bool are_bare_types(JsonView ways) {
  if (!ways.is_array()) return false;
  ValueTypes seen{false, false, false, false, false, false, false, false};
  for (const auto& [key, way] : ways.members()) {
    if (!way.is_object()) return false;
    const JsonView type = way.find("type");
    if (!type.is_string()) return false;
    for (const auto& [keyword, value] : way.members())
      if (!is_free(keyword)) return false;
    const ValueTypes types = types_of(way);
    if (seen.integer && types.integer) return false;
    seen.integer |= types.integer;
  }
  return true;
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

bool refers(JsonView value) {
  if (!value.is_array() && !value.is_object()) return false;
  for (const auto& [key, member] : value.members())
    if ((key == "$ref" && member.is_string()) || refers(member)) return true;
  return false;
}

std::size_t bytes_of_definitions(JsonView parameters) {
  std::size_t out = 0;
  for (const std::string_view key : {"$defs", "definitions"})
    if (const JsonView all = parameters.find(key)) out += all.bytes().size();
  return out;
}

using Names = std::unordered_set<std::string_view>;

// A parameter's text in XML.
struct Parameter {
  std::string_view name;
  JsonView schema;
  bool required = false;
  bool text = false;                              // free text; else JSON by the schema
  bool refers = false;                            // to the definitions of its tool
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
      return unserved(tool, "it has \"" + std::string(keyword) + "\" at its top." + std::string(kXmlOnly));
  const JsonView properties = tool.parameters.member("properties"),
                 required = tool.parameters.member("required");
  Names known, demanded;
  if (properties.is_object())
    for (const auto& [name, schema] : properties.members()) known.insert(name);
  if (required.is_array())
    for (const auto& [key, one] : required.members()) {
      if (!one.is_string()) continue;
      if (!known.contains(one.text()))
        return unserved(tool, "the required " + config::quoted(one.text()) + " is not among its properties." +
                                  std::string(kXmlOnly));
      demanded.insert(one.text());
    }
  if (!properties.is_object()) return out;
  for (const auto& [name, schema] : properties.members()) {
    Parameter parameter{.name = name, .schema = schema, .required = demanded.contains(name)};
    if (name.empty() || name.contains(row.key_close) || name.contains('\n') || name.size() > 256)
      return unserved(tool,
                      "the name " + config::quoted(name) + " cannot be written." + std::string(kXmlOnly));
    const ValueTypes types = types_of(schema);
    const bool any =
        types.string && types.number && types.boolean && types.null && types.array && types.object;
    if (types.string && (!any || !schema.is_object() || schema.size() == 0)) {
      parameter.text = true;
      if (schema.is_object())
        for (const auto& [key, value] : schema.members()) {
          if (is_free(key)) continue;
          if ((key == "anyOf" || key == "oneOf") && !schema.find("type") && are_bare_types(value)) continue;
          if (key == "enum" && !types.other && value.is_array()) {
            for (const auto& [item, one] : value.members())
              if (one.is_string()) parameter.enumerated.push_back(one.text());
          } else if (key == "const" && !types.other && value.is_string()) {
            parameter.enumerated = {value.text()};
          } else {
            return unserved(tool, "the string " + config::quoted(name) + " has " + config::quoted(key) + "." +
                                      std::string(kXmlOnly));
          }
        }
      for (const std::string_view text : parameter.enumerated)
        if (text.contains(row.value_close))
          return unserved(tool, "a value of " + config::quoted(name) + " has " +
                                    config::quoted(row.value_close) + " in it." + std::string(kXmlOnly));
    } else if (refers_elsewhere(schema)) {
      return unserved(tool, config::quoted(name) + " has a \"$ref\" that leads out of \"$defs\"." +
                                std::string(kXmlOnly));
    } else {
      parameter.refers = refers(schema);
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
    out_.sequence([&] { calls_alone(); });
    return checked();
  }

  // The JSON, or calls alone.
  Result<PackedJson> calls_or(const JsonAnswer& json) {
    if (auto ok = read_tools(); !ok) return pass(ok);
    out_.key("format");
    if (row_.notation == Notation::harmony)
      out_.sequence([&] { calls_alone(&json); });
    else
      out_.either([&] {
        json_alone(json);
        calls_alone();
      });
    return checked(&json);
  }

  // Free text with calls in it, or calls alone where no marker begins them.
  Result<PackedJson> automatic() {
    in_text_ = true;
    if (auto ok = read_tools(); !ok) return pass(ok);
    out_.key("format");
    out_.sequence([&] {
      whole_reasoning();
      if (row_.notation == Notation::harmony)
        harmony_answer();
      else if (row_.format == CallFormat::functionary_v32)
        functionary_answer();
      else if (row_.notation == Notation::named && starts_bare())
        lines_answer();
      else if (std::ranges::any_of(row_.sections, is_bare))
        json_answer();
      else
        marked_text(false);
    });
    return checked();
  }

  std::vector<SchemaPlace> take_schemas() { return std::move(schemas_); }

 private:
  Result<void> read_tools() {
    std::size_t index = 0;
    for (const auto& [key, tool] : tools_.tools.view().members()) {
      const std::size_t at = index++;
      const JsonView function = tool.find("function");
      const std::string_view name = function.find("name").text();
      if (!tools_.named.empty() && name != tools_.named) continue;
      all_.push_back({name, function.member("parameters"), tools_.schema_place(at)});
      if (auto ok = check(all_.back()); !ok) return ok;
      if (row_.notation != Notation::xml) {
        xml_.emplace_back();
        continue;
      }
      auto parameters = parameters_of(all_.back(), row_);
      if (!parameters) return pass(parameters);
      if (auto ok = count_definitions(all_.back(), *parameters); !ok) return ok;
      xml_.push_back(*std::move(parameters));
    }
    return {};
  }

  // Each parameter that refers to them repeats all of them.
  Result<void> count_definitions(const Tool& tool, const std::vector<Parameter>& parameters) {
    if (!tool.parameters) return {};
    const auto referring = static_cast<std::size_t>(std::ranges::count(parameters, true, &Parameter::refers));
    definition_bytes_ += referring * bytes_of_definitions(tool.parameters);
    if (definition_bytes_ <= grammar::Limits{}.text) return {};
    return unserved(tool, "its definitions, written for each parameter that refers to them, have more than " +
                              std::to_string(grammar::Limits{}.text) + " bytes." + std::string(kXmlOnly));
  }

  static Result<void> check(const Tool& tool) {
    if (!tool.parameters) return {};
    if (!tool.parameters.is_object()) return unserved(tool, "its \"parameters\" are no object.");
    const JsonView type = tool.parameters.find("type");
    if (type && !(type.is_string() && type.text() == "object"))
      return unserved(tool, "the type of its \"parameters\" is not \"object\".");
    return {};
  }

  // Packed JSON nests no deeper on the way to an engine.
  Result<PackedJson> checked(const JsonAnswer* json = nullptr) {
    auto tag = PackedJson::from_bytes(std::string(out_.take().bytes()));
    if (!tag && tag.error().code == ErrorCode::json_too_deep)
      return fail(ErrorCode::unsupported_feature,
                  json != nullptr ? "The tools' parameters or the schema of '" + json->field +
                                        "' nest too deep for a constraint of both."
                                  : "The tools' parameters nest too deep for a constraint of calls.");
    return tag;
  }

  // No text stands around them. `json`, of harmony: the final message, which may stand for calls.
  void calls_alone(const JsonAnswer* json = nullptr) {
    if (row_.notation == Notation::harmony) {
      harmony_messages({&kHarmonyReasoning, 1});
      out_.either([&] {
        if (json != nullptr) {
          out_.sequence([&] {
            out_.constant(harmony_head(kHarmonyAnswer));
            answer_schema(*json);
          });
        }
        harmony_tags();
      });
    } else if (!row_.sections[0].open.empty()) {
      sections();
    } else {
      out_.separated([&] { tags(); }, separator(), one_);
    }
  }

  // Functionary v3.2 opens it as text, behind the prompt's ">>>", which begins calls, too.
  void json_alone(const JsonAnswer& json) {
    if (row_.format != CallFormat::functionary_v32) return answer_schema(json);
    out_.sequence([&] {
      out_.constant("all" + std::string(row_.name_close));
      answer_schema(json);
    });
  }

  void answer_schema(const JsonAnswer& json) {
    schemas_.push_back({.field = json.field, .is_format = true});
    out_.json_schema([&] {
      if (json.format->kind == Constraint::Kind::json_schema)
        out_.value(json.format->source.view());
      else
        out_.object([&] { out_.member("type", "object"); });
    });
  }

  std::string_view separator() const { return row_.list ? list_.between : row_.separator; }

  // Reasoning that the answer may begin with, where calls without a marker would follow it.
  void whole_reasoning() {
    const auto markers = markers_of(form_.reasoning);
    const std::string_view open = markers.empty() ? row_.reasoning_open : markers[0];
    const bool bare = std::ranges::any_of(row_.sections, [](const Section& one) { return one.known_names; });
    if (!bare || open.empty()) return;
    const std::string_view close = markers.empty() ? row_.reasoning_close : markers[1];
    out_.optional([&] {
      out_.sequence([&] {
        out_.tag(
            open, [&] { out_.any_text(); }, close);
        out_.regex("\n{0,2}");
      });
    });
  }

  static bool is_bare(const Section& section) { return section.open.empty() && section.known_names; }

  std::vector<std::string> triggers() const {
    std::vector<std::string> out;
    for (const Section& one : row_.sections)
      if (one.place == Place::anywhere) out.emplace_back(one.open.empty() ? row_.call_open : one.open);
    return out;
  }

  // Free text in which each section's marker begins calls.
  void marked_text(bool begins, std::span<const std::string_view> excludes = {}) {
    const bool open_ended = row_.format == CallFormat::llama3;  // what follows a call may be another one
    out_.triggered(
        triggers(),
        [&] {
          for (const Section& one : row_.sections)
            if (one.place == Place::anywhere) section(one);
        },
        begins, one_ || open_ended, excludes);
  }

  // Text does not begin as JSON or its fence does. Its first characters begin no marker either, which would
  // be none where text starts afresh behind them. It ends no reasoning: JSON behind that would be a call.
  void json_answer() {
    const std::vector<std::string> markers = triggers();
    const auto reasoning = markers_of(form_.reasoning);
    const auto excludes = reasoning.empty() ? reasoning : reasoning.last(1);
    std::string first;
    for (const std::string& marker : markers)
      if (!first.contains(marker[0])) first += (marker[0] == '[' ? "" : std::string(1, marker[0]));
    out_.either([&] {
      out_.constant("");
      bare_calls();
      if (!markers.empty()) marked_text(true);
      out_.sequence([&] {
        out_.regex("[^\\s{\\[`" + first + "]|`{1,3}[^`\\sj" + first + "]|`{1,2}j|```ja");
        if (markers.empty())
          out_.any_text(excludes);
        else
          marked_text(false, excludes);
      });
    });
  }

  void bare_calls() {
    const auto calls = [&] { out_.separated([&] { tags(); }, separator(), one_); };
    if (row_.list)
      out_.tag("[", calls, "]");
    else
      calls();
  }

  // ">>>all" begins text and ">>>", which the prompt ends with, a call.
  void functionary_answer() {
    const std::string all = "all" + std::string(row_.name_close);
    std::vector<std::string> begins;
    for (const Tool& tool : all_)
      begins.push_back(std::string(row_.call_open) + std::string(tool.name) + std::string(row_.name_close));
    out_.either([&] {
      out_.constant("");
      bare_calls();
      out_.sequence([&] {
        out_.constant(all);
        out_.triggered(
            begins,
            [&] {
              for (std::size_t i = 0; i < all_.size(); ++i)
                out_.tag(
                    begins[i], [&] { arguments(all_[i]); }, "");
            },
            false, one_);
      });
    });
  }

  // Text that has no line of a tool's name.
  void lines_answer() {
    std::string names;
    for (const Tool& tool : all_) {
      if (!names.empty()) names += '|';
      for (const char c : tool.name) {
        if (c == '.') names += '\\';  // names have no other byte that means more than itself
        names += c;
      }
    }
    out_.either([&] {
      bare_calls();
      out_.regex("(?!\\s*(?:" + names + ")\\n)(?![\\s\\S]*\\n(?:" + names + ")\\n)[\\s\\S]*");
    });
  }

  static std::string harmony_head(std::string_view channel) {
    return std::string(kHarmonyChannel) + std::string(channel) + std::string(kHarmonyMessage);
  }

  // Messages of these channels, and the beginning of the next one. Their text begins no header of a call.
  void harmony_messages(std::span<const std::string_view> channels) {
    static constexpr std::array<std::string_view, 4> kOthers{kHarmonyChannel, kHarmonyStart, "<|call|>",
                                                             "<|return|>"};
    out_.object([&] {
      out_.member("type", "star");
      out_.key("content");
      out_.either([&] {
        for (const std::string_view channel : channels)
          out_.sequence([&] {
            out_.tag(
                harmony_head(channel), [&] { out_.any_text(kOthers); }, kHarmonyEnd);
            out_.constant(std::string(kHarmonyStart) + "assistant");
          });
      });
    });
  }

  // Messages, then one call, behind which the model stops, or the final message.
  void harmony_answer() {
    static constexpr std::array kBefore{kHarmonyReasoning, kHarmonyPreamble};
    static constexpr std::array<std::string_view, 5> kMarkers{kHarmonyChannel, kHarmonyStart, kHarmonyEnd,
                                                              "<|call|>", "<|return|>"};
    harmony_messages(kBefore);
    out_.either([&] {
      harmony_tags();
      out_.sequence([&] {
        out_.constant(harmony_head(kHarmonyAnswer));
        out_.any_text(kMarkers);
      });
    });
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
    if (each.open.empty()) return tags();
    // Without a close, more calls may follow the first one wherever it ends.
    const bool spans = row_.list || row_.notation == Notation::named || each.close.empty() ||
                       row_.format == CallFormat::minimax_m2;
    if (!spans) {
      // The section's markers are around each call.
      one_call_sections(each);
      return;
    }
    const std::string open = std::string(each.open) + (row_.list ? std::string(list_.open) : line());
    out_.tag(
        open, [&] { out_.separated([&] { tags(); }, between(), one_); },
        std::string(row_.list ? list_.close : "") + std::string(each.close));
  }
  std::string line() const { return row_.notation == Notation::xml ? "\n" : ""; }
  std::string_view between() const { return row_.notation == Notation::xml ? "" : separator(); }

  void one_call_sections(const Section& each) {
    const std::string open = std::string(each.open) + "\n", close = "\n" + std::string(each.close);
    if (in_text_) {
      calls(open, close);
      return;
    }
    out_.separated([&] { calls(open, close); }, separator(), one_);
  }
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
          break;
      }
    }
  }

  // The recipient stands in the header of the channel or of the role.
  void harmony_tags() {
    for (const Tool& tool : all_) {
      const std::string to = " to=" + std::string(kHarmonyFunctions) + std::string(tool.name),
                        commentary = std::string(kHarmonyChannel) + "commentary",
                        json = " " + std::string(kHarmonyConstrain) + "json" + std::string(kHarmonyMessage);
      out_.sequence([&] {
        out_.either([&] {
          out_.constant(commentary + to + json);
          out_.constant(commentary + to + " json" + std::string(kHarmonyMessage));
          out_.constant(to + commentary + json);
          out_.constant(to + commentary + " json" + std::string(kHarmonyMessage));
        });
        arguments(tool);
      });
    }
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
      fence = std::string(row_.fence_open) + std::string(kFenceWord) + "\n";
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
        // A parameter that begins a line ends the value before it.
        const std::string next = "\n" + std::string(row_.key_open);
        const std::array<std::string_view, 1> excluded{next};
        out_.tag(
            begin,
            [&] {
              out_.any_text(row_.value_on_lines ? std::span<const std::string_view>(excluded)
                                                : std::span<const std::string_view>());
            },
            row_.value_close);
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
        schemas_.push_back({tool.place, grammar::Pointer().child("properties").child(parameter.name).text()});
        out_.tag(
            begin, [&] { out_.json_schema([&] { property_schema(tool, parameter.schema); }); }, end);
      }
      out_.constant("\n");
    });
  }

  // With the definitions that its references lead to.
  void property_schema(const Tool& tool, JsonView schema) {
    if (!schema.is_object() || !refers(schema)) return out_.value(schema);
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
    schemas_.push_back({tool.place, ""});
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

  // A list of calls as the model's template writes it.
  struct List {
    std::string_view open = "[", between = ", ", close = "]";
  };
  static List list_of(CallFormat format) {
    return format == CallFormat::command_r7b ? List{"[\n    ", ",\n    ", "\n]"} : List{};
  }

  const ToolSet& tools_;
  const AnswerForm& form_;
  const FormatRow& row_;
  const List list_ = list_of(row_.format);
  const bool one_;
  std::vector<Tool> all_;                    // those that may be called
  std::vector<std::vector<Parameter>> xml_;  // of each; empty of other notations
  std::vector<SchemaPlace> schemas_;         // written so far
  bool in_text_ = false;                     // calls stand in free text
  TagWriter out_;
  std::size_t definition_bytes_ = 0;  // written so far, or to be
};

}  // namespace

Result<std::optional<CallConstraint>> call_constraint(const ToolSet& tools, const AnswerForm& form,
                                                      const JsonAnswer& json) {
  const bool required = tools.choice == ToolSet::Choice::required, or_json = json.format != nullptr;
  if (tools.tools.empty() || tools.choice == ToolSet::Choice::none ||
      (!required && !tools.strict && !or_json))
    return std::optional<CallConstraint>();
  CallStructure structure(tools, form);
  auto source = required ? structure.required() : or_json ? structure.calls_or(json) : structure.automatic();
  if (!source) return pass(source);
  return CallConstraint{.constraint = {.kind = Constraint::Kind::structural_tag,
                                       .source = *std::move(source),
                                       .compact = or_json && json.format->compact},
                        .schemas = structure.take_schemas()};
}

}  // namespace flyball::api::calls
