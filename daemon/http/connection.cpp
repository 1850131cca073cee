#include "daemon/http/connection.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "config/units.hpp"

namespace flyball::http {
namespace {

Error late(const std::string& part, std::chrono::milliseconds limit) {
  return {ErrorCode::request_timeout,
          "The request " + part + " did not arrive within " + config::format_duration(limit) + " (http." +
              part + "_timeout).",
          {},
          {}};
}

// Marks a call whose caller looks at output and deadline afterwards, so that wake() is not needed.
class Inside {
 public:
  explicit Inside(bool& flag) : flag_(flag), outer_(std::exchange(flag, true)) {}
  ~Inside() { flag_ = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  bool& flag_;
  const bool outer_;
};

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  // Values are ours, but some quote ids from configuration: no line ends get through.
  for (const char c : value) out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c);
  out.append("\r\n");
}

}  // namespace

// ---- Exchange ---------------------------------------------------------------------------------------------

void Exchange::respond(Response response) {
  if (!connection_ || connection_->state_ != Connection::State::answering) return;
  connection_->await_first_byte();
  connection_->respond(response, &request_, connection_->close_after_ || connection_->handler_.closing());
}

void Exchange::respond(Response response, std::unique_ptr<BodySource> body) {
  if (!connection_ || connection_->state_ != Connection::State::answering) return;
  connection_->await_first_byte();
  connection_->respond(std::move(response), std::move(body), request_,
                       connection_->close_after_ || connection_->handler_.closing());
}

void Exchange::begin_stream(Response head) {
  if (!connection_ || connection_->state_ != Connection::State::answering) return;
  Connection& c = *connection_;
  const bool close = c.close_after_ || c.http_1_0_ || c.handler_.closing();
  c.close_after_ = close;
  c.await_first_byte();
  c.chunked_ = !c.http_1_0_;
  c.write_head(head, request_.id, close, true, 0);
  c.state_ = Connection::State::streaming;
  c.notify();
}

bool Exchange::write(std::string_view bytes) {
  if (!connection_ || connection_->state_ != Connection::State::streaming || bytes.empty()) return true;
  Connection& c = *connection_;
  c.append_chunk(bytes);
  c.last_write_ = c.clock_();
  c.notify();
  // Stays set until on_drained: a later write (another choice's, a heartbeat) may find some room again, but
  // the one that was refused still waits for that call.
  if (c.behind()) c.paused_writer_ = true;
  return !c.paused_writer_;
}

void Exchange::end_stream() {
  if (!connection_ || connection_->state_ != Connection::State::streaming) return;
  Connection& c = *connection_;
  if (c.chunked_) c.append("0\r\n\r\n");
  c.answered(c.close_after_);
  c.notify();
}

void Exchange::cut_stream() {
  if (!connection_ || connection_->state_ != Connection::State::streaming) return;
  Connection& c = *connection_;
  c.answered(true);
  c.notify();
}

// ---- Connection -------------------------------------------------------------------------------------------

Connection::Connection(const config::HttpLimits& limits, Handler& handler, Peer peer, Clock clock, Date date,
                       std::function<void()> wake)
    : limits_(limits),
      handler_(handler),
      peer_(std::move(peer)),
      clock_(std::move(clock)),
      date_(std::move(date)),
      wake_(std::move(wake)),
      scanner_(HeadLimits{limits.header_bytes, limits.header_fields, !peer_.unix_uid}),
      since_(clock_()),
      readable_(since_),
      progress_(since_),
      last_write_(since_) {}

Connection::~Connection() {
  disconnect();
}

void Connection::notify() {
  if (!inside_ && wake_) wake_();
}

void Connection::append(std::string_view bytes) {
  if (out_begin_ == out_.size()) {
    out_.clear();
    out_begin_ = 0;
    progress_ = clock_();
  } else if (out_begin_ > 64 * 1024) {  // keep a slow reader's buffer from growing at its front
    out_.erase(0, out_begin_);
    out_begin_ = 0;
  }
  out_.append(bytes);
}

void Connection::append_chunk(std::string_view bytes) {
  if (!chunked_) return append(bytes);
  char size[18];
  const auto end = std::to_chars(size, size + 16, bytes.size(), 16).ptr;
  append({size, static_cast<std::size_t>(end - size)});
  append("\r\n");
  append(bytes);
  append("\r\n");
}

