// Models as Anthropic's API lists them, without those that no engine can serve. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/api/framing.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::anthropic {

// {"data":[{"type":"model","id","display_name","created_at","max_input_tokens","max_tokens"}...],"has_more",
// "first_id","last_id"}: one page has all. max_input_tokens is the context where it is known, else null.
http::Response models_answer(std::span<const ListedModel> models, std::int64_t created);
// One of them.
http::Response model_answer(const ListedModel& model, std::int64_t created);

}  // namespace flyball::api::anthropic
