// Whose turn it is at one engine: fair among apps by what they have had computed. A virtual token counter per
// app (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): a prompt token counts 1, a
// generated one 2, divided by the app's weight; the app with the lowest counter among those that wait goes
// next, its requests in order of arrival. An app that was away does not save up: when it comes back its
// counter is lifted to the lowest of those that wait, or, where nobody waits, to that of who waited last.
// backends/fairness.hpp has the rules, which the engine's scheduler and the predictor share. Pure: no clock,
// no engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/fairness.hpp"
#include "daemon/route/turn_order.hpp"

namespace flyball::route {

class FairQueue {
 public:
  // An app's waiting requests go by ascending id. A request that waited in another line keeps its id, and so
  // goes before the later requests of its app.
  using Id = std::uint64_t;
  static constexpr double kPromptToken = 1, kGeneratedToken = 2;
  // Requests that a forecast follows one by one. Beyond them it takes every request in line to go first.
  static constexpr std::size_t kFollowed = 64;

  // Sequences that the engine computes at once; at least one.
  void set_slots(std::uint32_t slots) noexcept;

  // prompt_tokens: as estimated, until settle(). weight > 0; the latest holds for all of the app's.
  // behind: its place; it waits in the app's line for those.
  void add(Id id, const std::string& app, double weight, double prompt_tokens, bool behind = false);
  // Begins at once, whatever runs: an answer that goes on where another engine left it.
  void begin(Id id, const std::string& app, double weight, double prompt_tokens, bool behind = false);
  // Who begins now: it has a slot until remove(). To be asked until it says nobody.
  std::optional<Id> next();
  // What a running one costs: tokens it has generated, and what its prompt came to (0: nothing was computed).
  void generated(Id id, std::uint64_t tokens);
  void settle(Id id, double prompt_tokens);
  // Waits or runs no longer. Unknown ids are fine.
  void remove(Id id);

  bool waits(Id id) const;
  std::size_t waiting() const noexcept { return waiting_; }
  std::uint32_t running() const noexcept { return static_cast<std::uint32_t>(running_.size()); }

  // A request that would come now, with so many answers. prompt_tokens: of each of them, as estimated. If
  // some of its answers wait or run here already, the forecast is theirs.
  struct Coming {
    std::string_view app;
    double weight = 1, prompt_tokens = 0;
    std::uint32_t answers = 1;
    bool behind = false;
    Id arrival = 0;  // of its first answer, where the request comes from another line; 0: later than all here
  };
  TurnForecast forecast(const Coming& coming) const;
  // The answers with ids from `first` to `last`, all of one app. Those that have their turn wait for nobody.
  // Precondition: both wait or have their turn.
  TurnForecast forecast(Id first, Id last) const { return forecast(first, last, kFollowed); }
  // Requests that begin before it, by that forecast, however many wait. Precondition: waits(id).
  std::size_t ahead_of(Id id) const { return forecast(id, id, SIZE_MAX).before; }

  double counter(const std::string& app) const;  // of its usual line; 0 for one never seen
  // The most that the counters of two apps have differed by while both had somebody waiting. The paper bounds
  // it by 2 * max(longest prompt, slots * kGeneratedToken * longest answer) / least weight, and here
  // kMostLead comes on top.
  double widest_gap() const noexcept { return widest_gap_; }

 private:
  struct Entry {
    std::size_t app = 0;
    double prompt_tokens = 0;
    bool runs = false;
  };
  using Waiting = std::map<Id, double>;  // prompt tokens
  struct App {
    double weight = 1;
    Waiting waiting;
  };
  struct Running {
    Id id = 0;
    std::size_t app = 0;
  };
  // An app's requests that still wait in a forecast.
  struct Rest {
    Waiting::const_iterator next, end;
    double weight = 1;
  };
  // The queue's state as a forecast goes on from it. It leaves out the apps that cannot change a turn: they
  // neither wait nor run, and came long ago. Reused, so that a forecast allocates nothing.
  struct Ahead {
    TurnOrder order;
    std::vector<Rest> rests;          // by app
    std::vector<std::size_t> places;  // in order.apps, by the queue's index; kLeftOut
    std::vector<std::size_t> begun;   // apps of those at the engine, in the order in which they end

    void begins(std::size_t app);
  };
  static constexpr std::size_t kLeftOut = SIZE_MAX;
  // The request that a forecast is for.
  struct Asked {
    std::size_t app = 0;     // of TurnOrder::apps
    Id first = 0, last = 0;  // its answers
    std::uint32_t answers = 0;
    std::uint32_t begun = 0;         // of its answers, those that have their turn
    const Coming* coming = nullptr;  // absent: its answers are here
  };

  std::size_t arrive(const std::string& app, double weight, bool behind);
  double lifted(const QueuedApp& app) const noexcept;
  void charge(std::size_t app, double tokens) noexcept;
  void start(Id id, std::size_t app, double prompt_tokens);
  TurnForecast here() const noexcept;
  void look_ahead() const;
  std::size_t take_along(std::size_t app) const;
  TurnForecast forecast(Id first, Id last, std::size_t followed) const;
  double take_first(const Asked& asked, std::size_t app, std::uint32_t own_begun) const;
  TurnForecast follow(const Asked& asked, TurnForecast out, std::size_t followed) const;

  std::uint32_t slots_ = 1;
  std::uint64_t begun_ = 0;
  std::size_t waiting_ = 0;
  double waiting_tokens_ = 0;
  std::optional<std::size_t> last_[2];  // the app that left a usual line last, and one `behind`
  double widest_gap_ = 0;
  // Apps are those of the configuration: they are few, and stay.
  using Index = std::map<std::string, std::size_t, std::less<>>;
  Index index_, behind_;           // of an app's usual line, and of that for requests `behind`
  std::vector<QueuedApp> queued_;  // by index
  std::vector<App> apps_;          // by index
  std::unordered_map<Id, Entry> entries_;
  std::vector<Running> running_;  // in the order in which they began
  mutable Ahead ahead_;
};

}  // namespace flyball::route
