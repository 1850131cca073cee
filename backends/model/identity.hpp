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
// SHA-256 of the metadata and of the samples alone, in hex: people compare the model that is loaded with the
// file on the disk by it, and an answer goes on with weights of the same digest. A file whose times changed
// and nothing else keeps its digest.
std::string digest_of(const ModelFile& model);

}  // namespace flyball::model
