// What tells a model from every other, without reading all of it: for what is kept beyond a process and is of
// use to the same model alone.
#pragma once

#include <filesystem>
#include <string>

#include "backends/model/model_file.hpp"

namespace flyball::model {

// Bytes to be hashed, some kilobytes a tensor: the metadata's numbers and texts, each tensor's name, shape
// and parts of its data, and of the file (or all shards, or the directory's files; "": the embedded demo) size
// and time of the last change. A file that was written over has another one, whatever was changed in it.
std::string identity_of(const ModelFile& model, const std::filesystem::path& path);
// SHA-256 of that, in hex: the name under which people compare what is loaded with what lies on the disk.
std::string digest_of(const ModelFile& model, const std::filesystem::path& path);

}  // namespace flyball::model
