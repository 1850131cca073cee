// The answers at one engine, as the daemon knows them: those that wait for their turn, those whose prompt is
// computed and those that decode; and the work that the engine has done for them so far. Pure; no clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/backend.hpp"
#include "backends/fairness.hpp"
#include "daemon/predict/answer_length.hpp"
#include "daemon/predict/arrivals.hpp"
#include "daemon/predict/engine_model.hpp"
#include "daemon/predict/prefix_blocks.hpp"

namespace flyball::predict {

// 0 where `to` comes first.
inline double seconds_between(TimePoint from, TimePoint to) noexcept {
  return std::max(std::chrono::duration<double>(to - from).count(), 0.0);
}

class EngineWork;

// Engines that compute on the same discrete GPUs, or on the processor's cores, and slow each other.
struct Group {
  // An engine that has interactive answers or expects some, as foresee_interactive() saw it.
  struct Member {
    EngineWork* work = nullptr;
    const EngineModel* model = nullptr;
    InteractiveArrivals::Mean coming = {};
    std::size_t first = 0, n = 0;  // of its answers in `ends`
  };
  static constexpr std::size_t kMostMembers = 64;  // further engines count as having none
  std::vector<Member> members;
  std::vector<float> ends;  // seconds until interactive answers end, each with its engine alone at work
  std::uint32_t busy = 0;   // engines with an answer
  double busy_seconds = 0;  // of each such engine
  TimePoint at{};
  TimePoint idle_since{};  // while none is busy
  static constexpr std::uint32_t kBehind = place_rank(config::QueuePlace::behind);

  void advance(TimePoint now) noexcept;
};

// What an engine had computed by a moment.
struct WorkDone {
  TimePoint at{};
  double prefilled = 0, pairs = 0;  // of prompts
  double decoded = 0;               // tokens
  double stream_seconds = 0, position_seconds = 0, busy_seconds = 0;
};

struct Times {  // microseconds
  std::int64_t p50 = 0, p90 = 0;
};

// One answer at the engine.
struct Stay {
  enum class State : std::uint8_t { waits, prefills, decodes };
  std::uint64_t id = 0, request = 0;
  AnswerLength* app = nullptr;  // stands for the app
  State state = State::waits;
  std::uint32_t declared = 0, max_tokens = 0;
  std::uint32_t prompt = 0, cached = 0;  // tokens: expected, then as the engine counted them
  std::uint32_t generated = 0;
  std::shared_ptr<const PromptPrint> print;
  std::uint64_t held = 0;  // bytes of the prompt, when it came
  TimePoint placed{}, first{};
  WorkDone at_begin, at_first;
  bool cold = false, queued = false;
  bool fresh = false;  // nobody had a token of the engine's process yet
  bool trial = false;  // its engine's speed was not known, and it came alone; until it is counted as one
  config::RequestSettings settings;  // of its target's profile
  double shorter_steps = 0;          // Ahead::shorter_steps when it came
  bool waits_for_room = false;       // likewise
  bool interactive = true;           // its app's: people wait for it
  bool came_before = false;          // to another engine
  bool moved = false;                // its settings are others than those it came with
  bool resumed = false;  // continues an answer of another engine: its times say nothing of a prompt
  bool scored = false;   // its whole prompt is computed, more slowly: its TTFT says nothing of others
  // As predicted when it came, with what had not been corrected by the ratios seen; 0: it is not judged.
  double raw_ttft = 0, raw_tpot = 0;  // seconds
  Times ttft, tpot;

  double uncached() const noexcept { return prompt > cached ? prompt - cached : 1.0; }
  double left() const {  // tokens of the answer
    const std::uint32_t median = app->expected(declared, max_tokens, generated).median;
    return median > generated ? median - generated : 0;  // an engine may send more than it was asked for
  }
  double positions() const noexcept { return static_cast<double>(prompt) + generated; }
};

class EngineWork {
 public:
  explicit EngineWork(Group& group) : group_(&group) {}
  // It stands still while others of its group are at work, as far as is known here, and slows none of them.
  // Precondition: it has no answer.
  void set_yields(bool yields) noexcept { yields_ = yields; }

  // Precondition: its id is above those of the answers that came before.
  Stay& enter(Stay stay);
  // Until it leaves; nullptr: it is not here.
  Stay* find(std::uint64_t id);
  void begin(Stay& stay, TimePoint now, const EngineModel& model);
  // The prompt is computed; the first token is here.
  void first_token(Stay& stay, TimePoint now, const EngineModel& model);
  void generated(Stay& stay, std::uint32_t tokens, TimePoint now);
  // The answer goes on with these settings.
  void asks(std::uint64_t id, const config::RequestSettings& settings);
  void leave(std::uint64_t id, TimePoint now, const EngineModel& model);

