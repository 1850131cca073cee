#include "backends/worker/client.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include "backends/worker/codec.hpp"
#include "backends/worker/spawn.hpp"
#include "backends/worker/wire.hpp"

namespace flyball::worker {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kReadChunk = 64 * 1024;
// Starts that the worker has not read yet; beyond it requests are refused as overloaded.
constexpr std::size_t kMaxUnsentBytes = 2 * kMaxFrameBytes;
// Pieces of frames are sent together up to so many bytes, which is what one write takes; larger ones are not
// copied again.
constexpr std::size_t kJoinedBytes = 64 * 1024;
// Between a closed socket and the end of its process, and after a drain's deadline.
constexpr milliseconds kExitGrace{2'000};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context& io, WorkerOptions options, WorkerClient::Callbacks callbacks)
      : options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        socket_(io),
        process_(io),
        timer_(io) {}

  // First of all. On an error the process has ended.
  Result<void> take(Spawned process) {
    error_code error;
    socket_.assign(asio::local::stream_protocol(), process.socket.get(), error);
    if (!error) {
      std::ignore = process.socket.release();
      process_.assign(process.pid_fd.get(), error);
    }
    if (error) {
      end_worker(process.pid);
      return fail(ErrorCode::model_unavailable,
                  "cannot start an engine process: it cannot be watched: " + error.message());
    }
    std::ignore = process.pid_fd.release();
    pid_ = process.pid;
    return {};
  }

  void run() {
    const auto now = steady_clock::now();
    last_heard_ = last_progress_ = last_tick_ = now;
    kill_at_ = now + options_.ready_timeout;
    send(Hello{kProtocolVersion, static_cast<std::uint32_t>(options_.heartbeat.count())});
    read();
    process_.async_wait(asio::posix::descriptor_base::wait_read,
                        [self = shared_from_this()](error_code error) { self->on_exit(error); });
    tick();
  }

  // The owner is gone: nobody is called any more, the process is killed and reaped in the background.
  void abandon() {
    callbacks_ = {};
    open_.clear();
    if (state_ != State::dead) kill_worker(process_.native_handle());
    close_socket();
    timer_.cancel();
    abandoned_ = true;
  }

  Result<TicketId> start(CompletionRequest request, std::shared_ptr<EventSink> sink) {
    if (state_ == State::draining) return fail(ErrorCode::shutting_down, "The engine is shutting down.");
    if (state_ != State::ready) return fail(ErrorCode::model_unavailable, "The engine is not ready.");
    const std::size_t unread = unsent_bytes_ + sending_.bytes().size();
    if (unread > kMaxUnsentBytes) {
      return fail(ErrorCode::overloaded,
                  "The engine does not keep up with new requests: " + std::to_string(unread) +
                      " bytes wait, the limit is " + std::to_string(kMaxUnsentBytes) + ".");
    }
    const TicketId ticket = next_ticket_;
    EchoLeft echo;
    if (request.echo && request.resume_tokens.empty()) {
      echo.tokens = info_.context_length - std::min(request.resume_echo, info_.context_length);
      echo.scored = request.sampling.top_logprobs >= 0;
    }
    if (auto sent = send(Start{ticket, std::move(request)}); !sent) return pass(sent);
    ++next_ticket_;
    if (open_.empty()) last_progress_ = steady_clock::now();
    open_.emplace(ticket, Open{std::move(sink), false, echo});
    return ticket;
  }

  void grant(std::uint64_t kv_bytes) {
    if (state_ != State::starting) return;
    kill_at_ = steady_clock::now() + options_.ready_timeout;
    send(Grant{kv_bytes});
  }
  void cancel(TicketId ticket) {
    const auto it = open_.find(ticket);
    if (it == open_.end()) return;
    close(it);
    if (alive()) send(Cancel{ticket});
  }
  void resume(TicketId ticket) {
    const auto it = open_.find(ticket);
    if (it == open_.end() || !it->second.paused) return;
    it->second.paused = false;
    send(Resume{ticket});
  }
  void hold(bool held) {
    if (std::exchange(held_, held) == held) return;
    if (state_ == State::ready || state_ == State::draining) send(Hold{held});
  }
  void drop_kept_prefix(const std::string& owner, const std::string& name) {
    if (state_ == State::ready) send(DropPrefix{owner, name});
  }
  void drain(TimePoint deadline) {
    if (!alive() || state_ == State::draining) return;
    const auto left = std::max(milliseconds(0), duration_cast<milliseconds>(deadline - steady_clock::now()));
    state_ = State::draining;
    cause_ = Error{ErrorCode::shutting_down, "The engine is shutting down.", "", ""};
    kill_at_ = steady_clock::now() + left + kExitGrace;
    send(Drain{static_cast<std::uint64_t>(left.count())});
  }

  const BackendInfo& info() const { return info_; }
  BackendLoad load() const { return load_; }
  const std::vector<KeptPrefixState>& kept_prefixes() const { return kept_prefixes_; }
  int pid() const { return pid_; }
  bool accepting() const { return state_ == State::ready; }
  std::optional<TimePoint> idle_since() const {
    return accepting() && open_.empty() ? std::optional(idle_since_) : std::nullopt;
  }
  milliseconds without_progress() const {
    if (!waits_on_engine()) return milliseconds(0);
    return duration_cast<milliseconds>(steady_clock::now() - last_progress_);
  }

 private:
  enum class State : std::uint8_t { starting, ready, draining, closing, dead };
  // The part of a prompt that the worker may still echo.
  struct EchoLeft {
    std::uint32_t tokens = 0;  // at most; none behind a token of the answer
    bool scored = false;       // each with its log probability
    bool takes(const Delta& delta) noexcept {
      if (delta.echoed > tokens || (delta.echoed > 0 && delta.logprobs.size() != (scored ? delta.echoed : 0)))
        return false;
      tokens = delta.tokens.empty() ? tokens - delta.echoed : 0;
      return true;
    }
  };
  struct Open {
    std::shared_ptr<EventSink> sink;
    bool paused = false;  // we told the worker so
    EchoLeft echo = {};
  };

  bool alive() const { return state_ != State::closing && state_ != State::dead; }
  bool waits_on_engine() const {
    return state_ == State::ready && !held_ &&
           std::ranges::any_of(open_, [](const auto& o) { return !o.second.paused; });
  }

  // ---- out ------------------------------------------------------------------------------------------------
  Result<void> send(const ToWorker& message) {
    auto frame = encode_in_pieces(message);
    if (!frame) return pass(frame);
    for (FramePiece& piece : *frame) enqueue(std::move(piece));
    if (sending_.bytes().empty() && socket_.is_open()) write();
    return {};
  }
  void enqueue(FramePiece piece) {
    unsent_bytes_ += piece.bytes().size();
    const bool joins = !piece.shared && !unsent_.empty() && !unsent_.back().shared &&
                       unsent_.back().own.size() + piece.own.size() <= kJoinedBytes;
    if (joins)
      unsent_.back().own += piece.own;
    else
      unsent_.push_back(std::move(piece));
  }
  void write() {
    sending_ = std::move(unsent_.front());
    unsent_.pop_front();
    unsent_bytes_ -= sending_.bytes().size();
    asio::async_write(socket_, asio::buffer(sending_.bytes()),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        self->sending_ = {};
                        // A broken socket shows in read() too, which ends the connection.
                        if (!error && !self->unsent_.empty()) self->write();
                      });
  }

