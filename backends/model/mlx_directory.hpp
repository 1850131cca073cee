// The files of an MLX directory, mapped.
#pragma once

#include <filesystem>
#include <vector>

#include "backends/model/mapped_file.hpp"
#include "backends/model/mlx.hpp"

namespace flyball::model {

struct MlxDirectory {
  MlxFiles files;  // views into:
  std::vector<MappedFile> texts, shards;
};

// io_error that names all that a model lacks; MappedFile::open's errors, read_mlx_index's, and model_invalid
// for a file above its limit. May throw bad_alloc.
Result<MlxDirectory> map_mlx_directory(const std::filesystem::path& path);

}  // namespace flyball::model
