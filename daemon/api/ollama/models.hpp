// Models as Ollama's API lists them. A name without a tag gets Ollama's default one, as its clients expect:
// "demo" is "demo:latest". Pure.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/api/framing.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::ollama {

// {"models":[{"name","model","modified_at","size","digest","details"}...]}
http::Response tags_answer(std::span<const ListedModel> models, std::int64_t created);
// The same of those that an engine has loaded, with "context_length".
http::Response ps_answer(std::span<const ListedModel> models, std::int64_t created);
// {"details","model_info","capabilities",...}
http::Response show_answer(const ListedModel& model, std::int64_t created);

}  // namespace flyball::api::ollama