  // ---- in -------------------------------------------------------------------------------------------------
  void read() {
    socket_.async_read_some(
        asio::buffer(chunk_), [self = shared_from_this()](error_code error, std::size_t n) {
          if (self->abandoned_ || !self->socket_.is_open()) return;
          self->receive(n);
          if (error && self->alive()) {
            self->state_ = State::closing;  // it is ending by itself; if not, the timer ends it
            self->kill_at_ = steady_clock::now() + kExitGrace;
          }
          if (!error && self->socket_.is_open()) self->read();
        });
  }
  void receive(std::size_t n) {
    received_.append({chunk_.data(), n});
    while (socket_.is_open()) {
      auto payload = received_.next();
      if (payload && !*payload) return;
      auto message =
          payload ? decode_to_daemon(**payload) : Result<ToDaemon>(std::unexpected(payload.error()));
      if (!message) return give_up(message.error().message + " " + message.error().where);
      if (!greeted_ && !std::holds_alternative<Hello>(*message))
        return give_up("worker frame: no hello came first");
      last_heard_ = steady_clock::now();
      std::visit([this](auto& m) { handle(m); }, *message);
    }
  }
  void handle(Hello&) { greeted_ = true; }
  void handle(NeedMemory& message) {
    if (state_ == State::draining) return;
    if (state_ != State::starting || asked_)
      return give_up("worker frame: memory is asked for twice, or late");
    asked_ = true;
    kill_at_.reset();  // how long it waits is not up to it
    if (auto call = std::exchange(callbacks_.needs, nullptr))
      call(message.need);
    else
      grant(message.need.kv_bytes);
  }
  void handle(Ready& ready) {
    if (state_ == State::draining) return;
    if (state_ != State::starting) return give_up("worker frame: ready came twice");
    if (ready.info.vocab_size == 0 || ready.info.context_length == 0 || ready.info.max_sequences == 0) {
      return give_up("worker frame: ready names an empty vocabulary, context or sequence count");
    }
    info_ = std::move(ready.info);
    info_.model = options_.model_id;  // what it is called here is ours to say
    info_.backend = options_.backend;
    state_ = State::ready;
    idle_since_ = steady_clock::now();
    kill_at_.reset();
    if (held_) send(Hold{true});
    if (auto call = std::exchange(callbacks_.ready, nullptr)) call();
  }
  void handle(Failed& failed) {
    if (state_ != State::starting) return give_up("worker frame: failed after ready");
    cause_ = std::move(failed.error);
    state_ = State::closing;
    kill_at_ = steady_clock::now() + kExitGrace;
  }
  void handle(BackendLoad& load) {
    if (load.steps != load_.steps) last_progress_ = steady_clock::now();
    load_ = load;
  }
  void handle(KeptPrefixes& message) { kept_prefixes_ = std::move(message.states); }
  void handle(TicketEvent& message) {
    if (message.ticket >= next_ticket_)
      return give_up("worker frame: an event for a request that was never sent");
    const auto it = open_.find(message.ticket);
    if (it == open_.end()) return;  // cancelled while the event was on its way
    if (const auto* delta = std::get_if<Delta>(&message.event)) {
      const auto beyond = [this](Token t) {
        return t < 0 || static_cast<std::uint32_t>(t) >= info_.vocab_size;
      };
      if (std::ranges::any_of(delta->tokens, beyond) || std::ranges::any_of(delta->prompt, beyond))
        return give_up("worker frame: a token beyond the vocabulary");
      if (!it->second.echo.takes(*delta)) return give_up("worker frame: an echo that was not asked for");
    }
    last_progress_ = last_heard_;
    if (const auto* error = std::get_if<Error>(&message.event);
        error && error->code == ErrorCode::device_lost) {
      // It ends by itself; nothing more is sent to it, and whoever is still on it goes to another engine.
      cause_ = *error;
      state_ = State::closing;
      kill_at_ = steady_clock::now() + kExitGrace;
    }
    const std::shared_ptr<EventSink> sink = it->second.sink;
    if (!std::holds_alternative<Delta>(message.event)) {
      close(it);
      sink->push(std::move(message.event));
      return;
    }
    if (sink->push(std::move(message.event))) return;
    const auto still = open_.find(message.ticket);  // push may have cancelled it
    if (still == open_.end() || still->second.paused) return;
    still->second.paused = true;
    send(Pause{message.ticket});
  }

