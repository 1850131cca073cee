// The messages between daemon and worker, and their bytes. Sans-I/O. Payload:
//   [varint kind][fields in the order below]
// Both ends are the same binary; the version in hello catches a binary that was replaced in between.
//   daemon: hello, then grant (once it was asked) | start | cancel | pause | resume | drop_prefix | hold |
//           drain
//   worker: hello, then loads (heartbeats), need_memory (waits for the grant), ready or failed,
//           then loads, kept_prefixes (where they have changed) and events
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backends/backend.hpp"
#include "backends/memory_need.hpp"
#include "backends/worker/wire.hpp"
#include "config/error.hpp"

namespace flyball::worker {

inline constexpr std::uint32_t kProtocolVersion = 17;

// Counted by the daemon from 1, never reused within one worker.
using TicketId = std::uint64_t;

struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::uint32_t heartbeat_ms = 1000;  // daemon: how often loads are wanted; worker: the same value back
};
struct Start {
  TicketId ticket = 0;
  CompletionRequest request;
};
struct Cancel {
  TicketId ticket = 0;
};
struct Pause {  // the client of this stream is behind
  TicketId ticket = 0;
};
struct Resume {
  TicketId ticket = 0;
};
struct Drain {
  std::uint64_t within_ms = 0;  // then cancel what is left and exit
};
struct Grant {                 // load the model
  std::uint64_t kv_bytes = 0;  // most that its KV cache may have
};
struct DropPrefix {  // a kept one
  std::string owner, name;
};
struct Hold {  // the engine computes nothing until it is told otherwise
  bool held = false;
};
using ToWorker = std::variant<Hello, Start, Cancel, Pause, Resume, Drain, Grant, DropPrefix, Hold>;

struct NeedMemory {  // the model's directory is read, and nothing of it loaded
  MemoryNeed need;
};
struct Ready {
  BackendInfo info;
};
struct Failed {  // the model could not be loaded; the worker exits after it
  Error error;
};
struct TicketEvent {
  TicketId ticket = 0;
  Event event;
};
struct KeptPrefixes {  // all of them, in place of those told before
  std::vector<KeptPrefixState> states;
};
using ToDaemon = std::variant<Hello, NeedMemory, Ready, Failed, BackendLoad, TicketEvent, KeptPrefixes>;

// A whole frame. body_too_large when it would exceed kMaxFrameBytes.
Result<std::string> encode(const ToWorker& message);
Result<std::string> encode(const ToDaemon& message);
// The same frame in pieces, which share the long JSON values of the message.
Result<std::vector<FramePiece>> encode_in_pieces(const ToWorker& message);
// Of one payload. `internal` naming the field and the byte.
Result<ToWorker> decode_to_worker(std::string_view payload);
Result<ToDaemon> decode_to_daemon(std::string_view payload);

}  // namespace flyball::worker
