// The cache of Hugging Face's libraries: huggingface.co/docs/huggingface_hub/guides/manage-cache.
#pragma once

#include "daemon/discover/found.hpp"
#include "daemon/discover/walk.hpp"

namespace flyball::discover {

void look_through_hugging_face(StoreContents& out, const WalkLimits& limits);  // out.root: HF_HUB_CACHE

}  // namespace flyball::discover
