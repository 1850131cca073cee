// A grammar read from text that arrives in pieces: a coroutine reads a byte at a time and is suspended where
// the next byte has not come. It sees one sequence of bytes, wherever that was cut. GCC 12
// miscompiles awaits that are operands of && and || or stand in a co_return, and lists in braces around them:
// an await stands alone in its condition or declaration.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace flyball::api::calls {

// A part of a grammar as a coroutine. It begins when it is awaited, and runs on the stack of whoever awaits
// it until it waits for a byte itself: no jump between coroutines depends on the compiler's optimizations.
template <class T>
class Reading {
 public:
  struct promise_type {
    std::optional<T> value;
    std::exception_ptr error;
    std::coroutine_handle<> caller;  // that waits for it; null: it has not been left yet

    Reading get_return_object() { return Reading(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Return {
        bool await_ready() noexcept { return false; }
        void await_suspend(Handle done) noexcept {
          if (const auto caller = done.promise().caller) caller.resume();
        }
        void await_resume() noexcept {}
      };
      return Return{};
    }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Reading(Reading&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  Reading& operator=(Reading&&) = delete;
  ~Reading() {
    if (handle_) handle_.destroy();
  }

  // Begins one that nobody awaits.
  void start() { handle_.resume(); }
  // Throws what it ended by, if that is an exception.
  void check() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

  bool await_ready() const {
    handle_.resume();
    return handle_.done();
  }
  void await_suspend(std::coroutine_handle<> caller) noexcept { handle_.promise().caller = caller; }
  T await_resume() {
    check();
    return std::move(*handle_.promise().value);
  }

 private:
  using Handle = std::coroutine_handle<promise_type>;
  explicit Reading(Handle handle) : handle_(handle) {}

  Handle handle_;
};

// The bytes that have come and are not yet read.
class ByteFeed {
 public:
  static constexpr int kEnd = -1;

  // Both go on with whoever waits.
  void add(std::string_view bytes) {
    drop_read();
    bytes_ += bytes;
    run();
  }
  void end() {
    ended_ = true;
    run();
  }

  // To be awaited: the byte `ahead` bytes behind the next one, or kEnd.
  auto peek(std::size_t ahead = 0) noexcept {
    struct Peek {
      ByteFeed& feed;
      std::size_t ahead;
      bool await_ready() const noexcept { return feed.is_known(ahead); }
      void await_suspend(std::coroutine_handle<> reader) noexcept {
        feed.reader_ = reader;
        feed.wanted_ = ahead;
      }
      int await_resume() const noexcept {
        const std::size_t at = feed.at_ + ahead;
        return at < feed.bytes_.size() ? static_cast<unsigned char>(feed.bytes_[at]) : kEnd;
      }
    };
    return Peek{*this, ahead};
  }
  std::string_view here() const noexcept { return std::string_view(bytes_).substr(at_); }
  void take(std::size_t n) noexcept { at_ += n; }

  // Bytes that are read from now on are kept, until forget().
  void keep() noexcept { kept_ = at_; }
  void forget() noexcept { kept_.reset(); }
  bool keeps() const noexcept { return kept_.has_value(); }
  bool is_over() const noexcept { return ended_ && at_ == bytes_.size(); }
  std::string_view kept() const noexcept {
    return kept_ ? std::string_view(bytes_).substr(*kept_, at_ - *kept_) : std::string_view();
  }

 private:
  bool is_known(std::size_t ahead) const noexcept { return at_ + ahead < bytes_.size() || ended_; }
  void run() {
    while (reader_ && is_known(wanted_)) std::exchange(reader_, nullptr).resume();
  }
  // At a cost of one byte moved for each one read.
  void drop_read() {
    const std::size_t n = kept_.value_or(at_);
    if (n < bytes_.size() - n) return;
    bytes_.erase(0, n);
    at_ -= n;
    if (kept_) kept_ = 0;
  }

  std::string bytes_;
  std::size_t at_ = 0;
  std::optional<std::size_t> kept_;
  bool ended_ = false;
  std::coroutine_handle<> reader_;
  std::size_t wanted_ = 0;
};

}  // namespace flyball::api::calls
