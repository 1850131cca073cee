// State that the engine's threads, its backend and the tickets of its requests share: requests to be
// prepared, commands for the engine thread, counters, and the requests that are still open.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/engine/delivery.hpp"
#include "backends/engine/mailbox.hpp"
#include "backends/engine/preparation.hpp"
#include "backends/engine/scheduler.hpp"
#include "backends/engine/sequence.hpp"

namespace flyball::engine {

struct Command {
  enum class Kind : std::uint8_t {
    submit,
    cancel,
    resume,
    drop_prefix,
    look,  // whether the engine is still held
    end_all,
    save,
    stop
  } kind = Kind::stop;
  std::shared_ptr<Delivery> delivery;  // cancel, resume
  std::unique_ptr<Sequence> sequence;  // submit
  TimePoint until{};                   // save
  struct Prefix {
    std::string owner, name;
  };
  std::unique_ptr<const Prefix> prefix = {};  // drop_prefix
};

// Tickets may outlive the backend.
struct Shared {
  Preparation to_prepare;
  Mailbox<Command> commands;
  std::atomic<bool> refusing{false};  // drain or destruction has begun
  std::atomic<bool> lost{false};      // the device is gone
  std::atomic<bool> ending{false};    // requests not yet prepared end, too
  std::atomic<bool> called{false};    // a command came since the engine looked last
  std::atomic<bool> held{false};      // the engine computes nothing
  std::atomic<std::uint64_t> steps{0}, prompt_tokens{0}, cached_tokens{0}, completion_tokens{0},
      preemptions{0}, restored_tokens{0};
  std::atomic<std::uint32_t> running{0}, kv_used{0};

  void order(Command command) {
    commands.put(std::move(command));
    called = true;
  }

  // Requests that have not had their last event, reserved before any work is done for them.
  bool reserve(std::uint32_t limit) {
    std::uint32_t n = open_.load();
    while (n < limit)
      if (open_.compare_exchange_weak(n, n + 1)) return true;
    return false;
  }
  void settle() {
    if (open_.fetch_sub(1) != 1) return;
    { const std::lock_guard lock(mutex_); }
    idle_.notify_all();
  }
  bool wait_idle(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    return idle_.wait_until(lock, deadline, [this] { return open_.load() == 0; });
  }
  std::uint32_t open() const noexcept { return open_.load(); }
  void set_kept_prefixes(std::vector<KeptPrefixState> states) {
    const std::lock_guard lock(mutex_);
    kept_prefixes_ = std::move(states);
  }
  std::vector<KeptPrefixState> kept_prefixes() {
    const std::lock_guard lock(mutex_);
    return kept_prefixes_;
  }
  void set_saved() {
    {
      const std::lock_guard lock(mutex_);
      saved_ = true;
    }
    idle_.notify_all();
  }
  void wait_saved() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return saved_; });
  }

 private:
  std::atomic<std::uint32_t> open_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
  bool saved_ = false;                          // mutex_
  std::vector<KeptPrefixState> kept_prefixes_;  // mutex_
};

class EngineTicket final : public Ticket::Impl {
 public:
  EngineTicket(std::shared_ptr<Shared> shared, std::shared_ptr<Delivery> delivery)
      : shared_(std::move(shared)), delivery_(std::move(delivery)) {}
  ~EngineTicket() override {
    if (delivery_->closed()) return;  // it has ended
    delivery_->close();
    if (shared_->to_prepare.remove(*delivery_)) {
      shared_->settle();
    } else {
      shared_->order({Command::Kind::cancel, delivery_, nullptr, {}});
    }
  }
  void resume() noexcept override {
    if (delivery_->closed() || !delivery_->ask_resume()) return;
    shared_->order({Command::Kind::resume, delivery_, nullptr, {}});
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Delivery> delivery_;
};

}  // namespace flyball::engine