  void close(std::map<TicketId, Open>::iterator request) {
    open_.erase(request);
    idle_since_ = steady_clock::now();
    if (open_.empty() && callbacks_.idle) callbacks_.idle();
  }

  // ---- time -----------------------------------------------------------------------------------------------
  void tick() {
    timer_.expires_after(options_.heartbeat);
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (error || self->abandoned_ || self->state_ == State::dead) return;
      self->check_time();
      self->tick();
    });
  }
  void check_time() {
    const auto now = steady_clock::now();
    // After a stop of our own (SIGSTOP, a long callback) the heartbeats are still unread: not the worker's
    // fault.
    if (now - last_tick_ > options_.heartbeat_timeout / 2 + options_.heartbeat)
      last_heard_ = last_progress_ = now;
    last_tick_ = now;
    if (!waits_on_engine()) last_progress_ = now;
    if (kill_at_ && now >= *kill_at_) {
      if (state_ == State::starting) {
        const std::string why =
            "no model was ready within " + std::to_string(options_.ready_timeout.count()) + " ms";
        cause_ = Error{ErrorCode::model_unavailable, describe() + " was stopped: " + why + ".", "", ""};
        return give_up(why);
      }
      return kill_worker(process_.native_handle());
    }
    if (state_ != State::ready) return;
    if (now - last_heard_ > options_.heartbeat_timeout) {
      return give_up("no heartbeat for " + std::to_string(options_.heartbeat_timeout.count()) + " ms");
    }
    if (now - last_progress_ > options_.stall_timeout) {
      give_up("requests wait and the scheduler made no step for " +
              std::to_string(options_.stall_timeout.count()) + " ms");
    }
  }

  // ---- the end --------------------------------------------------------------------------------------------
  // Kills the process. Its requests hear of it now: a process in the kernel's hands may take long to end.
  void give_up(const std::string& why) {
    if (!alive()) return;
    if (!cause_) cause_ = Error{ErrorCode::worker_died, describe() + " was stopped: " + why + ".", "", ""};
    state_ = State::closing;
    kill_worker(process_.native_handle());
    close_socket();
    fail_open();
  }
  void on_exit(error_code error) {
    if (error) return;
    const std::string how = reap_worker(process_.native_handle());
    // What it wrote before it ended still counts: deltas of streams, or why the model did not load. Never
    // waiting: a process that the worker started may hold its end of the socket open.
    error_code read_error;
    if (socket_.is_open()) socket_.non_blocking(true, read_error);
    while (socket_.is_open() && !abandoned_ && !read_error) {
      const std::size_t n = socket_.read_some(asio::buffer(chunk_), read_error);
      if (n == 0) break;
      receive(n);
    }
    process_.close();
    timer_.cancel();
    close_socket();
    state_ = State::dead;
    if (abandoned_) return;
    if (!cause_) cause_ = Error{ErrorCode::worker_died, describe() + " " + how + ".", "", ""};
    fail_open();
    if (auto died = std::exchange(callbacks_, {}).died) died(*cause_);
  }
  std::string describe() const {
    return "The engine process of model " + options_.model_id + " on " + options_.backend;
  }
  void fail_open() {
    while (!open_.empty()) {  // a push may cancel others
      const auto node = open_.extract(open_.begin());
      node.mapped().sink->push(Event(*cause_));
    }
  }
  void close_socket() {
    error_code ignored;
    socket_.close(ignored);
  }

  const WorkerOptions options_;
  WorkerClient::Callbacks callbacks_;
  int pid_ = 0;
  asio::local::stream_protocol::socket socket_;
  asio::posix::stream_descriptor process_;
  asio::steady_timer timer_;
  State state_ = State::starting;
  bool greeted_ = false, asked_ = false;
  bool held_ = false;
  bool abandoned_ = false;
  std::optional<Error> cause_;
  std::optional<steady_clock::time_point> kill_at_;
  steady_clock::time_point last_heard_;  // any frame
  steady_clock::time_point last_tick_;
  steady_clock::time_point last_progress_;  // a step, an event, or nothing to do
  steady_clock::time_point idle_since_;     // the latest end of a request, or ready
  BackendInfo info_;
  BackendLoad load_;
  std::vector<KeptPrefixState> kept_prefixes_;
  std::map<TicketId, Open> open_;
  TicketId next_ticket_ = 1;
  std::array<char, kReadChunk> chunk_;
  FrameBuffer received_;
  std::deque<FramePiece> unsent_;  // of frames in order, small ones joined
  std::size_t unsent_bytes_ = 0;
  FramePiece sending_;  // in the kernel's hands
};

