// The models among the files of one folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/discover/found.hpp"

namespace flyball::discover {

// Names that count in a folder of models: GGUF and safetensors files, config.json, and downloads of such
// files that have not ended.
bool is_model_name(std::string_view name);

// Adds the models and obstacles of `folder`, whose names that is_model_name accepts are `names`. A GGUF file,
// the shards of a split one and a directory of safetensors are a model each; files for images (mmproj) are
// none. prefix: of the models' names, "Qwen/Qwen3-0.6B-GGUF/"; a directory's model is called as the prefix
// without its last slash, or else as the folder. Reads the files' sizes and nothing of what is in them.
void add_models(const std::filesystem::path& folder, const std::vector<std::string>& names,
                const std::string& prefix, StoreContents& out);

}  // namespace flyball::discover