void Connection::refill() {
  if (!body_ || output().size() > limits_.stream_buffer_bytes / 2) return;
  std::string piece;
  if (!body_->next(piece)) body_.reset();
  if (!piece.empty()) append_chunk(piece);
  if (!body_ && chunked_) append("0\r\n\r\n");
}

bool Connection::wants_input() const noexcept {
  switch (state_) {
    case State::answering:
    case State::streaming:
      return in_.size() < kMaxPipelined;  // reading on is how a disconnect is seen
    case State::idle:
      return in_.empty() || (output().empty() && !leaves());  // one read waits behind an unread answer
    case State::flushing:
    case State::closed:
      return false;
    default:
      return true;
  }
}

void Connection::receive(std::string_view bytes) {
  const Inside inside(inside_);
  if (state_ == State::lingering) {
    discarded_ += bytes.size();
    if (discarded_ > std::max<std::uint64_t>(kLingerBytes, limits_.body_bytes)) state_ = State::closed;
    return;
  }
  if (state_ == State::closed || state_ == State::flushing) return;
  if (state_ == State::idle && (in_.empty() || in_ == "\r")) readable_ = clock_();
  // The body's parser takes the bytes from where they are, unless earlier ones wait.
  if (state_ == State::body && in_.empty()) {
    const auto used = feed(bytes);
    if (!used) return;
    bytes.remove_prefix(*used);
  }
  in_.append(bytes);
  process();
}

void Connection::receive_eof() {
  const Inside inside(inside_);
  switch (state_) {
    case State::flushing:
      return;  // what is decided is still sent
    case State::idle:
    case State::head:
    case State::body:
      if (!output().empty()) {  // answers to earlier requests of the pipeline
        state_ = State::flushing;
        return;
      }
      [[fallthrough]];
    default:
      lost();
  }
}

void Connection::lost() {
  const Inside inside(inside_);
  state_ = State::closed;
  std::string().swap(out_);
  out_begin_ = 0;
  entry_.reset();
  body_.reset();
  kept_.reset();
  first_byte_observer_.reset();
  disconnect();
}

void Connection::disconnect() {
  if (!exchange_) return;
  const auto exchange = std::exchange(exchange_, nullptr);
  exchange->connection_ = nullptr;
  if (const auto observer = exchange->observer_.lock()) observer->on_disconnect();
  exchange->kept_.reset();
}

void Connection::sent(std::size_t n) {
  const Inside inside(inside_);
  out_begin_ = std::min(out_begin_ + n, out_.size());
  if (n > 0) {
    progress_ = clock_();
    if (const auto observer = std::exchange(first_byte_observer_, nullptr))
      observer->on_first_byte(progress_);
  }
  refill();
  if (output().empty()) {
    kept_.reset();
    if (out_.capacity() > kKeptOutput && state_ != State::answering && state_ != State::streaming) {
      std::string().swap(out_);
      out_begin_ = 0;
    }
  }
  const auto observer = exchange_ ? exchange_->observer_.lock() : nullptr;
  if (state_ == State::streaming && paused_writer_ && output().size() <= limits_.stream_buffer_bytes / 2) {
    paused_writer_ = false;
    if (observer) observer->on_drained();
  }
  if (state_ == State::flushing && output().empty()) {
    state_ = State::lingering;
    since_ = clock_();
  }
  if (state_ != State::idle) return;
  if (n > 0) since_ = progress_;  // whoever still reads the last answer is not idle
  if (!in_.empty()) process();    // a pipelined request waited for this answer to leave
}

void Connection::turn_away(std::string_view answer) {
  const Inside inside(inside_);
  if (activity() == Activity::working) return;
  append(answer);
  parser_.reset();
  in_.clear();
  state_ = State::flushing;
}

std::string_view Connection::owner() const noexcept {
  if (known()) return client_;
  return requests_ > 0 ? "<strangers>" : "<newcomers>";  // neither is an app's id
}

