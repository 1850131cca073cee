#include "daemon/api/table/codecs.hpp"

#include <array>

#include "daemon/api/native/codec.hpp"
#include "daemon/api/ollama/codec.hpp"
#include "daemon/api/openai/codec.hpp"

namespace flyball::api {

Codecs all_codecs() noexcept {
  static constexpr std::array<const Codec*, 3> kCodecs{&native::kCodec, &openai::kCodec, &ollama::kCodec};
  return kCodecs;
}

}  // namespace flyball::api
