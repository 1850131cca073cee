// A synthetic model that has the tokenizer of another file: a real vocabulary over random weights.
#pragma once

#include <filesystem>
#include <string>

#include "config/error.hpp"

namespace flyball::bench {

// Writes a model of the shape, such as "dim=64,layers=1", whose vocabulary is the one of the GGUF file
// `vocabulary`. Errors are those of reading that file, of the shape and of writing.
Result<void> write_vocabulary_model(const std::filesystem::path& out, const std::string& shape,
                                    const std::filesystem::path& vocabulary);

}  // namespace flyball::bench
