// Shards of a split GGUF file put together. Keys: https://github.com/ggml-org/llama.cpp, tools/gguf-split.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "backends/model/gguf.hpp"
#include "config/error.hpp"

namespace flyball::model {

// A shard's own account of the split. The first one has the metadata; each has some of the tensors.
struct SplitFacts {
  std::uint64_t no = 0, count = 0;  // split.no, from 0; split.count
  std::uint64_t tensors = 0;        // split.tensors.count: of all shards
};

// nullopt: a file that is no shard: no split.count, or 1 at most. model_invalid: keys that contradict each
// other.
Result<std::optional<SplitFacts>> read_split(const Gguf& file);

// The file itself where it is whole, else all shards in order. model_invalid: the file is not the first
// shard, or has not the name of one, by which its siblings are found.
Result<std::vector<std::filesystem::path>> sibling_shards(const std::filesystem::path& path,
                                                          const Gguf& file);

// The shards' tensors behind the first one's metadata; a file that is whole as it is. The shards' bytes are
// viewed, `first` those of the first one. model_invalid names the shard: one out of its place, of another
// count or architecture; also too few shards, a tensor that two have, and another number of tensors than is
// promised. Precondition: there is at least one.
Result<Gguf> join_shards(std::span<const std::byte> first, std::vector<Gguf> shards);

}  // namespace flyball::model
