// How a tokenizer.json splits text: which of the known patterns it is.
#pragma once

#include <string>

#include "backends/model/mlx_json.hpp"

namespace flyball::model {

struct MlxSplit {
  std::string pre;  // byte level: a name of tokenizer.ggml.pre; "": LLaMA's pieces with byte fallback
  bool space_prefix = false;    // pieces: a space before a text
  bool prefix_once = false;     // at its beginning only
  bool prefix_if_none = false;  // unless it begins with one
};

// model_unsupported names what is not known. Precondition: `model` is the object of that name.
Result<MlxSplit> recognize_mlx_split(const MlxObject& tokenizer, const MlxObject& model);

}  // namespace flyball::model