struct ClientTicket final : Ticket::Impl {
  ClientTicket(std::weak_ptr<Connection> c, TicketId t) : connection(std::move(c)), ticket(t) {}
  ~ClientTicket() override {
    if (const auto c = connection.lock()) c->cancel(ticket);
  }
  void resume() noexcept override {
    if (const auto c = connection.lock()) c->resume(ticket);
  }
  const std::weak_ptr<Connection> connection;
  const TicketId ticket;
};

class Client final : public WorkerClient {
 public:
  explicit Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Client() override { connection_->abandon(); }
  const BackendInfo& info() const override { return connection_->info(); }
  BackendLoad load() const noexcept override { return connection_->load(); }
  Result<Ticket> start(CompletionRequest request, std::shared_ptr<EventSink> sink) override {
    auto ticket = connection_->start(std::move(request), std::move(sink));
    if (!ticket) return pass(ticket);
    return Ticket(std::make_unique<ClientTicket>(connection_, *ticket));
  }
  std::vector<KeptPrefixState> kept_prefixes() const override { return connection_->kept_prefixes(); }
  void drop_kept_prefix(const std::string& owner, const std::string& name) override {
    connection_->drop_kept_prefix(owner, name);
  }
  void hold(bool held) override { connection_->hold(held); }
  void drain(TimePoint deadline) override { connection_->drain(deadline); }
  void grant(std::uint64_t kv_bytes) override { connection_->grant(kv_bytes); }
  int pid() const noexcept override { return connection_->pid(); }
  bool accepting() const noexcept override { return connection_->accepting(); }
  std::optional<TimePoint> idle_since() const noexcept override { return connection_->idle_since(); }
  milliseconds without_progress() const noexcept override { return connection_->without_progress(); }

