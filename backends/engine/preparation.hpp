// Requests that wait to be prepared, in lanes with a thread each: prompts of little text, and prompts whose
// text takes long to read, so that nobody's small prompt waits for a large one; and constraints, which are
// compiled before their prompts take a lane. Apps take turns in each lane. The engine bounds its length: it
// counts requests before they enter.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "backends/engine/constraint_cache.hpp"
#include "backends/engine/delivery.hpp"
#include "backends/round_robin.hpp"

namespace flyball::engine {

enum class LaneId : std::uint8_t { small, large, constraints };
inline constexpr std::size_t kLanes = 3;

// Text of a small prompt at most: about 7,000 tokens of English, which take 0.5 ms to tokenize. The worst
// that was found, one word of so many random letters, takes 10 ms.
inline constexpr std::size_t kSmallPromptBytes = std::size_t{32} << 10U;

constexpr LaneId lane_of(std::size_t text_bytes) noexcept {
  return text_bytes <= kSmallPromptBytes ? LaneId::small : LaneId::large;
}

struct Waiting {
  CompletionRequest request;
  std::shared_ptr<Delivery> delivery;
  TimePoint arrived;
  std::optional<CompiledConstraint> constraint = {};  // once it is compiled
  std::uint64_t compile_us = 0;                       // that it took
};

class Preparation {
 public:
  void put(LaneId lane, Waiting waiting) {
    Lane& mine = this->lane(lane);
    {
      const std::lock_guard lock(mine.mutex);
      const std::string owner = waiting.request.owner;
      mine.turns.put(owner, std::move(waiting));
    }
    mine.arrived.notify_one();
  }
  // Waits for the next one; nullopt: it has ended.
  std::optional<Waiting> take(LaneId lane) {
    Lane& mine = this->lane(lane);
    std::unique_lock lock(mine.mutex);
    mine.arrived.wait(lock, [&] { return mine.ended || !mine.turns.empty(); });
    return mine.turns.take();
  }
  // Takes it out where no thread has taken it yet.
  std::optional<Waiting> remove(const Delivery& delivery) noexcept {
    for (Lane& lane : lanes_) {
      const std::lock_guard lock(lane.mutex);
      auto waiting = lane.turns.remove([&](const Waiting& w) { return w.delivery.get() == &delivery; });
      if (waiting) return waiting;
    }
    return std::nullopt;
  }
  // Requests that wait are still taken.
  void end(LaneId lane) {
    Lane& mine = this->lane(lane);
    {
      const std::lock_guard lock(mine.mutex);
      mine.ended = true;
    }
    mine.arrived.notify_all();
  }

 private:
  struct Lane {
    std::mutex mutex;
    std::condition_variable arrived;
    RoundRobin<Waiting> turns;  // guarded by mutex, as what follows
    bool ended = false;
  };
  Lane& lane(LaneId lane) noexcept { return lanes_[static_cast<std::size_t>(lane)]; }
  std::array<Lane, kLanes> lanes_;
};

}  // namespace flyball::engine
