// The cache of Hugging Face's libraries: huggingface.co/docs/huggingface_hub/guides/manage-cache.
#pragma once

#include <string_view>

#include "daemon/discover/found.hpp"
#include "daemon/discover/walk.hpp"

namespace flyball::discover {

// The name of a model's folder there: "models--ORG--NAME".
bool is_repository_name(std::string_view folder);

void look_through_hugging_face(StoreContents& out, const WalkLimits& limits);  // out.root: HF_HUB_CACHE

}  // namespace flyball::discover