Activity Connection::activity() const noexcept {
  switch (state_) {
    case State::answering:
    case State::streaming:
      return Activity::working;
    case State::flushing:
      // Strangers ask much and read nothing to keep their places: what they are told may be lost.
      return known() ? Activity::working : Activity::idle;
    case State::lingering:  // all has left, and what comes is discarded
    case State::closed:
      return Activity::idle;
    case State::idle:
    case State::head:
    case State::body:
      break;
  }
  if (known() && (state_ != State::idle || !output().empty())) return Activity::working;
  return requests_ > 0 ? Activity::idle : Activity::silent;
}

TimePoint Connection::deadline() const noexcept {
  TimePoint at = TimePoint::max();
  if (!output().empty()) at = progress_ + limits_.stalled_reader_timeout;
  switch (state_) {
    case State::idle:  // not before the last answer has left, however slowly it is read
      if (!output().empty()) return at;
      return since_ + (fresh_ ? limits_.header_timeout : limits_.idle_timeout);
    case State::head:
      return std::min(at, since_ + limits_.header_timeout);
    case State::body:
      return std::min(at, since_ + limits_.body_timeout);
    case State::answering:
    case State::streaming:
      return std::min(at, last_write_ + limits_.heartbeat);
    case State::lingering:
      return since_ + kLinger;
    case State::flushing:
    case State::closed:
      return at;
  }
  return at;
}

void Connection::tick() {
  const Inside inside(inside_);
  const TimePoint now = clock_();
  if (now < deadline()) return;
  if (!output().empty() && now >= progress_ + limits_.stalled_reader_timeout) {
    lost();
    return;
  }
  switch (state_) {
    case State::idle:
      lost();
      return;
    case State::head:
      refuse(late("header", limits_.header_timeout), nullptr);
      return;
    case State::body:
      refuse(late("body", limits_.body_timeout), &parser_->request());
      return;
    case State::answering:
    case State::streaming:
      last_write_ = now;
      if (exchange_)
        if (const auto observer = exchange_->observer_.lock()) observer->on_quiet();
      return;
    case State::lingering:
      state_ = State::closed;
      return;
    case State::flushing:
    case State::closed:
      return;
  }
}

void Connection::process() {
  while (state_ == State::idle || state_ == State::head || state_ == State::body) {
    if (state_ == State::body) {
      on_body_bytes();
      if (state_ == State::body) return;  // needs more
      continue;
    }
    if (state_ == State::idle) skip_empty_lines();
    if (in_.empty()) return;
    // One answer leaves before the next request is read. So a client that pipelines and does not read is
    // bounded, what its last answer holds of its app's limits is free again, and a connection is given one
    // request in a turn of the loop.
    if (!output().empty() || leaves()) return;
    if (state_ == State::idle) {
      if (in_ == "\r") return;  // of an empty line: its other half is not waited for as a request's
      state_ = State::head;
      if (!std::exchange(fresh_, false)) since_ = clock_();
      scanner_.restart();
      // What the last request was says nothing about this one, which may be too broken to say it itself.
      head_only_ = http_1_0_ = asked_to_close_ = false;
      origin_fields_.clear();
    }
    auto head = scanner_.scan(in_);
    if (!head) {
      refuse(head.error(), nullptr);
      return;
    }
    if (!*head) return;
    on_head(**head);
  }
}

// A client of nothing but empty lines is left without an answer.
void Connection::skip_empty_lines() {
  const std::size_t n = empty_lines(in_);
  in_.erase(0, n);
  skipped_ += n;
  if (skipped_ <= limits_.header_bytes) return;
  in_.clear();
  state_ = State::flushing;
}

