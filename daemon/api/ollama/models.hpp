// Models as Ollama's API lists them, without those that no engine can serve. Clients expect a tag: a name
// without one gets Ollama's default, unless another listed model is called so. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "daemon/api/framing.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::ollama {

// {"models":[{"name","model","modified_at","size","digest","details"}...]}
http::Response tags_answer(std::span<const ListedModel> models, std::int64_t created);
// Models that an engine has loaded, in the same form, each with "expires_at", "size_vram" and, if it is
// known, "context_length".
http::Response ps_answer(std::span<const ListedModel> models, std::int64_t created);
// {"details","model_info","capabilities",...}
http::Response show_answer(const ListedModel& model, std::int64_t created);

}  // namespace flyball::api::ollama
