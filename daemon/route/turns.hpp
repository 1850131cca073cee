// Turns at the engines: a FairQueue for each (model, engine), and who is told when a turn comes. An engine
// gets as many requests as it computes at once; the others wait here, where it can still be chosen who goes
// next. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "daemon/route/fair_queue.hpp"

namespace flyball::route {

struct TurnRequest {
  std::string model, backend;
  std::uint32_t slots = 1;  // sequences that this engine computes at once
  std::string app;
  double weight = 1;
  double prompt_tokens = 0;  // estimated
  bool goes_on = false;      // it had its turn, at an engine that failed: it waits no second time
};

class Turns : public std::enable_shared_from_this<Turns> {
 public:
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
    void settle(double prompt_tokens);  // what the prompt really cost: 0 where nothing was computed

   private:
    friend class Turns;
    void leave();
    template <class Charge>
    void charge(Charge charge);
    std::weak_ptr<Turns> turns_;
    const std::pair<std::string, std::string>* line_ = nullptr;
    FairQueue::Id id_ = 0;
  };

  // `granted` is called once, when the turn has come: perhaps within this call, or another place's; never
  // after the place is gone. It must not destroy places.
  Place ask(TurnRequest request, std::function<void()> granted);
  std::size_t waiting(const std::string& model, const std::string& backend) const;

 private:
  using Key = std::pair<std::string, std::string>;
  struct Line {
    FairQueue queue;
    std::unordered_map<FairQueue::Id, std::function<void()>> granted;  // of those who wait
  };
  void pump(Line& line);

  FairQueue::Id last_ = 0;
  std::map<Key, Line> lines_;  // of the configuration's models: few, and they stay
};

}  // namespace flyball::route
