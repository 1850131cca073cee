#include "daemon/api/call_arguments.hpp"

#include <string_view>

#include "config/json_reader.hpp"
#include "daemon/api/field_error.hpp"

namespace flyball::api {
namespace {

// Messages, message, tool_calls, call and function stand around a call's arguments.
constexpr std::size_t kArgumentsDepth = PackedJson::kMaxDepth - 5;

std::size_t count_values(JsonView value) noexcept {
  std::size_t count = 1;
  if (value.is_array() || value.is_object())
    for (const auto& [key, member] : value.members()) count += count_values(member);
  return count;
}

std::string_view without_blanks(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t\n\r";  // RFC 8259, section 2
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

Result<void> CallArguments::read(JsonView arguments, const std::string& place, JsonRewriter& out) {
  if (arguments.is_object()) {
    out.value(arguments);
    return {};
  }
  if (!arguments.is_null() && !arguments.is_string())
    return field_error(ErrorCode::invalid_value, place,
                       "must be a string that spells a JSON object, or an object");
  const std::string_view text = arguments.is_string() ? without_blanks(arguments.text()) : std::string_view();
  if (text.empty() || text == "null") {
    write_none(out);
    return {};
  }
  auto read = text.front() == '{'
                  ? read_packed(text, {.depth = kArgumentsDepth, .nodes = values_left_}, "'" + place + "'")
                  : Result<PackedJson>(std::unexpected(Error{ErrorCode::invalid_json, {}, {}, {}}));
  if (read) {
    values_left_ -= count_values(read->view());
    out.value(read->view());
    return {};
  }
  if (read.error().code == ErrorCode::json_too_large)
    return field_error(ErrorCode::json_too_large, place,
                       "brings the arguments of all calls to more than " +
                           std::to_string(kMaxArgumentValues) + " JSON values");
  if (read.error().code != ErrorCode::invalid_json)
    return fail(read.error().code, read.error().message, place, read.error().where);
  if (first_text_.empty())
    first_text_ = place + " is not readable as a JSON object; it goes to the model's template as text.";
  else
    ++more_texts_;
  out.string(arguments.text());
  return {};
}

void CallArguments::write_none(JsonRewriter& out) {
  out.open(JsonKind::object);
  out.close();
}

std::string CallArguments::note() const {
  if (more_texts_ == 0) return first_text_;
  return first_text_ + " So do the arguments of " + std::to_string(more_texts_) + " further calls.";
}

}  // namespace flyball::api
