// Bytes from the other end of the worker socket: framing, then both decoders. What decodes must
// encode and decode again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backends/worker/codec.hpp"
#include "backends/worker/wire.hpp"

using namespace flyball::worker;

namespace {

void check(std::string_view payload) {
  if (auto message = decode_to_worker(payload)) {
    const auto again = encode(*message);
    if (!again) std::abort();
    if (!decode_to_worker(std::string_view(*again).substr(kFrameHeaderBytes))) std::abort();
  }
  if (auto message = decode_to_daemon(payload)) {
    const auto again = encode(*message);
    if (!again) std::abort();
    if (!decode_to_daemon(std::string_view(*again).substr(kFrameHeaderBytes))) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  FrameBuffer frames(1U << 16);
  // In two pieces, cut where the first byte says.
  const std::size_t cut = size == 0 ? 0 : data[0] % (size + 1);
  for (const std::string_view part : {bytes.substr(0, cut), bytes.substr(cut)}) {
    frames.append(part);
    while (true) {
      auto payload = frames.next();
      if (!payload) return 0;
      if (!*payload) break;
      check(**payload);
    }
  }
  return 0;
}
