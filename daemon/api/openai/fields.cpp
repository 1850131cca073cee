#include "daemon/api/openai/fields.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "config/table.hpp"
#include "config/units.hpp"

namespace flyball::api::openai {
namespace {

// Clients send back what they were sent, with empty members that chat_history leaves out.
bool leaves_out_empty(FieldOf of) noexcept {
  return of == FieldOf::message || of == FieldOf::call || of == FieldOf::called_function;
}

bool is_empty(JsonView value) noexcept {
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

Error unknown_field(FieldOf of, Endpoints endpoints, const std::string& object, std::string_view name) {
  constexpr std::array kPaths{std::pair(kChat, "/v1/chat/completions"),
                              std::pair(kCompletions, "/v1/completions"),
                              std::pair(kExplain, "/v1/route/explain")};
  std::string message = (object.empty() ? std::string("The body") : "'" + object + "'") +
                        " has an unknown field " + config::quoted(name);
  const auto path = std::ranges::find_if(
      kPaths, [&](const auto& one) { return find_field(of, one.first, name) != nullptr; });
  if (path != kPaths.end())
    message += ", which is one of " + std::string(path->second);
  else
    message += config::did_you_mean(name, field_names(of, endpoints));
  if (!message.ends_with('?')) message += '.';
  message += " An app whose manifest says `unknown_fields: accept` may send it.";
  return {ErrorCode::unknown_field, std::move(message), {}, {}};
}

// Calls `each` with the served members.
template <class Each>
std::optional<Error> sort_members(JsonView object, FieldOf of, Endpoints endpoints, const std::string& place,
                                  UnknownFields& unknown, Each each) {
  std::optional<Error> refusal;
  for (const auto& member : object.members()) {
    if (member.value.is_null() || (leaves_out_empty(of) && is_empty(member.value))) continue;
    const FieldGroup* const field = find_field(of, endpoints, member.key);
    if (field == nullptr)
      unknown.add(place, member.key, [&] { return unknown_field(of, endpoints, place, member.key); });
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

Fields::Fields(JsonView body, Endpoints endpoints, UnknownFields& unknown) : endpoints_(endpoints) {
  refused_ = sort_members(body, FieldOf::body, endpoints, {}, unknown,
                          [&](const auto& member) { served_.push_back(member); });
}

JsonView Fields::member(std::string_view name) const noexcept {
  const FieldGroup* const field = find_field(FieldOf::body, endpoints_, name);
  // It would seem absent from every body.
  if (field == nullptr || field->use != FieldUse::served) std::abort();
  for (const auto& [key, value] : served_)
    if (key == name) return value;
  return {};
}

Result<void> Fields::refused() const {
  return result(refused_);
}

Result<void> check_members(JsonView object, FieldOf of, Endpoints endpoints, const std::string& place,
                           UnknownFields& unknown) {
  return result(sort_members(object, of, endpoints, place, unknown, [](const auto&) {}));
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

}  // namespace flyball::api::openai