 private:
  const std::shared_ptr<Connection> connection_;
};

}  // namespace

std::vector<std::string> engine_words(const WorkerOptions& options) {
  std::vector<std::string> words;
  const auto say = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  say("--model-id", options.model_id);
  if (!options.model_path.empty()) say("--model", options.model_path);
  if (!options.sha256.empty()) say("--sha256", options.sha256);
  say("--backend", options.backend);
  for (const std::string& id : options.device_ids) say("--device-id", id);
  say("--threads", std::to_string(options.threads));
  say("--context", std::to_string(options.context));
  say("--max-sequences", std::to_string(options.max_sequences));
  say("--expert-bytes", std::to_string(options.expert_bytes));
  say("--kv", options.kv_type);
  if (!options.cache_dir.empty()) say("--cache-dir", options.cache_dir);
  if (options.kv_spill_bytes > 0 && !options.kv_spill_dir.empty()) {
    say("--kv-spill-dir", options.kv_spill_dir);
    say("--kv-spill-bytes", std::to_string(options.kv_spill_bytes));
  }
  say("--memory", options.own_memory ? "own" : "machine");
  if (options.nice > 0) say("--nice", std::to_string(options.nice));
  if (options.lock_memory) words.emplace_back("--lock-memory");
  if (options.yields) words.emplace_back("--yields");
  say("--memory-capacity", std::to_string(options.memory_capacity));
  return words;
}

Result<std::unique_ptr<WorkerClient>> WorkerClient::spawn(asio::io_context& io, const WorkerOptions& options,
                                                          Callbacks callbacks) {
  std::vector<std::string> argv{"flyball", "engine", "--fd", std::to_string(kWorkerFd)};
  const std::vector<std::string> words = engine_words(options);
  argv.insert(argv.end(), words.begin(), words.end());
  auto process = spawn_worker(options.executable, argv);
  if (!process) return pass(process);
  auto connection = std::make_shared<Connection>(io, options, std::move(callbacks));
  if (auto taken = connection->take(std::move(*process)); !taken) return pass(taken);
  connection->run();
  return std::make_unique<Client>(std::move(connection));
}

}  // namespace flyball::worker
