// A GGUF file cut into shards as llama.cpp's gguf-split cuts it: the first has the metadata, all have the
// three split keys.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "backends/model/gguf.hpp"
#include "tests/backends/model/raw_gguf.hpp"

namespace flyball::model::test {

// The split keys of one shard, which a test may change.
struct ShardKeys {
  std::uint16_t no = 0, count = 0;
  std::int32_t tensors = 0;
  std::string architecture = {};  // "": none, or in the first shard the model's
};

// Tensors go to the shards in turn. edit(i, keys) may change what shard i says of itself.
template <class Edit>
std::vector<std::vector<std::byte>> cut_into_shards(std::span<const std::byte> whole, std::uint16_t n,
                                                    Edit&& edit) {
  const auto gguf = Gguf::parse(whole);
  const auto& tensors = gguf->tensors();
  const auto* const directory =
      reinterpret_cast<const std::byte*>(tensors[0].name.data()) - sizeof(std::uint64_t);
  const std::span metadata(whole.data() + 24, directory);
  std::uint64_t n_keys = 0;
  std::memcpy(&n_keys, whole.data() + 16, sizeof n_keys);
  std::vector<std::vector<std::byte>> shards;
  for (std::uint16_t i = 0; i < n; ++i) {
    ShardKeys keys{i, n, static_cast<std::int32_t>(tensors.size())};
    edit(i, keys);
    std::uint64_t own = 0;
    for (std::size_t t = i; t < tensors.size(); t += n) ++own;
    Raw out;
    out.header(own, (i == 0 ? n_keys : 0) + 3 + (keys.architecture.empty() ? 0 : 1));
    if (i == 0)
      for (const std::byte byte : metadata) out.put(static_cast<std::uint8_t>(byte));
    if (!keys.architecture.empty()) out.key("general.architecture", GgufType::string).text(keys.architecture);
    out.key("split.no", GgufType::u16).put(keys.no);
    out.key("split.count", GgufType::u16).put(keys.count);
    out.key("split.tensors.count", GgufType::i32).put(keys.tensors);
    std::uint64_t offset = 0;
    for (std::size_t t = i; t < tensors.size(); t += n) {
      const GgufTensor& tensor = tensors[t];
      std::uint32_t type = 0;  // behind the name: the number of dimensions, and those
      std::memcpy(&type, tensor.name.data() + tensor.name.size() + 4 + 8 * tensor.n_dims, sizeof type);
      out.tensor(tensor.name, {tensor.dims, tensor.dims + tensor.n_dims}, type, offset);
      offset += (tensor.data.size() + 31) / 32 * 32;
    }
    out.pad(32);
    for (std::size_t t = i; t < tensors.size(); t += n) {
      for (const std::byte byte : tensors[t].data) out.put(static_cast<std::uint8_t>(byte));
      out.pad(32);
    }
    shards.emplace_back(out.bytes().begin(), out.bytes().end());
  }
  return shards;
}
inline std::vector<std::vector<std::byte>> cut_into_shards(std::span<const std::byte> whole,
                                                           std::uint16_t n) {
  return cut_into_shards(whole, n, [](std::uint16_t, ShardKeys&) {});
}

}  // namespace flyball::model::test
