// Who may have memory: accounts of the engines by pool of physical memory, and a line of those that wait for
// room. A state machine without clock or I/O: the fleet tells it what happens and asks it what to do next.
//   ask -> waits -> load (its account is what was predicted) -> ready (what the engine says it holds)
//   -> end -> gone (the account is free)
// Engines without work end for others, those longest idle first and no more than it takes; one at work is
// held (new requests wait) once it has had its turn, and ends when its streams have: two models that do not
// fit together take turns, and no stream is cut. A spare one (a measuring process, an engine loaded in the
// background) has what nobody else wants: it is refused what is not free, nobody ends for it, and it ends as
// soon as anybody asks. A spare engine is an ordinary one from its first request on.
// Every eviction is decided here and nowhere else; WorkerFleet::act() carries it out.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/memory_need.hpp"
#include "config/error.hpp"
#include "daemon/fleet/asker.hpp"

namespace flyball::fleet {

// Memory that engines draw from: the machine's, or that of devices with their own.
struct MemoryPool {
  std::string name;
  std::uint64_t capacity = 0;   // bytes, of all engines together
  bool of_the_machine = false;  // else a device's own: nobody else's caches live there
};

// "this machine's memory", "the memory of NVIDIA H200#1".
std::string memory_of(const MemoryPool& pool);

struct MemoryClaim {
  std::string model;
  std::size_t pool = 0;
  MemoryNeed need;
  std::string group = {};                              // of its models one may be loaded; "": none
  bool pinned = false;                                 // ends for nobody
  bool spare = false;                                  // no request needs it: it ends for anybody
  std::uint64_t most = UINT64_MAX;  // bytes of the pool that this engine could ever have
  std::vector<Asker> askers = {{}};  // what one of them may it may; never empty
  std::optional<std::chrono::milliseconds> keep = {};  // without work for so long: it ends
};

struct GovernorLimits {
  // An engine at work is held for others after so long, or as long as its load took, if that was longer.
  std::chrono::milliseconds turn{5'000};
  // Before that it ends for others when it has been without work for so long: who asks one thing after the
  // other is not done between two of them.
  std::chrono::milliseconds linger{200};
  std::chrono::milliseconds end_wait{10'000};   // for one whose time to end has come
  std::chrono::milliseconds max_wait{300'000};  // in line
  // Between ends for the machine's sake: what the system reports is the average of so long.
  std::chrono::milliseconds pressure_pause{10'000};
};

class Governor {
 public:
  using Id = std::uint64_t;  // of a process; never used again

  explicit Governor(std::vector<MemoryPool> pools, GovernorLimits limits = {})
      : pools_(std::move(pools)), limits_(limits) {}
  // Of a reload; accounts stay as they are. Precondition: as many pools, in the same order.
  void set(std::vector<MemoryPool> pools, GovernorLimits limits);

  void ask(Id id, MemoryClaim claim, TimePoint now);  // once; precondition: the pool exists
  // Another app waits for the load. An asker with a request ends what is spare about the engine, which may
  // be ready.
  void join(Id id, const Asker& asker);
  // bytes: what it holds in fact. Of one that did not ask, too.
  void ready(Id id, const MemoryClaim& claim, std::uint64_t bytes, TimePoint now);
  // What it has taken of the system by now. The rest of its account is not there for others, whatever the
  // system says is available. Of one whose touched bytes nobody tells: nothing of what loads, all else.
  void touched(Id id, std::uint64_t bytes);
  // Told to by others, once its answers have ended, or `by` then: a reload, a drain.
  void ending(Id id, TimePoint now, TimePoint by);
  // The operator wants it to end, pinned or not: once it is ready and its answers have ended. Until then it
  // gets no new requests.
  void unload(Id id) { unwanted_.insert(id); }
  bool is_unwanted(Id id) const { return unwanted_.contains(id); }
  void gone(Id id);  // its process has ended, however
  // What is kept from here on, of a ready one.
  void keep(Id id, bool pinned, std::optional<std::chrono::milliseconds> keep);

  struct Use {
    Id id = 0;
    std::optional<TimePoint> idle_since;  // absent: it is at work
  };
  struct World {
    TimePoint now{};
    std::span<const Use> uses;                 // of every ready engine
    std::span<const std::uint64_t> available;  // by pool: what the system would give now; kUnknown
    bool pressure = false;                     // the machine is short of memory
  };
  static constexpr std::uint64_t kUnknown = UINT64_MAX;

  struct Action {
    enum class Kind : std::uint8_t {
      load,     // with so many bytes of KV
      refuse,   // with the error; its account is closed
      end,      // tell it to; nothing is open on it
      hold,     // give it no new requests
      release,  // it takes requests again
    } kind;
    Id id = 0;
    std::uint64_t kv_bytes = 0;
    std::optional<Error> error = {};
    std::string why = {};   // of an end or a hold, for the log
    bool of_asker = false;  // a refusal that another asker would not meet
    bool for_good = false;  // a refusal that stands while the pool and what is pinned in it stay as they are
  };
  struct Step {
    std::vector<Action> actions;
    std::optional<TimePoint> look_again;  // although nothing happens until then
  };
  // What is to be done now. To be asked whenever something has happened, or look_again has come.
  Step decide(const World& world);
  // The eviction that lets a load be tried again that failed for want of memory although it was granted. It
  // ends a spare engine of the claim's pool, else the one that has been idle longest, and since `idle_since`
  // at the latest. Absent: no engine of the pool may end for it. The claim's account need not exist.
  std::optional<Action> make_room(const MemoryClaim& claim, TimePoint idle_since, std::span<const Use> uses,
                                  TimePoint now);

  bool held(Id id) const;
  bool waits(Id id) const;
  bool anybody_waits() const noexcept { return !line_.empty(); }
  bool empty() const noexcept { return accounts_.empty(); }
  struct PoolState {
    std::string name;
    std::uint64_t capacity = 0, accounted = 0;
    std::size_t engines = 0, waiting = 0;
  };
  // Of what the system would give now (kUnknown) that nobody was promised.
  std::uint64_t free(std::size_t pool, std::uint64_t available) const;
  // What an engine could be given without another engine's end: of what is lent, too, which comes back for it.
  std::uint64_t free_for_engines(std::size_t pool, std::uint64_t available) const;
  std::vector<PoolState> pools() const;
  std::uint64_t bytes(Id id) const;  // its account; 0: none
  std::uint64_t bytes_of(const std::string& app) const;  // of all that is loaded for it
  // What an engine could have if all others but the pinned ones ended.
  std::uint64_t most_for_one(std::size_t pool) const;
  struct Counters {
    std::uint64_t loads = 0, evictions = 0, idle_unloads = 0, pressure_unloads = 0, unloads = 0, waits = 0,
                  refusals = 0;
  };
  const Counters& counters() const noexcept { return counters_; }

 private:
  enum class State : std::uint8_t { asking, loading, ready, ending };
  struct Account {
    MemoryClaim claim;
    std::string app = {};  // it was loaded for
    State state = State::asking;
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> touched = {};  // of them
    TimePoint since{};                    // of the state
    TimePoint ends_by{};                  // of one that ends
    std::chrono::milliseconds took{0};    // its load
    std::optional<TimePoint> idle_since;  // as of this decision
    bool held = false;
    bool waited = false;  // counted
  };
  // Of one decision.
  struct Round;
  struct Victims {
    std::vector<Id> ids;
    std::uint64_t bytes = 0;
  };

  static std::uint64_t less(std::uint64_t from, std::uint64_t by) noexcept { return from < by ? 0 : from - by; }
  std::uint64_t accounted(std::size_t pool) const;
  std::uint64_t left(std::size_t pool, std::uint64_t available, bool spare_ones_end) const;
  bool turn_over(const Account& account, TimePoint now) const;
  bool may_end(const Account& account, TimePoint now) const;
  bool ends_before(const Account& left, const Account& right, TimePoint now) const;
  // Ends for nobody, and not on the operator's word either.
  bool stays(Id id, const Account& account) const { return account.claim.pinned && !is_unwanted(id); }
  void see(Round& round);
  std::optional<Id> idle_longest(std::size_t pool, TimePoint idle_since) const;
  std::optional<Id> idle_spare(std::size_t pool) const;
  void give_way(Round& round);
  void unload_unwanted(Round& round);
  void unload_idle(Round& round);
  void relieve(Round& round);
  void visit(Round& round, Id id);
  // Of what an app's engines may hold together.
  struct Share {
    const Asker* asker = nullptr;
    std::uint64_t left = 0, could_be_left = 0;  // now; if all but its pinned ones ended
  };
  Share share_of(const Asker& asker) const;
  Share best_share(const Account& account) const;
  void wait_for_share(Round& round, Id id, Account& account, const Share& share);
  void look_at_turns(Round& round) const;
  bool waited_enough(Round& round, Account& account);
  static void close(Round& round, std::size_t pool, const Victims& at_work);
  void end_all(Round& round, const Account& waiter, const std::vector<Id>& idle);
  void grant(Round& round, Id id, Account& account, std::uint64_t left, const Share& share);
  void refuse(Round& round, Id id, ErrorCode code, std::string why, bool of_asker = false);
  void end(Round& round, Id id, std::string why);
  // Of what was loaded for the app and is not pinned: who ends so that so many bytes stay within its limit.
  // Empty: those that end already suffice, or those that could would not.
  std::vector<Id> of_same_app(const Round& round, Id id, const Asker& asker, std::uint64_t bytes) const;
  std::optional<Victims> choose(const Round& round, const Account& waiter, std::uint64_t missing,
                                const std::vector<Id>& must, bool at_work) const;

  std::vector<MemoryPool> pools_;
  GovernorLimits limits_;
  std::map<Id, Account> accounts_;
  std::vector<Id> line_;  // those that ask, in order
  std::set<Id> unwanted_;  // engines that the operator unloads
  TimePoint next_relief_{};
  Counters counters_;
};

}  // namespace flyball::fleet