  // A request that comes now, or one that waits here already and is asked about again.
  struct Asked {
    const AnswerLength* app = nullptr;
    const PromptPrint* print = nullptr;  // absent: it begins as no other prompt does
    std::uint64_t request = 0;           // its number, if it waits here
    double tokens = 0;                   // of its prompt, to compute
    double prompt = 0;                   // all of its tokens
    double kv_tokens = 0;                // room of the engine's KV; 0: not known
    double output = 0;                   // tokens of an answer
    std::uint32_t answers = 1;           // each takes a turn and a slot
    double own_prompts = 0;              // tokens of its further prompts for each token of a stream
    std::uint32_t slots = 1;
    const TurnForecast* turn = nullptr;  // the queue's; absent: turns come in order of arrival
    config::RequestSettings settings = {};
  };
  // The work that goes before a request, or beside it.
  struct Ahead {
    double turn = 0;               // seconds until it has a slot and KV blocks, or its first answer has
    bool waits_for_room = false;   // it has a slot earlier
    double last_turn = 0;          // from then until its last answer has one
    double tokens = 0, pairs = 0;  // of prompts that the engine computes first
    double rank = 0;               // prompt_rank() of its own
    double tokens_behind = 0;      // of prompts there that it computes later
    double tokens_to_come = 0, pairs_to_come = 0;  // of prompts that should come, and go first
    double streams = 0;                            // that decode beside it
    double streams_later = 0;                      // on average over an answer of `output` tokens
    double positions = 0;                          // that those streams attend to
    double prompts_later = 0;                      // tokens of prompts for each token of such an answer
    double shorter_steps = 0;                      // seconds that step budgets add to each token of a prompt
    double step_prompts = 1;                       // tokens of prompts that a step computes beside streams
    std::uint32_t begun = 0, waiting = 0;          // answers of others
    bool any() const noexcept {
      return turn > 0 || tokens > 0 || streams > 0 || tokens_to_come > 0;
    }  // others are there
  };
  Ahead ahead(const Asked& asked, const EngineModel& model, TimePoint now);

  // Interactive answers here, those of the asked one's request included.
  std::uint32_t interactive() const noexcept { return interactive_; }
  InteractiveArrivals::Mean coming(TimePoint now) noexcept { return interactive_arrivals_.mean(now); }
  // Calls see(answer) for each interactive answer (Open, below) of other requests.
  void each_interactive(std::uint64_t request, auto&& see) const {
    for (const Open& one : open_)
      if (one.interactive && (request == 0 || one.request != request)) see(one);
  }
  // The engine computes the answer's prompt before that of the request. Precondition: ahead() has just
  // answered for it.
  bool goes_first(const auto& answer, const Asked& asked, const Ahead& ahead) const {
    return std::pair<std::uint32_t, double>(
               answer.place, prompt_rank(answer.to_compute(), std::max(here_[answer.app], 1U))) <=
           std::pair<std::uint32_t, double>(place_rank(asked.settings.place), ahead.rank);
  }
  // Seconds with the engine alone at work: a token of each stream takes so long, and so do all prompts of
  // answers that have begun.
  struct Pace {
    double token = 0, prompts = 0;
  };
  Pace pace(TimePoint now, const EngineModel& model);

  // Another answer of the request computes this prompt, or waits to.
  bool computes_for(std::uint64_t request, const PromptPrint* prompt) const {
    if (request == 0) return false;
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (open_[i].request == request && open_[i].state != Stay::State::decodes &&
          stays_[i]->print.get() == prompt)
        return true;
    return false;
  }

  WorkDone done(TimePoint now, const EngineModel& model);
  // Engines of the group that are at work, this one included.
  double busy() const noexcept { return group_->busy + (begun_ > 0 && !yields_ ? 0 : 1); }
  std::uint32_t begun() const noexcept { return begun_; }
  // The time since which no answer has been here and no engine on the same device or cores has been at work.
  // nullopt: one is.
  std::optional<TimePoint> idle_since() const noexcept {
    if (!empty() || group_->busy > 0) return std::nullopt;
    return std::max(left_, group_->idle_since);
  }
  bool empty() const noexcept { return open_.empty(); }
  // An answer is here that is not one of the request's; 0 has none.
  bool has_others(std::uint64_t request) const noexcept {
    return std::ranges::any_of(open_,
                               [&](const Open& one) { return request == 0 || one.request != request; });
  }
  // Seconds until the answers that have begun should have ended, if no others begin.
  double until_done(TimePoint now, const EngineModel& model);
  bool shares_with(const EngineWork& other) const noexcept { return group_ == other.group_; }
  Group& group() const noexcept { return *group_; }

