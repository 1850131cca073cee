// One HTTP/1.1 connection as a state machine over bytes: limits, deadlines, pipelining, streaming with back
// pressure. No sockets and no clock of its own: server.cpp drives it from a socket, tests and the fuzzer from
// memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/http/connection_table.hpp"
#include "daemon/http/date.hpp"
#include "daemon/http/framing.hpp"
#include "daemon/http/message.hpp"
#include "daemon/http/request_parser.hpp"

namespace flyball::http {

using TimePoint = std::chrono::steady_clock::time_point;
using Clock = std::function<TimePoint()>;

class Connection;

// What a handler wants to hear about an answer that takes time.
struct ExchangeObserver {
  virtual ~ExchangeObserver() = default;
  virtual void on_disconnect() = 0;  // the client is gone, or stalled too long: nobody will read the rest
  virtual void on_drained() = 0;     // after write() said "behind": there is room again
  virtual void on_quiet() = 0;       // nothing was sent for HttpLimits::heartbeat
  virtual void on_first_byte(TimePoint at) = 0;  // the first bytes of the answer went to the kernel
};

// One request and the way to answer it. Handlers hold it by shared_ptr; once the connection is gone,
// answering is a harmless no-op. Exactly one of: respond, whole or in pieces; or begin_stream, write...,
// end_stream or cut_stream.
class Exchange {
 public:
  Exchange(Connection* connection, Request request, Peer peer, TimePoint readable, std::shared_ptr<void> entry)
      : connection_(connection),
        request_(std::move(request)),
        peer_(std::move(peer)),
        readable_(readable),
        entry_(std::move(entry)) {}

  Request& request() noexcept { return request_; }
  const Peer& peer() const noexcept { return peer_; }
  TimePoint readable() const noexcept { return readable_; }  // when the first bytes of the request were read
  const std::string& id() const noexcept { return request_.id; }
  bool connected() const noexcept { return connection_ != nullptr; }
  // The ticket that Handler::check_head gave for the request; nullptr the next time.
  std::shared_ptr<void> take_entry() noexcept { return std::move(entry_); }

  void respond(Response response);
  // `body` in place of the response's own: with its length where it is a single piece, else in chunks
  // (HTTP/1.0: to the end of the connection) that are made as the client reads. It lives until its last piece
  // is made, or until nobody can read it.
  void respond(Response response, std::unique_ptr<BodySource> body);
  void begin_stream(Response head);  // its body is not used
  bool write(
      std::string_view bytes);  // false: more than stream_buffer_bytes are unread; pause until on_drained
  void end_stream();
  void cut_stream();  // closes without the last chunk, so that the client sees the truncation
  void observe(std::weak_ptr<ExchangeObserver> observer) { observer_ = std::move(observer); }
  // Held until the last byte of the answer went to the kernel, or never will. No request behind this one is
  // read before.
  void keep_until_sent(std::shared_ptr<const void> kept) {
    if (connected()) kept_ = std::move(kept);
  }

 private:
  friend class Connection;
  Connection* connection_;
  Request request_;
  Peer peer_;
  TimePoint readable_;
  std::shared_ptr<void> entry_;
  std::weak_ptr<ExchangeObserver> observer_;
  std::shared_ptr<const void> kept_;
};

// A request that its handler has let in by its head.
struct Entry {
  std::shared_ptr<void> ticket;  // the handler's own, may be null; until handle() takes it or the request ends
  // The id of the app that asks (by its key, its unix uid, or as default_app); "" for a stranger.
  std::string client;
  std::string room = {};  // empty: memory to put the body in
};

// What is behind the connection: the router (daemon/api/service), or a test.
struct Handler {
  virtual ~Handler() = default;
  virtual std::string next_request_id() = 0;
  // Fields of every answer to a request with this Origin field; "": it has none.
  virtual std::vector<Field> fields_for_origin(std::string_view origin) const = 0;
  // Judges a head before its body is read (host, route, key, media type, limits). A response is the answer:
  // the body is not read and, where it is still to come, the connection ends.
  virtual std::expected<Entry, Response> check_head(const Request& head, const Peer& peer) = 0;
  // The answer to a request that broke HTTP itself; `head` is null where there is none.
  virtual Response refuse(const Error& error, const Request* head, const Peer& peer) = 0;
  virtual void handle(std::shared_ptr<Exchange> exchange) = 0;
  virtual bool closing() const = 0;  // draining: answers say Connection: close
};

class Connection {
 public:
  // `wake` is called when there is output to send or a deadline may have moved; never from inside receive(),
  // receive_eof(), sent() or tick(), whose caller looks by itself.
  Connection(const config::HttpLimits& limits, Handler& handler, Peer peer, Clock clock, Date date,
             std::function<void()> wake);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void receive(std::string_view bytes);
  void receive_eof();        // the client has closed its side: it is gone
  void lost();               // read or write failed
  void sent(std::size_t n);  // so many bytes of output() went to the kernel
  void tick();               // looks at the clock
  // Gives `answer`, a whole response, to a client whose request is not wanted, and ends. Only while not
  // working.
  void turn_away(std::string_view answer);
  std::string_view output() const noexcept { return std::string_view(out_).substr(out_begin_); }
  std::size_t buffered_capacity() const noexcept { return out_.capacity(); }  // bytes of memory for output
  bool wants_input() const noexcept;
  bool wants_shutdown() const noexcept { return state_ == State::lingering; }  // all is sent: close our side
  bool closed() const noexcept { return state_ == State::closed; }
  // Something is going on that a shutdown should wait for: a request, an answer that has not left, or a
  // client that has connected just now and is about to send its first request.
  bool busy() const {
    if (state_ != State::idle) return state_ != State::closed;
    return !output().empty() || (fresh_ && clock_() < since_ + kFirstRequest);
  }
  // Working from the first byte of a known app's request on; a stranger's, from its whole arrival on.
  Activity activity() const noexcept;
  bool known() const noexcept { return !client_.empty(); }  // an app has been known on it
  // Bytes still to come of the body being received; 0: no body is, or its length is not known.
  std::uint64_t body_left() const noexcept {
    return state_ == State::body && parser_ ? parser_->body_left() : 0;
  }
  std::uint64_t requests() const noexcept { return requests_; }  // whose whole head has come
  // The owner of the connection's turns: the app last known on it, or all newcomers, or all strangers.
  std::string_view owner() const noexcept;
  TimePoint deadline() const noexcept;  // tick() no later than this; max() for never

