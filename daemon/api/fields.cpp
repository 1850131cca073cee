#include "daemon/api/fields.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "config/table.hpp"
#include "config/units.hpp"
#include "daemon/api/field_error.hpp"

namespace flyball::api {
namespace {

// Clients send back what they were sent, with empty members that chat_history leaves out.
bool leaves_out_empty(FieldOf of) noexcept {
  return of == FieldOf::message || of == FieldOf::call || of == FieldOf::called_function;
}

bool holds_nothing(JsonView value) noexcept {
  return (value.is_string() && value.text().empty()) ||
         ((value.is_array() || value.is_object()) && value.size() == 0);
}

std::string place_of(const std::string& object, std::string_view name) {
  return (object.empty() ? "" : object + ".") + std::string(name);
}

Error not_served(const FieldGroup& field, std::string place) {
  std::string message = "'" + place + "' " + note_of(field);
  const auto nothing = nlohmann::json::parse(field.asks_for_nothing);
  for (const auto& value : nothing) message += (&value == &nothing.front() ? "; send " : ", ") + value.dump();
  message += nothing.empty() ? "." : " or leave it out.";
  const ErrorCode code = field.feature ? ErrorCode::unsupported_feature : ErrorCode::unsupported_value;
  return {code, std::move(message), std::move(place), {}};
}

Error unknown_member(const FieldTable& table, FieldOf of, Endpoints endpoints, const std::string& object,
                     std::string_view name) {
  std::string message = (object.empty() ? std::string("The body") : "'" + object + "'") +
                        " has an unknown field " + config::quoted(name);
  const auto path = std::ranges::find_if(
      table.paths(), [&](const auto& one) { return table.find(of, one.endpoint, name) != nullptr; });
  const FieldOf place = of == FieldOf::options ? FieldOf::body : FieldOf::options;
  if (path != table.paths().end())
    message += ", which is one of " + std::string(path->path);
  else if ((of == FieldOf::body || of == FieldOf::options) && table.find(place, endpoints, name) != nullptr)
    message += ", which belongs in the " + std::string(to_string(place));
  else
    message += config::did_you_mean(name, table.names(of, endpoints));
  if (!message.ends_with('?')) message += '.';
  message += " An app whose manifest says `unknown_fields: accept` may send it.";
  return {ErrorCode::unknown_field, std::move(message), {}, {}};
}

// Calls `each` with the served members.
template <class Each>
std::optional<Error> sort_members(JsonView object, const FieldTable& table, FieldOf of, Endpoints endpoints,
                                  const std::string& place, UnknownFields& unknown, Each each) {
  std::optional<Error> refusal;
  for (const auto& member : object.members()) {
    if (member.value.is_null() || (leaves_out_empty(of) && holds_nothing(member.value))) continue;
    const FieldGroup* const field = table.find(of, endpoints, member.key);
    if (field == nullptr)
      unknown.add(place, member.key, [&] { return unknown_member(table, of, endpoints, place, member.key); });
    else if (field->use == FieldUse::served)
      each(member);
    else if (field->use == FieldUse::refused && !refusal && !asks_for_nothing(*field, member.value))
      refusal = not_served(*field, place_of(place, member.key));
  }
  return refusal;
}

Result<void> result(const std::optional<Error>& refusal) {
  if (refusal) return std::unexpected(*refusal);
  return {};
}

}  // namespace

Fields::Fields(JsonView object, const FieldTable& table, Endpoints endpoints, UnknownFields& unknown,
               FieldOf of, std::string place)
    : table_(&table), endpoints_(endpoints), of_(of), place_(std::move(place)) {
  refused_ = sort_members(object, table, of, endpoints, place_, unknown,
                          [&](const auto& member) { served_.push_back(member); });
}

JsonView Fields::member(std::string_view name) const noexcept {
  const FieldGroup* const field = table_->find(of_, endpoints_, name);
  // It would seem absent from every object.
  if (field == nullptr || field->use != FieldUse::served) std::abort();
  for (const auto& [key, value] : served_)
    if (key == name) return value;
  return {};
}

Result<void> Fields::refused() const {
  return result(refused_);
}

std::string Fields::place_of(std::string_view name) const {
  return api::place_of(place_, name);
}

Result<std::string_view> text_member(JsonView object, std::string_view name, const std::string& place) {
  const JsonView value = object.member(name);
  const std::string here = place + "." + std::string(name);
  if (!value) return field_error(ErrorCode::missing_field, here, "is required");
  if (!value.is_string()) return field_error(ErrorCode::invalid_value, here, "must be a string");
  return value.text();
}

Result<JsonView> checked_object(JsonView object, const FieldTable& table, FieldOf of, Endpoints endpoints,
                                const std::string& place, UnknownFields& unknown) {
  if (!object) return JsonView();
  if (!object.is_object()) return field_error(ErrorCode::invalid_value, place, "must be an object");
  if (auto ok = check_members(object, table, of, endpoints, place, unknown); !ok) return pass(ok);
  return object;
}

Result<void> check_members(JsonView object, const FieldTable& table, FieldOf of, Endpoints endpoints,
                           const std::string& place, UnknownFields& unknown) {
  return result(sort_members(object, table, of, endpoints, place, unknown, [](const auto&) {}));
}

std::unexpected<Error> missing(std::string_view name, const UnknownFields& unknown) {
  std::string message = "'" + std::string(name) + "' is required";
  for (const std::string& place : unknown.places())
    if (config::closest(place, {&name, 1})) {
      message += ", and the body has an unknown field " + config::quoted(place);
      break;
    }
  return fail(ErrorCode::missing_field, message + ".", std::string(name));
}

}  // namespace flyball::api
