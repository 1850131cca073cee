// The models that lie in the folder of fetched models, and how they leave it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/error.hpp"

namespace flyball::hub {

// A model in the folder, or what has come of one.
struct Stored {
  std::filesystem::path file;                // GGUF file, first shard, MLX directory; of a part its own name
  std::vector<std::filesystem::path> files;  // shards, or the files of a directory, in order
  std::uint64_t bytes = 0;                   // that are there
  bool part = false;
  std::optional<std::uint64_t> expected;  // a part's whole size, where it is known
};

// In name order; empty where the folder is absent. Symbolic links are not followed. io_error.
Result<std::vector<Stored>> stored_models(const std::filesystem::path& models_dir);

// The files of a model: all shards, the files of an MLX directory, else the file alone.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& model);
// The ids of the configuration whose model has one of these files.
std::vector<std::string> users_of(const config::Config& config,
                                  const std::vector<std::filesystem::path>& files);
// The path below the folder, whatever symbolic links lead to either; "" where it lies elsewhere.
std::filesystem::path below(const std::filesystem::path& models_dir, const std::filesystem::path& file);

// The first entry of a fetched MLX directory that no pull has put there; "": there is none, or `model` is no
// directory.
std::filesystem::path stranger_in(const std::filesystem::path& model);

// Removes a file or a folder of files at `inside`, a path below `models_dir`, and the folders between both
// that are empty then. No step follows a symbolic link, so nothing outside is removed, whoever moves folders
// meanwhile. An absent file is no error. io_error.
Result<void> remove_below(const std::filesystem::path& models_dir, const std::filesystem::path& inside);

}  // namespace flyball::hub