void Connection::on_head(const Head& head) {
  skipped_ = 0;
  http_1_0_ = head.http_1_0;
  head_only_ = head.method == "HEAD";
  asked_to_close_ = !head.keep_alive;
  origin_fields_ = handler_.fields_for_origin(head.origin);
  auto parser = RequestParser::begin(head, std::string_view(in_).substr(0, head.size), limits_.body_bytes);
  if (!parser) {
    Request known;  // so that the refusal can be told in the words of the path's API
    known.method = head.method;
    known.target = head.origin_form();
    refuse(parser.error(), &known);
    return;
  }
  const bool expects = head.expect_continue && (head.chunked || head.content_length.value_or(0) > 0);
  const std::size_t size = head.size;
  parser_.emplace(std::move(*parser));
  in_.erase(0, size);  // `head` views into it: not used below
  ++requests_;
  auto entry = handler_.check_head(parser_->request(), peer_);
  if (!entry) {
    // The body, if any, is not wanted: it is discarded with the connection.
    respond(entry.error(), &parser_->request(),
            entry.error().last || !parser_->done() || asked_to_close_ || handler_.closing());
    parser_.reset();
    return;
  }
  if (!entry->client.empty()) client_ = std::move(entry->client);
  parser_->put_body_in(std::move(entry->room));
  entry_ = std::move(entry->ticket);
  if (expects && in_.empty()) append("HTTP/1.1 100 Continue\r\n\r\n");
  state_ = State::body;
  since_ = clock_();
}

std::optional<std::size_t> Connection::feed(std::string_view bytes) {
  if (parser_->done()) return 0;
  const auto used = parser_->feed(bytes);
  if (used) return *used;
  const Error error = used.error();
  refuse(error, &parser_->request());
  return std::nullopt;
}

void Connection::on_body_bytes() {
  const auto used = feed(in_);
  if (!used) return;
  in_.erase(0, *used);
  if (!parser_->done()) return;
  Request request = parser_->take();
  parser_.reset();
  request.id = handler_.next_request_id();
  state_ = State::answering;
  last_write_ = clock_();
  close_after_ = asked_to_close_;
  exchange_ = std::make_shared<Exchange>(this, std::move(request), peer_, readable_, std::move(entry_));
  const auto exchange = exchange_;  // the handler may answer at once, which lets go of exchange_
  handler_.handle(exchange);
}

void Connection::refuse(const Error& error, const Request* head) {
  respond(handler_.refuse(error, head, peer_), head, true);
  parser_.reset();
  entry_.reset();
}

void Connection::respond(const Response& response, const Request* request, bool close) {
  const std::string id = request && !request->id.empty() ? request->id : std::string();
  write_head(response, id, close, false, response.body.size());
  if (!head_only_) append(response.body);
  answered(close);
  notify();
}

void Connection::respond(Response response, std::unique_ptr<BodySource> body, const Request& request,
                         bool close) {
  if (!body->next(response.body)) return respond(response, &request, close);
  close = close || http_1_0_;
  chunked_ = !http_1_0_;
  write_head(response, request.id, close, true, 0);
  if (!head_only_) {
    append_chunk(response.body);
    body_ = std::move(body);
  }
  answered(close);
  notify();
}

void Connection::write_head(const Response& response, std::string_view id, bool close, bool streaming,
                            std::size_t length) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head.reserve(512);
  head.append(reason_phrase(response.status)).append("\r\n");
  append_field(head, "Date", date_());
  if (!response.content_type.empty()) append_field(head, "Content-Type", response.content_type);
  if (streaming) {
    if (chunked_) append_field(head, "Transfer-Encoding", "chunked");
  } else if (response.status != 204) {  // a 204 must not have the field (RFC 9110, section 8.6)
    append_field(head, "Content-Length", std::to_string(length));
  }
  if (!id.empty()) append_field(head, "x-request-id", id);
  for (const Field& field : response.fields) append_field(head, field.name, field.value);
  for (const Field& field : origin_fields_) append_field(head, field.name, field.value);
  if (close)
    append_field(head, "Connection", "close");
  else if (http_1_0_)
    append_field(head, "Connection", "keep-alive");
  head.append("\r\n");
  append(head);
}

void Connection::await_first_byte() {
  first_byte_observer_ = exchange_ ? exchange_->observer_.lock() : nullptr;
}

// The present answer is complete in out_: on to the next request, or to the end.
void Connection::answered(bool close) {
  if (exchange_) {
    exchange_->connection_ = nullptr;
    kept_ = std::move(exchange_->kept_);
    exchange_.reset();
  }
  paused_writer_ = false;
  if (close) {
    in_.clear();  // the tail is never parsed
    state_ = State::flushing;
    return;
  }
  state_ = State::idle;
  since_ = clock_();
  readable_ = since_;
  if (!inside_) {
    const Inside inside(inside_);
    process();
  }
}

}  // namespace flyball::http
