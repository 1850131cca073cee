// Admits connections, and chooses the one to close where a bound is met. Keeps the open connections by peer
// address and by whether an app is known on them. Pure: ids and the time are passed in; every operation takes
// constant time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "config/config.hpp"

namespace flyball::http {

// How a connection is used, which decides whether it may be closed for another one.
enum class Activity : std::uint8_t {
  silent,  // it has never sent a whole request head, at most a part of one
  idle,    // between two requests, or after the last; a stranger's stays idle until its next request is whole
  working,  // a request is read or answered, or an answer has not left
};

// The most connections that may be open. A stranger is a connection on which no app has been known yet.
struct ConnectionBounds {
  std::size_t all = 0;
  std::size_t per_address = 0;
  std::size_t strangers = 0;

  static ConnectionBounds of(const config::HttpLimits& limits);
};

class ConnectionTable {
 public:
  using Id = std::uint64_t;
  using TimePoint = std::chrono::steady_clock::time_point;

  // An app's connection that has been idle for less is not closed: its client may just be sending its next
  // request. A connection that has been silent for less is closed last: its first request may be on its way. A
  // second is long for a client that sends request after request, and short beside idle_timeout.
  static constexpr std::chrono::milliseconds kIdleFloor{1'000};

  struct Verdict {
    bool accepted = false;
    std::optional<Id> victim = {};  // closed to make room, and no longer in the table
    bool victim_was_silent = false;
  };
  struct Counts {
    std::size_t silent = 0, idle = 0, working = 0, strangers = 0;
    std::uint64_t refused = 0, closed_silent = 0, closed_idle = 0;  // since the table was made
  };

  explicit ConnectionTable(ConnectionBounds bounds) : bounds_(bounds) {}

  // For connections to come; those that are open stay.
  void set_bounds(ConnectionBounds bounds) { bounds_ = bounds; }

  // Judges a new connection, which is a silent stranger. Where it would break bounds, one connection that
  // counts against all of them is closed: the one silent longest, and for kIdleFloor at least; else the
  // stranger's that has been idle longest; else the app's that has been idle longest, and for kIdleFloor at
  // least; else the one silent longest. Where there is none, the new connection is refused. `now` never goes
  // back.
  Verdict admit(Id id, const std::string& address, TimePoint now);
  // The connection has just been used: from now on it is in this activity, also where it was so before.
  // `known`: an app has been known on it.
  void update(Id id, Activity activity, bool known, TimePoint now);
  void remove(Id id);  // nothing where it is not in the table
  Counts counts() const;

 private:
  enum Queue : std::uint8_t { silent, stranger_idle, stranger_working, app_idle, app_working, kQueues };
  // Each queue in the order in which its connections came into it.
  using Group = std::array<std::list<Id>, kQueues>;
  using Address = std::unordered_map<std::string, Group>::value_type;
  struct Entry {
    std::list<Id>::iterator in_all, in_address;
    Address* address = nullptr;
    TimePoint since;  // in this queue
    Queue queue = silent;
  };

  static Queue queue_of(Activity activity, bool known) noexcept;
  static std::size_t size(const Group& group) noexcept;
  static std::size_t strangers(const Group& group) noexcept;
  std::optional<Id> victim_in(const Group& scope, bool strangers_only, TimePoint now) const;

  ConnectionBounds bounds_;
  Group all_;
  std::unordered_map<std::string, Group> addresses_;  // those that have a connection
  std::unordered_map<Id, Entry> entries_;
  std::uint64_t refused_ = 0, closed_silent_ = 0, closed_idle_ = 0;
};

}  // namespace flyball::http
