// One poll loop owns the descriptor and every Ticket; engine threads only append frames to the outbox and
// wake it.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "backends/worker/codec.hpp"
#include "backends/worker/server.hpp"
#include "backends/worker/wire.hpp"
#include "config/descriptor.hpp"

namespace flyball::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Encoded bytes of one stream that wait for the socket before its sequence is paused, and where it goes on: a
// few hundred tokens, so that a pause is rare and a slow daemon costs little memory.
constexpr std::size_t kStreamHighWater = 64 * 1024;
constexpr std::size_t kStreamLowWater = 16 * 1024;
constexpr std::size_t kReadChunk = 64 * 1024;
constexpr std::size_t kMaxDaemonTickets = 65'536;  // open at once; the daemon's own queue limit is far below

class Outbox;

// The sink of one request. `queued`, `stalled` and `finished` belong to the outbox's lock.
struct Stream final : EventSink, std::enable_shared_from_this<Stream> {
  Stream(TicketId id, std::shared_ptr<Outbox> box) : ticket(id), outbox(std::move(box)) {}
  bool push(Event event) noexcept override;
  const TicketId ticket;
  const std::shared_ptr<Outbox> outbox;
  std::size_t queued = 0;
  bool paused = false;   // by the daemon
  bool stalled = false;  // push said false: the sequence waits for resume()
};

class Outbox {
 public:
  struct Item {
    std::string frame;
    std::shared_ptr<Stream> stream;  // null: a message of the worker itself
    bool last = false;               // of its stream
  };

  Outbox() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  int wake_fd() const noexcept { return wake_fd_.get(); }
  void wake() noexcept {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the loop is awake already.
    [[maybe_unused]] const auto n = write(wake_fd_.get(), &one, sizeof one);
  }
  void clear_wake() noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = read(wake_fd_.get(), &count, sizeof count);
  }

  // Returns whether the stream may go on.
  bool post(std::string frame, std::shared_ptr<Stream> stream, bool last) {
    bool go_on = true;
    bool was_empty = false;
    {
      const std::lock_guard lock(mutex_);
      was_empty = items_.empty();
      const Item& item = items_.emplace_back(Item{std::move(frame), std::move(stream), last});
      if (item.stream) {
        item.stream->queued += item.frame.size();
        go_on = !item.stream->paused && item.stream->queued <= kStreamHighWater;
        if (!go_on) item.stream->stalled = true;
      }
    }
    if (was_empty) wake();
    return go_on;
  }
  std::deque<Item> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(items_, {});
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return items_.empty();
  }
  void lose_device() noexcept { device_lost_ = true; }
  bool device_lost() const noexcept { return device_lost_; }
  // Each returns whether the stream's ticket should be resumed now.
  bool written(Stream& stream, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    stream.queued -= bytes;
    return released(stream);
  }
  bool set_paused(Stream& stream, bool paused) {
    const std::lock_guard lock(mutex_);
    stream.paused = paused;
    return released(stream);
  }

 private:
  static bool released(Stream& stream) {
    if (!stream.stalled || stream.paused || stream.queued > kStreamLowWater) return false;
    stream.stalled = false;
    return true;
  }
  const Descriptor wake_fd_;
  std::mutex mutex_;
  std::deque<Item> items_;  // mutex_
  std::atomic<bool> device_lost_{false};
};

bool Stream::push(Event event) noexcept {
  const bool last = !std::holds_alternative<Delta>(event);
  if (const auto* error = std::get_if<Error>(&event); error && error->code == ErrorCode::device_lost)
    outbox->lose_device();
  try {
    auto frame = encode(ToDaemon{TicketEvent{ticket, std::move(event)}});
    if (!frame)
      frame =
          encode(ToDaemon{TicketEvent{ticket, Error{ErrorCode::internal, frame.error().message, "", ""}}});
    return outbox->post(std::move(*frame), shared_from_this(), last);
  } catch (const std::bad_alloc&) {
    // Some fifty bytes may still be had; where not, the worker ends here, and the daemon starts another.
    const Error error{ErrorCode::insufficient_memory, "Out of memory.", "", ""};
    return outbox->post(*encode(ToDaemon{TicketEvent{ticket, error}}), shared_from_this(), true);
  }
}

// What the loader and drainer threads leave behind for the loop; they may outlive it.
struct Background {
  std::mutex mutex;
  std::optional<Result<std::unique_ptr<Backend>>> loaded;  // mutex
  bool drained = false;                                    // mutex
  std::optional<MemoryNeed> need;                          // mutex; asked and not sent yet
  std::optional<std::uint64_t> granted;                    // mutex
  std::condition_variable answered;
};

