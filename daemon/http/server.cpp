#include "daemon/http/server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <list>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "backends/round_robin.hpp"
#include "daemon/http/listener.hpp"

namespace flyball::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

constexpr std::chrono::milliseconds kAcceptPause{
    100};  // after EMFILE and its like: let descriptors come free
constexpr std::size_t kReadBytes = 16 * 1024;
// One read of a body whose length is known costs as much as the copy of so many bytes.
constexpr std::size_t kReadOfBody = 64 * 1024;
// Thousands of strangers may each leave what one read has brought: a few requests' heads.
constexpr std::size_t kReadOfStranger = 4 * 1024;
// Bytes that one connection may send in a turn: a body in pieces is made as it is sent.
constexpr std::size_t kTurnBytes = 64 * 1024;
constexpr std::string_view kFullBody =
    R"({"error":{"message":"Too many connections are open; try again.","type":"server_error","param":null,"code":"overloaded"}})"
    "\n";

std::string full_answer(std::string_view date) {
  return "HTTP/1.1 503 Service Unavailable\r\nDate: " + std::string(date) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(kFullBody.size()) +
         "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" + std::string(kFullBody);
}

struct ListeningPort {
  ListeningPort(asio::io_context& io, ListeningSocket& from)
      : acceptor(io), pause(io), url(from.url), file(std::move(from.file)), family(from.family) {}
  Acceptor acceptor;
  asio::steady_timer pause;
  std::string url;
  SocketFile file;
  int family;
};

}  // namespace

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
  class Session;

  Impl(asio::io_context& context, const config::HttpLimits& http_limits, Handler& h)
      : io(context), limits(http_limits), handler(h), table(ConnectionBounds::of(http_limits)) {}

  static asio::awaitable<void> accept_loop(std::shared_ptr<Impl> self, std::shared_ptr<ListeningPort> port);
  void adopt(Socket socket, int family);
  // Sessions work in turns, one in each visit of the loop, and owners (apps, newcomers, strangers) take
  // turns: the connections of one owner, however many ask much at once, never stand before another owner's.
  void ask_turn(std::shared_ptr<Session> session, std::string_view owner);
  void give_turn();
  // Tells the client of a session that is in neither container that the server is full.
  void turn_away(const std::shared_ptr<Session>& session);

  asio::io_context& io;
  config::HttpLimits limits;
  Handler& handler;
  DateClock date;
  std::vector<std::shared_ptr<ListeningPort>> ports;
  ConnectionTable table;  // of `sessions`
  std::unordered_map<ConnectionTable::Id, std::shared_ptr<Session>> sessions;
  std::list<std::shared_ptr<Session>> leaving;  // refused, oldest first; at most leaving_connections()
  ConnectionTable::Id last_id = 0;
  RoundRobin<std::shared_ptr<Session>> turns;
  bool giving_turns = false;
  std::array<char, kReadOfBody> read_buffer;  // shared: bytes are handed on before anybody else reads
  bool accepting = true, closed = false;
};

// Moves bytes between one socket and its Connection. Alive while it is in Impl::sessions or Impl::leaving, or
// an operation holds it.
class Server::Impl::Session : public std::enable_shared_from_this<Server::Impl::Session> {
 public:
  Session(const std::shared_ptr<Impl>& server, ConnectionTable::Id id, Socket socket, Peer peer)
      : server_(server),
        id_(id),
        socket_(std::move(socket)),
        timer_(server->io),
        connection_(
            server->limits, server->handler, std::move(peer), [] { return std::chrono::steady_clock::now(); },
            [&date = server->date] { return date.now(); },
            [this] {
              if (!waiting_to_write_) ask_turn();
            }) {}

  void start() {
    watch();
    arm();
  }

  // One read, with what comes of it, and one answer's write: the next pipelined request waits for the next
  // turn.
  void turn() {
    asked_turn_ = false;
    if (socket_.is_open() && std::exchange(readable_, false)) read();
    if (socket_.is_open()) flush();
  }

  void turn_away(std::list<std::shared_ptr<Session>>::iterator place) {
    place_ = place;
    connection_.turn_away(full_answer(server_->date.now()));
    flush();
  }

  bool busy() const { return connection_.busy(); }

  void close() {
    if (!socket_.is_open()) return;
    connection_.lost();
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    if (place_) {  // what runs still holds us
      server_->leaving.erase(*place_);
    } else {
      server_->table.remove(id_);
      server_->sessions.erase(id_);
    }
  }

