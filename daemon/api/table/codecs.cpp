#include "daemon/api/table/codecs.hpp"

#include <array>

#include "daemon/api/anthropic/codec.hpp"
#include "daemon/api/native/codec.hpp"
#include "daemon/api/ollama/codec.hpp"
#include "daemon/api/openai/codec.hpp"

namespace flyball::api {

Codecs all_codecs() noexcept {
  static constexpr std::array<const Codec*, 4> kCodecs{&native::kCodec, &anthropic::kCodec, &openai::kCodec,
                                                       &ollama::kCodec};
  return kCodecs;
}

}  // namespace flyball::api