  static constexpr std::size_t kMaxPipelined = 16 * 1024;  // bytes read ahead while an answer is pending
  static constexpr std::size_t kKeptOutput = 16 * 1024;    // of an idle connection's output buffer
  // Input discarded after the last answer, or http.body_bytes if that is more: a client that sends a body of
  // the allowed length to the end then reads its refusal, not a reset.
  static constexpr std::size_t kLingerBytes = 1 << 20;
  static constexpr std::chrono::milliseconds kLinger{2'000};
  static constexpr std::chrono::milliseconds kFirstRequest{500};  // a drain's patience with a new client

 private:
  friend class Exchange;
  enum class State : std::uint8_t { idle, head, body, answering, streaming, flushing, lingering, closed };

  void process();
  void skip_empty_lines();  // before a request
  void on_head(const Head& head);
  // Bytes that the body's parser took. nullopt: the request was refused for them.
  std::optional<std::size_t> feed(std::string_view bytes);
  void on_body_bytes();
  void refuse(const Error& error, const Request* head);
  void respond(const Response& response, const Request* request, bool close);
  void respond(Response response, std::unique_ptr<BodySource> body, const Request& request, bool close);
  void append_chunk(std::string_view bytes);  // framed where the answer is chunked
  void refill();                              // makes the next piece of body_ if the output has room
  bool leaves() const noexcept {
    return body_ != nullptr || kept_ != nullptr;
  }  // an answer that must be gone first
  void write_head(const Response& response, std::string_view id, bool close, bool streaming,
                  std::size_t length);
  void answered(bool close);
  void await_first_byte();
  void disconnect();
  void append(std::string_view bytes);
  void notify();
  bool behind() const noexcept { return output().size() > limits_.stream_buffer_bytes; }

  const config::HttpLimits limits_;
  Handler& handler_;
  const Peer peer_;
  const Clock clock_;
  const Date date_;
  const std::function<void()> wake_;

  State state_ = State::idle;
  bool fresh_ = true;         // nothing has come yet
  std::uint64_t requests_ = 0;
  bool inside_ = false;       // in one of the calls that look for themselves
  bool close_after_ = false;  // the answer being given is the last
  bool head_only_ = false;    // HEAD: no body goes out
  bool chunked_ = false;      // the stream, or the body in pieces, is chunked (HTTP/1.1)
  bool http_1_0_ = false;
  bool asked_to_close_ = false;
  std::vector<Field> origin_fields_;  // Handler::fields_for_origin for the present request
  bool paused_writer_ = false;  // write() said "behind"
  std::string client_;  // as Entry has it, of the latest request that was not a stranger's
  std::string in_;
  HeadScanner scanner_;
  std::optional<RequestParser> parser_;
  std::shared_ptr<void> entry_;  // of the request whose body is being received
  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ExchangeObserver>
      first_byte_observer_;  // outlives the exchange until its answer begins to leave
  std::string out_;
  std::size_t out_begin_ = 0;
  std::unique_ptr<BodySource> body_;  // of the last answer, whose rest follows the output
  std::shared_ptr<const void> kept_;  // of the last answer, until it has left
  std::size_t discarded_ = 0;
  std::size_t skipped_ = 0;  // bytes of empty lines since the last request
  // When the present state began (idle, head, body, lingering); in the first head: when the connection did.
  TimePoint since_;
  TimePoint readable_;    // when the first byte of the present request came
  TimePoint progress_;    // when output last moved, or began to wait
  TimePoint last_write_;  // when the handler last had something to say
};

}  // namespace flyball::http