 private:
  // An answer of another request that has begun: what is left of it.
  struct Begun {
    double prompt = 0, pairs = 0, output = 0;  // tokens
    std::uint32_t app = 0;                     // its number in numbers_
    std::uint8_t place = 0;                    // place_rank() of its settings
    double own = 0, cached = 0;                // positions whose KV it holds, those found in the cache apart
    const PromptPrint* print = nullptr;
    double computed_at = 0;  // seconds until its prompt is computed
  };
  struct Room {
    double end = 0;              // seconds until its answer ends and its KV is free
    double held = 0, grows = 0;  // tokens
    double prefix = 0;           // of its own, what the request's prompt begins with
  };
  // The figures of an answer that a forecast reads, in 64 bytes: it reads every answer at the engine.
  struct Open {
    std::uint64_t id = 0, request = 0;
    std::uint32_t app = 0;      // its number in numbers_
    std::uint32_t lengths = 0;  // answers of the app that `left` follows from
    std::uint32_t cached = 0;   // tokens of its prompt
    Stay::State state = Stay::State::waits;
    std::uint8_t place = 0;        // place_rank() of its settings
    bool has_step_budget = false;  // in its settings
    bool interactive = false;      // people wait for it
    double prompt = 1, pairs = 0;  // tokens that were not cached; all of the prompt's, whatever is computed
    float computed = 0;            // tokens of it, as far as can be told from outside
    float left = 0;                // tokens of its answer
    double positions = 0;

    double to_compute() const noexcept { return prompt - static_cast<double>(computed); }
    double pairs_to_compute() const noexcept { return pairs * to_compute() / prompt; }
  };
  static_assert(sizeof(Open) <= 64);
  // The answers of other requests, summed up.
  struct Others {
    std::uint32_t begun = 0, waiting = 0;
    double rest = 0;                               // the part of them that overlaps the request's answers
    double positions = 0;                          // that they attend to
    double begun_positions = 0;                    // of those that have begun, at their ends
    double waiting_tokens = 0, waiting_pairs = 0;  // of the prompts of those that wait
    double waiting_left = 0;                       // tokens of their answers
    // Not counted above: those that the request does not wait for, because they are behind it.
    std::uint32_t begun_behind = 0, streams_behind = 0;
  };
  static constexpr std::uint32_t kBehind = place_rank(config::QueuePlace::behind);

  void advance(TimePoint now) noexcept;
  void count_begun();      // in here_
  Open* prompt_at_hand();  // nullptr: none is computed
  void advance_prompts(TimePoint now, const EngineModel& model);
  static bool is_behind(const Asked& asked, const Open& one) noexcept {
    return one.place == kBehind && place_rank(asked.settings.place) != kBehind;
  }
  static bool is(const Asked& asked, const Open& one) noexcept {
    return asked.request != 0 && one.request == asked.request;
  }
  std::size_t index_of(std::uint64_t id) const;
  Open& open_of(const Stay& stay) { return open_[index_of(stay.id)]; }
  std::uint32_t number_of(const AnswerLength& app);
  void set_settings(Open& one, const Stay& stay) noexcept;
  double left_of(std::size_t i);  // tokens of its answer, by what its app's answers have shown so far
  Others look_at_others(const Asked& asked);
  void follow_prompts(const EngineModel& model, double streams);
  void wait_for_turn(const Asked& asked, const Others& others, const EngineModel& model, Ahead& out);
  void wait_for_room(const Asked& asked, const Others& others, const EngineModel& model, Ahead& out);
  double take_slot();
  void give_slot(double until);
  void wait_for_others(const Asked& asked, const EngineModel& model, Ahead& out) const;
  void wait_for_prompts(const Asked& asked, const Others& others, const EngineModel& model, Ahead& out);
  void expect_arrivals(const Asked& asked, const Others& others, const EngineModel& model, Ahead& out) const;
  void keep_step_budgets(const Asked& asked, const EngineModel& model, Ahead& out) const;

  Group* group_;
  bool yields_ = false;
  std::vector<Open> open_;                                          // in order of arrival, and so of ids
  std::vector<std::unique_ptr<Stay>> stays_;                        // the same
  std::unordered_map<const AnswerLength*, std::uint32_t> numbers_;  // apps that have been here
  WorkDone done_;
  Arrivals arrivals_;
  InteractiveArrivals interactive_arrivals_;
  std::uint32_t begun_ = 0, streams_ = 0, interactive_ = 0;
  double positions_ = 0;    // of the streams
  TimePoint left_{};        // when the latest answer left
  TimePoint prompts_at_{};  // up to then `computed` is known
  // Reused by every ahead().
  std::vector<std::uint32_t> here_;  // answers at the engine, by the app's number
  std::vector<Begun> begun_left_;
  std::vector<Room> rooms_;
  std::vector<double> free_at_;
  std::vector<std::pair<std::pair<std::uint8_t, double>, std::uint32_t>>
      prompts_;  // rank, index in begun_left_
};

}  // namespace flyball::predict
