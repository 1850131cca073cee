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
// What one connection may send before the others have their turn: a body in pieces is made as it is sent.
constexpr std::size_t kTurnBytes = 64 * 1024;
constexpr std::string_view kFullBody =
    R"({"error":{"message":"Too many connections are open; try again.","type":"server_error","param":null,"code":"overloaded"}})"
    "\n";

std::string full_answer() {
  return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(kFullBody.size()) + "\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
         std::string(kFullBody);
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
  // Tells the client of a session that is in neither container that the server is full.
  void turn_away(const std::shared_ptr<Session>& session);

  asio::io_context& io;
  config::HttpLimits limits;
  Handler& handler;
  std::vector<std::shared_ptr<ListeningPort>> ports;
  ConnectionTable table;  // of `sessions`
  std::unordered_map<ConnectionTable::Id, std::shared_ptr<Session>> sessions;
  std::list<std::shared_ptr<Session>> leaving;  // refused, oldest first; at most leaving_connections()
  ConnectionTable::Id last_id = 0;
  std::array<char, kReadBytes> read_buffer;  // shared: bytes are handed on before anybody else reads
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
        readable_(server->io),
        connection_(
            server->limits, server->handler, std::move(peer), [] { return std::chrono::steady_clock::now(); },
            [this] { schedule_flush(); }) {}

  void start() {
    asio::co_spawn(server_->io, read_loop(shared_from_this()), asio::detached);
    arm();
  }

  void turn_away(std::list<std::shared_ptr<Session>>::iterator place) {
    place_ = place;
    connection_.turn_away(full_answer());
    flush();
  }

  bool busy() const { return connection_.busy(); }

  void close() {
    if (!socket_.is_open()) return;
    connection_.lost();
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
    readable_.cancel();
    if (place_) {  // what runs still holds us
      server_->leaving.erase(*place_);
    } else {
      server_->table.remove(id_);
      server_->sessions.erase(id_);
    }
  }

 private:
  // Waits for input, then reads what is there: an idle connection owns no buffer.
  static asio::awaitable<void> read_loop(std::shared_ptr<Session> self) {
    Session& s = *self;
    error_code ec;
    while (s.socket_.is_open()) {
      if (!s.connection_.wants_input()) {
        s.paused_ = true;
        s.readable_.expires_at(asio::steady_timer::time_point::max());
        co_await s.readable_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
        s.paused_ = false;
        continue;
      }
      co_await s.socket_.async_wait(Socket::wait_read, asio::redirect_error(asio::use_awaitable, ec));
      if (!s.socket_.is_open()) co_return;
      if (ec) {
        s.close();
        co_return;
      }
      auto& buffer = s.server_->read_buffer;
      const std::size_t n = s.socket_.read_some(asio::buffer(buffer), ec);
      if (ec == asio::error::would_block || ec == asio::error::try_again) continue;
      if (ec == asio::error::eof) {
        s.connection_.receive_eof();
        s.after_step();
        // Without input there is nothing more to learn from this side; output may still have to leave.
        if (s.socket_.is_open()) s.at_eof_ = true;
        co_return;
      }
      if (ec) {
        s.close();
        co_return;
      }
      s.connection_.receive({buffer.data(), n});
      s.after_step();
    }
  }

  void after_step() {
    if (!connection_.output().empty()) schedule_flush();
    settle();
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
    if (paused_ && connection_.wants_input()) readable_.cancel();
    report();
    arm();
  }

  // The table hears of changes alone.
  void report() {
    const Activity activity = connection_.activity();
    const bool known = connection_.known();
    if (place_ || (activity == activity_ && known == known_)) return;
    activity_ = activity;
    known_ = known;
    server_->table.update(id_, activity, known, std::chrono::steady_clock::now());
  }

  void schedule_flush() {
    if (flush_scheduled_ || waiting_to_write_) {
      return;
    }
    flush_scheduled_ = true;  // one flush for all that this turn of the loop writes
    asio::post(server_->io, [self = shared_from_this()] {
      self->flush_scheduled_ = false;
      self->flush();
    });
  }

  void flush() {
    std::size_t sent = 0;
    while (socket_.is_open() && !connection_.output().empty()) {
      if (sent >= kTurnBytes) {
        schedule_flush();
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
            self->flush();
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
        schedule_flush();
        break;
      }
    }
    if (!socket_.is_open()) return;
    if (connection_.output().empty())
      connection_.sent(0);  // an answer cut short may have left nothing to send
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
      self->after_step();
    });
  }

  std::shared_ptr<Impl> server_;
  const ConnectionTable::Id id_;
  Socket socket_;
  asio::steady_timer timer_, readable_;
  Connection connection_;
  Activity activity_ = Activity::silent;  // as the table knows it, as the next
  bool known_ = false;
  std::optional<std::list<std::shared_ptr<Session>>::iterator> place_;  // in Impl::leaving
  TimePoint armed_for_ = TimePoint::max();
  bool paused_ = false, flush_scheduled_ = false, waiting_to_write_ = false, shut_down_ = false,
       at_eof_ = false;
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
