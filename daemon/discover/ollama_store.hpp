// Ollama's store: manifests by name, and the blobs that they name by digest.
#pragma once

#include "daemon/discover/found.hpp"
#include "daemon/discover/walk.hpp"

namespace flyball::discover {

void look_through_ollama(StoreContents& out,
                         const WalkLimits& limits);  // out.root: the folder of "manifests"

}  // namespace flyball::discover
