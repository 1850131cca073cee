// Requests without a prompt, by which Ollama's clients load a model and unload it: what they ask for, and how
// they are answered. Pure.
#pragma once

#include <memory>

#include "config/error.hpp"
#include "config/packed_json.hpp"
#include "daemon/api/ollama/writer.hpp"
#include "daemon/api/operation.hpp"

namespace flyball::api::ollama {

// The writer of the one document that says that the model is loaded:
// {"model","created_at","response":"","done_reason":"load","done":true}.
std::unique_ptr<AnswerWriter> load_writer(Writer::Shape shape);

// keep_alive says that the model is to be unloaded: it is 0, as a number or as Go writes durations ("0",
// "0s").
bool is_zero(JsonView keep_alive);
// The request without a prompt, as one to unload its model. missing_field: it names none.
Result<UnloadModel> unload_of(Generate request, Writer::Shape shape);

}  // namespace flyball::api::ollama
