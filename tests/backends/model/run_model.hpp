// A small synthetic model in memory, for tests of executors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/model/model_file.hpp"
#include "backends/model/synthetic.hpp"

namespace flyball::test {

struct RunModel {
  std::vector<std::byte> bytes;
  std::unique_ptr<model::ModelFile> file;
  std::uint32_t vocab() const { return file->config().vocab_size; }
};

inline RunModel synthetic_model(const model::SyntheticSpec& spec) {
  RunModel m;
  m.bytes = model::synthetic_bytes(spec).value();
  m.file = model::ModelFile::from_bytes(m.bytes).value();
  return m;
}

inline RunModel synthetic_model(kernels::DType type, std::string_view shape) {
  auto spec = model::parse_synthetic_shape(shape).value();
  spec.type = type;
  return synthetic_model(spec);
}

// As small as the blocks of a format allow.
inline std::string_view shape_for(kernels::DType type) {
  return kernels::block_shape(type).values == 256 ? "dim=256,layers=2,heads=4,kv_heads=2,ffn=256,vocab=320"
                                                  : "dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320";
}

}  // namespace flyball::test
