// Structural tags written: the formats of backends/grammar/structural_tag.hpp, one inside the other.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>

#include "config/packed_json.hpp"
#include "daemon/api/json_rewriter.hpp"

namespace flyball::api::calls {

class TagWriter {
 public:
  TagWriter() : json_(kReserved) { json_.open(JsonKind::object); }

  void key(std::string_view name) { json_.key(name); }
  void value(JsonView value) { json_.value(value); }
  void object(std::invocable auto members) {
    json_.open(JsonKind::object);
    members();
    json_.close();
  }
  void array(std::invocable auto items) {
    json_.open(JsonKind::array);
    items();
    json_.close();
  }
  void member(std::string_view name, std::string_view text) {
    json_.key(name);
    json_.string(text);
  }
  void flag(std::string_view name, bool value) {
    JsonPacker packer;
    packer.boolean(value);
    json_.key(name);
    json_.value(packer.take().view());
  }

  // Formats.
  void constant(std::string_view text) {
    object([&] {
      member("type", "const_string");
      member("value", text);
    });
  }
  void regex(std::string_view pattern) {
    object([&] {
      member("type", "regex");
      member("pattern", pattern);
    });
  }
  void any_text(std::span<const std::string_view> excludes = {}) {
    object([&] {
      member("type", "any_text");
      if (!excludes.empty()) strings("excludes", excludes);
    });
  }
  // `schema` writes it.
  void json_schema(std::invocable auto schema) {
    object([&] {
      member("type", "json_schema");
      key("json_schema");
      schema();
    });
  }
  void sequence(std::invocable auto elements) { elements_of("sequence", elements); }
  void either(std::invocable auto elements) { elements_of("or", elements); }
  void optional(std::invocable auto content) {
    object([&] {
      member("type", "optional");
      key("content");
      content();
    });
  }
  void tag(std::string_view begin, std::invocable auto content, std::string_view end) {
    object([&] {
      member("type", "tag");
      member("begin", begin);
      key("content");
      content();
      member("end", end);
    });
  }
  // At least one of the tags.
  void separated(std::invocable auto tags, std::string_view separator, bool one) {
    object([&] {
      member("type", "tags_with_separator");
      key("tags");
      array(tags);
      member("separator", separator);
      flag("at_least_one", true);
      flag("stop_after_first", one);
    });
  }
  // `begins`: with a tag, not with text.
  void triggered(std::span<const std::string> triggers, std::invocable auto tags, bool begins, bool one,
                 std::span<const std::string_view> excludes = {}) {
    object([&] {
      member("type", "triggered_tags");
      strings("triggers", triggers);
      key("tags");
      array(tags);
      if (!excludes.empty()) strings("excludes", excludes);
      flag("at_least_one", begins);
      flag("stop_after_first", one);
    });
  }

  PackedJson take() {
    json_.close();
    return json_.take();
  }

 private:
  static constexpr std::size_t kReserved = 4096;

  void strings(std::string_view name, const auto& texts) {
    key(name);
    array([&] {
      for (const std::string_view text : texts) json_.string(text);
    });
  }

  void elements_of(std::string_view type, std::invocable auto elements) {
    object([&] {
      member("type", type);
      key("elements");
      array(elements);
    });
  }

  JsonRewriter json_;
};

}  // namespace flyball::api::calls
