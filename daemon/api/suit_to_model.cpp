#include "daemon/api/suit_to_model.hpp"

#include <utility>
#include <variant>

#include "daemon/api/constraint_verdicts.hpp"
#include "daemon/api/features.hpp"
#include "daemon/api/tool_prompt.hpp"

namespace flyball::api {
namespace {

// True where the model's chat template has no place for parts of the request.
bool needs_told_tools(const Generate& request, const BackendInfo* file) {
  const auto* const chat = request.kind == Generate::Kind::chat && traits_of(file).tool_template == false
                               ? std::get_if<ChatPrompt>(&request.prompts.front())
                               : nullptr;
  return chat != nullptr && has_tool_parts(*chat);
}

// The answer's form, as far as the model's file tells it. Calls of tools that are told as text are JSON.
AnswerForm form_of(const Generate& request, const BackendInfo* file) {
  AnswerForm form = file != nullptr ? file->form : AnswerForm{};
  if (request.tools_in_system_message) form.calls = CallFormat::json;
  return form;
}

// The answers are read for calls in this format, whatever the engine says of the model.
void read_as(Generate& request, CallFormat calls) {
  if (!request.parser) return;
  request.parser = [make = std::move(request.parser), calls](AnswerForm form, std::string_view ids) {
    form.calls = calls;
    return make(form, ids);
  };
}

Result<void> hold_to_calls(Generate& request, const BackendInfo* file) {
  if (!request.call_constraint) return {};
  const AnswerForm form = form_of(request, file);
  JsonAnswer json;
  if (request.base.constraint) json = {&*request.base.constraint, request.constraint_field};
  auto made = request.call_constraint(form, json);
  if (!made) {
    if (made.error().param.empty()) made.error().param = "tools";
    return pass(made);
  }
  if (!*made) return {};
  request.base.constraint = std::move((*made)->constraint);
  request.schema_places = std::move((*made)->schemas);
  request.constraint_field = "tools";
  read_as(request, form.calls);
  return {};
}

void tell_tools_in(Generate& request) {
  auto& chat = std::get<ChatPrompt>(request.prompts.front());
  chat = tell_tools(chat, request.tools.get(), request.wants_json);
  request.prompt_bytes = chat.messages.json_bytes();
  request.tools_in_system_message = true;
  read_as(request, CallFormat::json);
  if (!request.note.empty()) request.note.push_back(' ');
  request.note += "Tools and calls are told to the model as text: its chat template has no place for them.";
}

Result<void> check_infill(const Generate& request, const BackendInfo* file) {
  if (!std::holds_alternative<InfillPrompt>(request.prompts.front())) return {};
  const config::Capability found = config::capability(config::Feature::infill, traits_of(file));
  if (found.served != config::Served::no) return {};
  return std::unexpected(unserved(found, "suffix"));
}

}  // namespace

bool suits_any_model(const Generate& request, const BackendInfo* file) {
  return !request.call_constraint && !needs_told_tools(request, file);
}

std::size_t suited_bytes(const Generate& request) {
  return request.prompt_bytes +
         (request.base.constraint ? request.base.constraint->source.bytes().size() : 0);
}

Error constraint_refusal(const Generate& request, const Error& refusal) {
  if (request.schema_places.empty()) return refusal_at(request.constraint_field, refusal);
  const SchemaPlace at =
      schema_place(request.base.constraint->source.view(), request.schema_places, refusal.where);
  Error placed = refusal;
  placed.where = at.pointer;  // the client did not write the tag
  // The format's schema is the first one, if there is a format.
  const SchemaPlace& first = request.schema_places.front();
  if (at.field.empty() && refusal.code != ErrorCode::invalid_value && first.is_format)
    placed.message = "The schema of '" + first.field +
                     "' and those of the tools are too large together: " + refusal.message;
  return refusal_at(at.field.empty() ? request.constraint_field : at.field, placed);
}

Result<void> suit_to_model(Generate& request, const BackendInfo* file) {
  if (auto ok = check_infill(request, file); !ok) return ok;
  if (needs_told_tools(request, file)) {
    request.prints.clear();
    tell_tools_in(request);
  }
  return hold_to_calls(request, file);
}

}  // namespace flyball::api