class Server {
 public:
  Server(int fd, BackendLoader load) : fd_(fd), load_(std::move(load)) {}

  int run() {
    fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
    fcntl(fd_, F_SETFD, FD_CLOEXEC);  // what a driver starts must not keep the line open
    std::thread([load = std::move(load_), shared = background_, outbox = outbox_] {
      auto result = load([&](const MemoryNeed& need) {
        std::unique_lock lock(shared->mutex);
        shared->need = need;
        outbox->wake();
        shared->answered.wait(lock, [&] { return shared->granted.has_value(); });
        return *shared->granted;
      });
      {
        const std::lock_guard lock(shared->mutex);
        shared->loaded = std::move(result);
      }
      outbox->wake();
    }).detach();
    while (!exit_code_) step();
    open_.clear();  // cancels; the backend goes after its tickets
    return *exit_code_;
  }

 private:
  struct Open {
    std::shared_ptr<Stream> stream;
    Ticket ticket;
  };

  void step() {
    const bool want_write = !writing_.empty() || !outbox_->empty();
    std::array<pollfd, 2> fds{
        {{fd_, static_cast<short>(POLLIN | (want_write ? POLLOUT : 0)), 0}, {outbox_->wake_fd(), POLLIN, 0}}};
    poll(fds.data(), fds.size(), poll_timeout());
    if ((fds[1].revents & POLLIN) != 0) outbox_->clear_wake();
    if (fds[0].revents != 0) receive();
    if (exit_code_) return;
    ask_memory();
    adopt_backend();
    heartbeat();
    flush();
    finish_when_done();
  }

