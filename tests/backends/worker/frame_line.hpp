// A frame to the worker in one line, for tests that compare the frames of both ends of a socket.
#pragma once

#include <string>
#include <string_view>

#include "backends/worker/codec.hpp"
#include "config/keyed_hash.hpp"

namespace flyball::test {

// The place of the message among the kinds, and a hash of the frame's payload.
inline std::string frame_line(std::string_view payload) {
  const auto message = worker::decode_to_worker(payload);
  return (message ? std::to_string(message->index()) : message.error().message) + " " +
         std::to_string(KeyedHash(1, 2)(payload)) + "\n";
}

}  // namespace flyball::test