 private:
  // Waits for input where the connection wants any. An idle connection owns no buffer.
  void watch() {
    if (watching_ || readable_ || at_eof_ || !connection_.wants_input()) return;
    watching_ = true;
    socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code ec) {
      self->watching_ = false;
      if (!self->socket_.is_open()) return;
      if (ec) return self->close();
      self->readable_ = true;
      self->ask_turn();
    });
  }

  void read() {
    auto& buffer = server_->read_buffer;
    error_code ec;
    const std::size_t most = connection_.known()
                                 ? std::clamp<std::uint64_t>(connection_.body_left(), kReadBytes, kReadOfBody)
                                 : kReadOfStranger;
    const std::size_t n = socket_.read_some(asio::buffer(buffer, most), ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) return;
    if (ec == asio::error::eof) {
      at_eof_ = true;  // nothing more is to be learned from this side; output may still have to leave
      connection_.receive_eof();
    } else if (ec) {
      close();
    } else {
      connection_.receive({buffer.data(), n});
    }
  }

  // After anything that may have changed the connection's state.
  void settle() {
    if (!socket_.is_open()) return;
    if (connection_.closed() || (at_eof_ && connection_.wants_shutdown())) {
      close();
      return;
    }
    if (connection_.wants_shutdown() && !shut_down_) {
      shut_down_ = true;
      error_code ignored;
      socket_.shutdown(Socket::shutdown_send, ignored);
    }
    watch();
    report();
    arm();
  }

  // The table hears of changes alone: also of a request that came and was answered in one turn.
  void report() {
    const Activity activity = connection_.activity();
    const bool known = connection_.known();
    const std::uint64_t requests = connection_.requests();
    if (place_ || (activity == activity_ && known == known_ && requests == requests_)) return;
    activity_ = activity;
    known_ = known;
    requests_ = requests;
    server_->table.update(id_, activity, known, std::chrono::steady_clock::now());
  }

  void ask_turn() {
    if (!std::exchange(asked_turn_, true)) server_->ask_turn(shared_from_this(), connection_.owner());
  }

  void flush() {
    std::size_t sent = 0;
    while (socket_.is_open() && !waiting_to_write_ && !connection_.output().empty()) {
      if (sent >= kTurnBytes) {
        ask_turn();
        break;
      }
      const std::string_view out = connection_.output();
      error_code ec;
      const std::size_t n = socket_.write_some(asio::buffer(out.data(), out.size()), ec);
      if (ec == asio::error::would_block || ec == asio::error::try_again) {
        waiting_to_write_ = true;
        socket_.async_wait(Socket::wait_write, [self = shared_from_this()](error_code waited) {
          self->waiting_to_write_ = false;
          if (!self->socket_.is_open()) return;
          if (waited)
            self->close();
          else
            self->ask_turn();
        });
        break;
      }
      if (ec) {
        close();
        return;
      }
      const bool whole = n == out.size();
      connection_.sent(n);
      sent += n;
      if (whole && !connection_.output().empty()) {  // the next answer, or the next piece of this one
        ask_turn();
        break;
      }
    }
    if (!socket_.is_open()) return;
    if (connection_.output().empty()) {
      connection_.sent(0);  // an answer cut short may have left nothing to send
      if (!connection_.output().empty()) ask_turn();
    }
    settle();
  }

  void arm() {
    const auto at = connection_.deadline();
    if (at >= armed_for_) return;  // the timer looks again when it fires
    armed_for_ = at;
    timer_.expires_at(at);
    timer_.async_wait([self = shared_from_this()](error_code ec) {
      if (ec || !self->socket_.is_open()) return;
      self->armed_for_ = TimePoint::max();
      self->connection_.tick();
      if (!self->connection_.output().empty()) self->ask_turn();
      self->settle();
    });
  }

  std::shared_ptr<Impl> server_;
  const ConnectionTable::Id id_;
  Socket socket_;
  asio::steady_timer timer_;
  Connection connection_;
  Activity activity_ = Activity::silent;  // as the table knows it, as the next
  bool known_ = false;
  std::uint64_t requests_ = 0;
  std::optional<std::list<std::shared_ptr<Session>>::iterator> place_;  // in Impl::leaving
  TimePoint armed_for_ = TimePoint::max();
  bool asked_turn_ = false;
  bool watching_ = false, readable_ = false;  // input: waited for; there, and not read yet
  bool waiting_to_write_ = false, shut_down_ = false, at_eof_ = false;
};

