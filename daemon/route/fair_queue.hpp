// Whose turn it is at one engine: fair among apps by what they have had computed. A virtual token counter per
// app (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024): a prompt token counts 1, a
// generated one 2, divided by the app's weight; the app with the lowest counter among those that wait goes
// next, its requests in order of arrival. An app that was away does not save up: when it comes back its
// counter is lifted to the lowest of those that wait, or, where nobody waits, to that of who waited last.
// backends/fairness.hpp is the contract that this queue and the engine's scheduler share. Pure: no clock, no
// engine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace flyball::route {

class FairQueue {
 public:
  using Id = std::uint64_t;  // must rise
  static constexpr double kPromptToken = 1, kGeneratedToken = 2;

  // The last free slot is kept for a newcomer, for so many requests begun after another app came: an app that
  // comes again to an engine that another one floods begins at once, and an app that is alone has every slot.
  // If no slot was kept, one request of a newcomer begins beside all of them if an app yields a place. A
  // newcomer may be ahead of the others by kAhead, and no more, or it would get more than its share.
  static constexpr std::uint64_t kRemembered = 100;
  static constexpr double kAhead = 4096;

  // Sequences that the engine computes at once; at least one.
  void set_slots(std::uint32_t slots) noexcept;

  // prompt_tokens: as estimated, until settle(). weight > 0; the latest holds for all of the app's.
  void add(Id id, const std::string& app, double weight, double prompt_tokens);
  // Begins at once, whatever runs: an answer that goes on where another engine left it.
  void begin(Id id, const std::string& app, double weight, double prompt_tokens);
  // Who begins now: it has a slot until remove(). To be asked until it says nobody.
  std::optional<Id> next();
  // What a running one costs: tokens it has generated, and what its prompt came to (0: nothing was computed).
  void generated(Id id, std::uint64_t tokens);
  void settle(Id id, double prompt_tokens);
  // Waits or runs no longer. Unknown ids are fine.
  void remove(Id id);

  bool waits(Id id) const;
  std::size_t waiting() const noexcept { return waiting_; }
  std::uint32_t running() const noexcept { return running_; }
  // Before it: those that go first if nobody else comes and nothing more is generated. Precondition:
  // waits(id).
  std::size_t ahead_of(Id id) const;
  double counter(const std::string& app) const;  // 0 for one never seen
  // The most that the counters of two apps have differed by while both had somebody waiting. The paper bounds
  // it by 2 * max(longest prompt, slots * kGeneratedToken * longest answer) / least weight, and here kAhead
  // comes on top.
  double widest_gap() const noexcept { return widest_gap_; }

 private:
  struct Entry {
    std::string app;
    double prompt_tokens = 0;
    bool runs = false;
  };
  struct App {
    double counter = 0, weight = 1;
    std::uint32_t running = 0;     // its presence
    std::uint64_t came = 0;        // how many had begun when it came last
    std::map<Id, double> waiting;  // prompt tokens
  };

  App& arrive(const std::string& app, double weight);
  void charge(App& app, double tokens) noexcept;
  void start(Id id, App& app, double prompt_tokens);

  bool others_come(const App& app) const noexcept;
  bool one_yields() const noexcept;

  std::uint32_t slots_ = 1, running_ = 0;
  std::uint64_t begun_ = 0;
  std::size_t waiting_ = 0;
  std::string last_;  // the app that left the queue last
  double widest_gap_ = 0;
  std::map<std::string, App> apps_;  // of the configuration: they are few, and stay
  std::unordered_map<Id, Entry> entries_;
};

}  // namespace flyball::route
