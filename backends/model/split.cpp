#include "backends/model/split.hpp"

#include <string>

#include "backends/model/invalid.hpp"
#include "backends/model/split_name.hpp"

namespace flyball::model {
namespace {

constexpr const char *kNo = "split.no", *kCount = "split.count", *kTensors = "split.tensors.count";

// "shard 2 of 3"
std::string shard_text(std::uint64_t no, std::uint64_t count) {
  return "shard " + std::to_string(no + 1) + " of " + std::to_string(count);
}

// A shard behind the first one against what the first one says.
Result<void> check_shard(const SplitFacts& first, std::uint64_t place, const Gguf& shard,
                         std::string_view architecture) {
  const std::string where = shard_text(place, first.count);
  const auto facts = read_split(shard);
  if (!facts) return pass(facts);
  if (!*facts)
    return invalid("the file in the place of " + where + " is no shard: it has no " + kCount, kCount);
  const SplitFacts& own = **facts;
  if (own.no != place || own.count != first.count)
    return invalid("the file in the place of " + where + " says that it is " + shard_text(own.no, own.count),
                   own.count != first.count ? kCount : kNo);
  if (own.tensors != first.tensors)
    return invalid(where + " says that the model has " + std::to_string(own.tensors) +
                       " tensors, the first shard " + std::to_string(first.tensors),
                   kTensors);
  const auto named = shard.get_string("general.architecture");
  if (!named) return pass(named);
  if (*named && **named != architecture)
    return invalid(where + " is of the architecture " + printable(**named) + ", the first shard of " +
                       printable(architecture),
                   "general.architecture");
  return {};
}

}  // namespace

Result<std::optional<SplitFacts>> read_split(const Gguf& file) {
  SplitFacts facts;
  for (const auto& [key, to] :
       {std::pair(kNo, &facts.no), std::pair(kCount, &facts.count), std::pair(kTensors, &facts.tensors)}) {
    const auto value = file.get_uint(key);
    if (!value) return pass(value);
    *to = value->value_or(0);
  }
  if (facts.count <= 1) return std::nullopt;
  if (facts.count > kMaxShards)
    return invalid(std::string(kCount) + " is " + std::to_string(facts.count) + ", the limit is " +
                       std::to_string(kMaxShards),
                   kCount);
  if (facts.no >= facts.count)
    return invalid(std::string(kNo) + " is " + std::to_string(facts.no) + " of " +
                       std::to_string(facts.count) + " shards; it counts from 0",
                   kNo);
  return facts;
}

Result<std::vector<std::filesystem::path>> sibling_shards(const std::filesystem::path& path,
                                                          const Gguf& file) {
  const auto facts = read_split(file);
  if (!facts) return pass(facts);
  if (!*facts) return std::vector{path};
  const std::string shard = shard_text((*facts)->no, (*facts)->count);
  const auto name = shard_name(path);
  if (!name || name->number != (*facts)->no + 1 || name->count != (*facts)->count)
    return invalid("the file is " + shard +
                       ": it and its siblings must have the names that they were split to, such as "
                       "NAME-00001-of-00003.gguf",
                   path.string());
  if ((*facts)->no != 0)
    return invalid("the file is " + shard + "; a split model is opened by its first one, " +
                       shard_path(*name, 1).filename().string(),
                   path.string());
  return shards_of(*name);
}

Result<Gguf> join_shards(std::span<const std::byte> first, std::vector<Gguf> shards) {
  const auto facts = read_split(shards.front());
  if (!facts) return pass(facts);
  if (!*facts && shards.size() == 1) return std::move(shards.front());
  if (!*facts) return invalid(std::string("the first of several files has no ") + kCount, kCount);
  if (shards.size() != (*facts)->count || (*facts)->no != 0)
    return invalid("the file is " + shard_text((*facts)->no, (*facts)->count) + ", not a whole model",
                   kCount);
  const auto architecture = shards.front().get_string("general.architecture");
  if (!architecture) return pass(architecture);
  std::vector<GgufTensor> tensors;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (i > 0)
      if (auto ok = check_shard(**facts, i, shards[i], architecture->value_or("")); !ok) return pass(ok);
    if (tensors.size() + shards[i].tensors().size() > kMaxGgufTensors)
      return invalid("the shards have more than " + std::to_string(kMaxGgufTensors) + " tensors", kTensors);
    tensors.insert(tensors.end(), shards[i].tensors().begin(), shards[i].tensors().end());
  }
  if (tensors.size() != (*facts)->tensors)
    return invalid("the shards have " + std::to_string(tensors.size()) + " tensors where " +
                       std::to_string((*facts)->tensors) + " are promised",
                   kTensors);
  return Gguf::assemble(first, std::move(tensors));
}

}  // namespace flyball::model
