// Turns at the engines: a FairQueue for each (model, engine), and who is told when a turn comes. An engine
// gets as many requests as it computes at once; the others wait here, where it can still be chosen who goes
// next. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/predict/predictor.hpp"
#include "daemon/route/fair_queue.hpp"

namespace flyball::route {

struct TurnRequest {
  std::string model, backend;
  std::uint32_t slots = 1;  // sequences that this engine computes at once
  std::string app;
  double weight = 1;
  double prompt_tokens = 0;  // estimated
  bool goes_on = false;      // it had its turn, at an engine that failed: it waits no second time
  FairQueue::Id arrival = 0;  // by Turns::arrive(); in every line the app's requests go by it
  bool behind = false;        // its place
};

struct PlaceInLine {
  std::size_t ahead = 0;  // requests that go first if nobody else comes
  // Time until the turn, at the pace at which places have been given up lately. -1: nobody has waited long
  // enough for a pace to be known.
  std::int64_t eta_ms = -1;
};

class Turns : public std::enable_shared_from_this<Turns> {
 public:
  using Clock = std::function<std::int64_t()>;  // milliseconds, never back
  explicit Turns(Clock clock) : clock_(std::move(clock)) {}

  // A place in line, then at the engine; given up with the object, and the next one's turn comes.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : turns_(std::move(other.turns_)), line_(other.line_), id_(std::exchange(other.id_, 0)) {}
    Place& operator=(Place&& other) noexcept;
    ~Place() { leave(); }
    explicit operator bool() const noexcept { return id_ != 0; }
    void generated(std::uint64_t tokens);
    void settle(double prompt_tokens);           // what the prompt really cost: 0 where nothing was computed
    std::optional<PlaceInLine> in_line() const;  // nullopt: it does not wait

   private:
    friend class Turns;
    void leave();
    template <class Charge>
    void charge(Charge charge);
    std::weak_ptr<Turns> turns_;
    const std::pair<std::string, std::string>* line_ = nullptr;
    FairQueue::Id id_ = 0;
  };

  // Numbers the answers of a request by their arrival: the first of as many successive numbers.
  FairQueue::Id arrive(std::uint32_t answers) { return std::exchange(next_, next_ + answers); }
  // `granted` is called once, when the turn has come: perhaps within this call, or another place's; never
  // after the place is gone. It must not destroy places. Precondition: the answer has no place in this line.
  Place ask(TurnRequest request, std::function<void()> granted);
  std::size_t waiting(const std::string& model, const std::string& backend) const;
  // The turn of the request, for each engine of the model that has a line; that of one `behind`, too, if
  // both_places. The turns are put into `out`, whose names live as long as this.
  void forecast(const std::string& model, FairQueue::Coming coming, std::vector<predict::LineState>& out,
                bool both_places = false) const;
  // The same for one of its engines. nullopt: the engine has no line.
  std::optional<predict::LineState> forecast(const std::string& model, const std::string& backend,
                                             const FairQueue::Coming& coming) const;
  double widest_gap() const;  // of all lines: FairQueue's
  // Between two places given up at the model's engine that is quickest at it; -1: not known.
  std::int64_t pace_ms(const std::string& model) const;

 private:
  using Key = std::pair<std::string, std::string>;
  struct Line {
    FairQueue queue;
    std::unordered_map<FairQueue::Id, std::function<void()>> granted;  // of those who wait
    double pace_ms = -1;        // mean of the latest, while somebody waited
    std::int64_t left_ms = -1;  // when the last place was given up that somebody waited for; -1: nobody does
  };
  void note_pace(Line& line) const;
  void pump(Line& line);

  const Clock clock_;
  FairQueue::Id next_ = 1;     // of arrive()
  std::map<Key, Line> lines_;  // of the configuration's models: few, and they stay
};

}  // namespace flyball::route