asio::awaitable<void> Server::Impl::accept_loop(std::shared_ptr<Impl> self,
                                                std::shared_ptr<ListeningPort> port) {
  while (self->accepting && port->acceptor.is_open()) {
    error_code ec;
    Socket socket = co_await port->acceptor.async_accept(asio::redirect_error(asio::use_awaitable, ec));
    if (self->closed) co_return;
    if (!ec) {  // also where accepting has ended meanwhile: its client was let in
      self->adopt(std::move(socket), port->family);
      continue;
    }
    if (ec == asio::error::connection_aborted) continue;
    if (ec == asio::error::operation_aborted) co_return;
    port->pause.expires_after(kAcceptPause);  // out of descriptors or memory: the loop goes on, later
    co_await port->pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  }
}

void Server::Impl::adopt(Socket socket, int family) {
  error_code ec;
  socket.non_blocking(true, ec);
  if (ec) return;
  Peer peer = peer_of(socket.native_handle(), family);
  const ConnectionTable::Id id = ++last_id;
  const auto verdict = table.admit(id, peer.source, std::chrono::steady_clock::now());
  const auto session = std::make_shared<Session>(shared_from_this(), id, std::move(socket), std::move(peer));
  if (verdict.accepted) sessions.emplace(id, session);
  session->start();
  if (!verdict.accepted) return turn_away(session);
  if (!verdict.victim) return;
  const auto victim = sessions.at(*verdict.victim);
  if (!verdict.victim_was_silent) return victim->close();
  sessions.erase(*verdict.victim);
  turn_away(victim);  // its first request may be on the way: it is told why
}

void Server::Impl::ask_turn(std::shared_ptr<Session> session, std::string_view owner) {
  turns.put(owner, std::move(session));
  if (!std::exchange(giving_turns, true)) asio::post(io, [self = shared_from_this()] { self->give_turn(); });
}

void Server::Impl::give_turn() {
  if (const auto session = turns.take()) (*session)->turn();
  giving_turns = !turns.empty();
  if (giving_turns) asio::post(io, [self = shared_from_this()] { self->give_turn(); });
}

void Server::Impl::turn_away(const std::shared_ptr<Session>& session) {
  leaving.push_back(session);
  session->turn_away(std::prev(leaving.end()));
  if (leaving.size() > leaving_connections(limits.connections)) {
    const auto oldest = leaving.front();
    oldest->close();
  }
}

Server::Server(asio::io_context& io, const config::HttpLimits& limits, Handler& handler)
    : impl_(std::make_shared<Impl>(io, limits, handler)) {}

Server::~Server() {
  stop_accepting();
  close_all();
}

Result<void> Server::listen(const std::vector<config::Listener>& listeners) {
  std::vector<ListeningSocket> opened;
  for (const auto& listener : listeners) {
    auto sockets = open_listener(listener);
    if (!sockets) return pass(sockets);
    std::ranges::move(*sockets, std::back_inserter(opened));
  }
  for (auto& s : opened) {
    auto port = std::make_shared<ListeningPort>(impl_->io, s);
    error_code ec;
    port->acceptor.assign(asio::generic::stream_protocol(s.family, 0), s.fd.get(), ec);
    if (ec) {
      impl_->ports.clear();
      return fail(ErrorCode::io_error, "Cannot watch the listening socket: " + ec.message() + ".", {}, s.url);
    }
    std::ignore = s.fd.release();  // the acceptor's
    impl_->ports.push_back(std::move(port));
  }
  for (const auto& port : impl_->ports)
    asio::co_spawn(impl_->io, Impl::accept_loop(impl_, port), asio::detached);
  return {};
}

std::vector<std::string> Server::urls() const {
  std::vector<std::string> out;
  for (const auto& port : impl_->ports) out.push_back(port->url);
  return out;
}

void Server::set_limits(const config::HttpLimits& limits) {
  impl_->limits = limits;
  impl_->table.set_bounds(ConnectionBounds::of(limits));
}

void Server::stop_accepting() {
  if (!std::exchange(impl_->accepting, false)) return;
  for (const auto& port : impl_->ports) {
    error_code ignored;
    port->acceptor.close(ignored);
    port->pause.cancel();
    port->file = {};
  }
}

void Server::close_all() {
  impl_->closed = true;
  while (!impl_->sessions.empty()) {
    const auto session = impl_->sessions.begin()->second;
    session->close();
  }
  while (impl_->turns.take()) {
  }  // they hold the sessions, which hold this
  while (!impl_->leaving.empty()) {
    const auto session = impl_->leaving.front();
    session->close();
  }
}

bool Server::busy() const {
  for (const auto& [id, session] : impl_->sessions)
    if (session->busy()) return true;
  return !impl_->leaving.empty();
}

Server::Connections Server::connections() const {
  return {impl_->table.counts(), impl_->leaving.size()};
}

}  // namespace flyball::http
