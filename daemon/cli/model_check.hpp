// A check that files are a model of this build, by a process of its own (`flyball inspect`).
#pragma once

#include <filesystem>
#include <span>

#include "config/error.hpp"

namespace flyball::cli {

// model_invalid, model_unsupported, io_error: what inspect says. worker_died: it died or did not end over the
// file. model_unavailable: it could not be started, so nothing is known of the file.
Result<void> check_model_file(const std::filesystem::path& model);
// The same of files under the names of their parts: they are looked at by their final names, `names`, which
// are links in a folder of their own beside them.
Result<void> check_model_parts(std::span<const std::filesystem::path> files,
                               std::span<const std::filesystem::path> names);

}  // namespace flyball::cli
