#include "daemon/api/anthropic/models.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "daemon/api/date.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::anthropic {
namespace {

void append_model(std::string& out, const ListedModel& model, std::int64_t created) {
  const std::string& id = model.entry->id;
  const bool is_named = model.file != nullptr && !model.file->model_name.empty();
  out.append(R"({"type":"model","id":)");
  append_json_string(out, id);
  out.append(R"(,"display_name":)");
  append_json_string(out, is_named ? model.file->model_name : id);
  out.append(R"(,"created_at":")").append(rfc3339(created)).append(R"(","max_input_tokens":)");
  out.append(model.context > 0 ? std::to_string(model.context) : "null").append(R"(,"max_tokens":null})");
}

}  // namespace

http::Response models_answer(std::span<const ListedModel> models, std::int64_t created) {
  std::string body = R"({"data":[)";
  std::string_view first, last;
  for (const ListedModel& model : models) {
    if (!model.unavailable.empty()) continue;
    last = model.entry->id;
    if (first.empty())
      first = last;
    else
      body.push_back(',');
    append_model(body, model, created);
  }
  body.append(R"(],"has_more":false)");
  for (const auto& [name, id] : {std::pair{"first_id", first}, std::pair{"last_id", last}}) {
    body.append(R"(,")").append(name).append(R"(":)");
    if (id.empty())
      body.append("null");
    else
      append_json_string(body, id);
  }
  body.push_back('}');
  return json_response(std::move(body));
}

http::Response model_answer(const ListedModel& model, std::int64_t created) {
  std::string body;
  append_model(body, model, created);
  return json_response(std::move(body));
}

}  // namespace flyball::api::anthropic