  int poll_timeout() const {
    if (!heartbeat_) return drain_by_ ? 10 : -1;
    const auto left = std::chrono::ceil<milliseconds>(next_heartbeat_ - steady_clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, drain_by_ ? 10 : 60'000));
  }

  void receive() {
    std::array<char, kReadChunk> chunk;
    const ssize_t n = recv(fd_, chunk.data(), chunk.size(), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      exit_code_ = kWorkerServed;  // the daemon is gone: so is the reason to run
      return;
    }
    if (n < 0) return;
    received_.append({chunk.data(), static_cast<std::size_t>(n)});
    while (!exit_code_) {
      auto payload = received_.next();
      if (payload && !*payload) return;
      auto message =
          payload ? decode_to_worker(**payload) : Result<ToWorker>(std::unexpected(payload.error()));
      if (!message) return protocol_error(message.error().message + " at " + message.error().where);
      if (!heartbeat_ && !std::holds_alternative<Hello>(*message))
        return protocol_error("no hello came first");
      std::visit([this](auto& m) { handle(m); }, *message);
    }
  }

  void protocol_error(const std::string& what) {
    std::fprintf(stderr, "flyball engine: %s\n", what.c_str());
    exit_code_ = kWorkerProtocolError;
  }

  void handle(Hello& hello) {
    heartbeat_ = milliseconds(hello.heartbeat_ms);
    next_heartbeat_ = steady_clock::now();
    send(Hello{kProtocolVersion, hello.heartbeat_ms});
  }
  void handle(Start& start) {
    if (start.ticket <= last_ticket_) return protocol_error("ticket numbers went backwards");
    last_ticket_ = start.ticket;
    auto stream = std::make_shared<Stream>(start.ticket, outbox_);
    Result<Ticket> ticket = fail(ErrorCode::model_unavailable, "The engine is still loading its model.");
    if (drain_by_) {
      ticket = fail(ErrorCode::shutting_down, "The engine is shutting down.");
    } else if (open_.size() >= kMaxDaemonTickets) {
      ticket = fail(ErrorCode::overloaded, "The engine holds " + std::to_string(open_.size()) + " requests.");
    } else if (backend_) {
      ticket = backend_->start(std::move(start.request), stream);
    }
    if (!ticket) {
      stream->push(std::move(ticket.error()));
      return;
    }
    open_.emplace(start.ticket, Open{std::move(stream), std::move(*ticket)});
  }
  void handle(Grant& grant) {
    {
      const std::lock_guard lock(background_->mutex);
      background_->granted = grant.kv_bytes;
    }
    background_->answered.notify_all();
  }
  void handle(Cancel& cancel) { open_.erase(cancel.ticket); }
  void handle(DropPrefix& drop) {
    if (backend_) backend_->drop_kept_prefix(drop.owner, drop.name);
  }
  void handle(Hold& hold) {
    if (backend_) backend_->hold(hold.held);
  }
  void handle(Pause& pause) { set_paused(pause.ticket, true); }
  void handle(Resume& resume) { set_paused(resume.ticket, false); }
  void handle(Drain& drain) {
    const auto deadline = steady_clock::now() + milliseconds(drain.within_ms);
    if (drain_by_) return;
    drain_by_ = deadline;
    if (!backend_) {
      exit_code_ = kWorkerServed;
      return;
    }
    // drain() may wait for what runs; the loop must go on writing meanwhile.
    std::thread([backend = backend_, shared = background_, outbox = outbox_, deadline] {
      backend->drain(deadline);
      {
        const std::lock_guard lock(shared->mutex);
        shared->drained = true;
      }
      outbox->wake();
    }).detach();
  }
  // A cancelled or finished request may still be named by a message that was on its way.
  void set_paused(TicketId ticket, bool paused) {
    const auto it = open_.find(ticket);
    if (it != open_.end() && outbox_->set_paused(*it->second.stream, paused)) it->second.ticket.resume();
  }

  void ask_memory() {
    std::optional<MemoryNeed> need;
    {
      const std::lock_guard lock(background_->mutex);
      if (heartbeat_) need = std::exchange(background_->need, std::nullopt);  // hello comes first
    }
    if (need) send(NeedMemory{*need});
  }

  void adopt_backend() {
    if (backend_ || load_failed_) return;
    std::optional<Result<std::unique_ptr<Backend>>> loaded;
    {
      const std::lock_guard lock(background_->mutex);
      if (!heartbeat_ || !background_->loaded) return;  // ready is not sent before hello
      loaded = std::exchange(background_->loaded, std::nullopt);
    }
    if (*loaded) {
      backend_ = std::move(**loaded);
      send(Ready{backend_->info()});
    } else {
      load_failed_ = true;
      send(Failed{std::move(loaded->error())});
    }
  }

  void heartbeat() {
    const auto now = steady_clock::now();
    if (!heartbeat_ || now < next_heartbeat_) return;
    next_heartbeat_ = now + *heartbeat_;
    send(backend_ ? backend_->load() : BackendLoad{});
    if (!backend_) return;
    auto kept = backend_->kept_prefixes();
    if (kept == kept_told_) return;
    kept_told_ = kept;
    send(KeptPrefixes{std::move(kept)});
  }

  void send(ToDaemon message) {
    if (auto frame = encode(message)) outbox_->post(std::move(*frame), nullptr, false);
  }

  void flush() {
    if (writing_.empty()) writing_ = outbox_->take();
    while (!writing_.empty()) {
      Outbox::Item& item = writing_.front();
      const ssize_t n = ::send(fd_, item.frame.data() + written_, item.frame.size() - written_, MSG_NOSIGNAL);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (n < 0) {
        exit_code_ = kWorkerServed;
        return;
      }
      written_ += static_cast<std::size_t>(n);
      if (written_ < item.frame.size()) continue;
      written_ = 0;
      if (item.stream) sent(item);
      writing_.pop_front();
      if (writing_.empty()) writing_ = outbox_->take();
    }
  }
  void sent(const Outbox::Item& item) {
    const bool resume = outbox_->written(*item.stream, item.frame.size());
    const auto it = open_.find(item.stream->ticket);
    if (it == open_.end()) return;
    if (item.last) {
      open_.erase(it);
    } else if (resume) {
      it->second.ticket.resume();
    }
  }

  void finish_when_done() {
    if (!writing_.empty() || !outbox_->empty()) return;
    if (load_failed_) exit_code_ = kWorkerLoadFailed;
    // Every request has heard of it: a driver that failed once is not trusted again.
    if (outbox_->device_lost() && open_.empty()) exit_code_ = kWorkerDeviceLost;
    if (!drain_by_) return;
    const std::lock_guard lock(background_->mutex);
    const bool late = steady_clock::now() > *drain_by_ + milliseconds(1000);
    if ((background_->drained && open_.empty()) || late) exit_code_ = kWorkerServed;
  }

  const int fd_;
  BackendLoader load_;
  const std::shared_ptr<Background> background_ = std::make_shared<Background>();
  const std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>();
  std::shared_ptr<Backend> backend_;  // shared with the thread that drains it
  std::map<TicketId, Open> open_;
  TicketId last_ticket_ = 0;
  FrameBuffer received_;
  std::deque<Outbox::Item> writing_;
  std::size_t written_ = 0;                // of writing_.front()
  std::optional<milliseconds> heartbeat_;  // set by the daemon's hello
  steady_clock::time_point next_heartbeat_;
  std::vector<KeptPrefixState> kept_told_;
  std::optional<steady_clock::time_point> drain_by_;
  bool load_failed_ = false;
  std::optional<int> exit_code_;
};

}  // namespace

int serve_backend(int fd, BackendLoader load) {
  return Server(fd, std::move(load)).run();
}

}  // namespace flyball::worker
