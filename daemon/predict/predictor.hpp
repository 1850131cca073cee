// What a request should take at each engine of this machine, if it went there now: the facts
// backend.<id>.expected_ttft and the like, learned from finished requests. One thread; no clock and no I/O:
// time comes in.
//
// expected TTFT = queue + load + prefill + step
//   queue    until it has a slot and KV blocks, and the prompts before it are computed
//   load     of an engine that has not loaded the model, and the end of others whose memory it needs
//   prefill  of its prompt, but for what the engine's prefix cache holds
//   step     what does not grow with the prompt
// The settings of a target's profile change queue and prefill: the place among prompts, and how much of one a
// step computes.
// Engines that are at work on the same GPUs, or on the processor's cores, slow each other: in proportion to
// their number, until they were seen beside each other.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/fairness.hpp"
#include "config/engine_kinds.hpp"
#include "config/request_settings.hpp"
#include "daemon/predict/accuracy.hpp"
#include "daemon/predict/answer_length.hpp"
#include "daemon/predict/delay_to_others.hpp"
#include "daemon/predict/engine_model.hpp"
#include "daemon/predict/engine_work.hpp"
#include "daemon/predict/prefix_blocks.hpp"
#include "daemon/predict/prompt_tokens.hpp"
#include "policy/facts.hpp"

namespace flyball::predict {

// An engine of the query's model, as its process reports itself.
struct EngineState {
  std::string_view backend;
  bool loaded = false;
  std::int64_t process = 0;     // another one has forgotten every prefix
  std::uint64_t kv_tokens = 0;  // room of its KV; 0: not known
  std::uint64_t kv_tokens_used = 0;
  bool spills = false;  // KV that is not in its room lies on the disk
  std::string_view digest = {};  // of the file that it has loaded: what another one taught is forgotten
  bool starts = false;           // it loads the model, and has the memory
};

// The line in front of an engine of the query's model, as the daemon's queue foretells the request's turn.
struct LineState {
  std::string_view backend;
  TurnForecast turn;
  std::optional<TurnForecast> behind = {};  // the same if its place is `behind`; absent: that is not asked

  const TurnForecast& of(config::QueuePlace place) const noexcept {
    return behind && place == config::QueuePlace::behind ? *behind : turn;
  }
};

// A target with a profile that sets something, which the request may be sent to.
struct ProfileTarget {
  std::string_view backend, profile;
  config::RequestSettings settings;
};

// A ready engine of another model, which may have to end for a load: pinned ones are not among them.
struct Neighbour {
  std::string_view model, backend;
  std::uint64_t bytes = 0;  // of its memory pool
};

struct Query {
  std::string_view app, model;
  std::shared_ptr<const PromptPrint> prompt;
  std::uint32_t answers = 1;                  // to all of its prompts
  double further_tokens = 0;                  // of its prompts after `prompt`, as estimated
  std::uint32_t max_tokens = 0;               // 0: not given
  std::uint32_t declared_output = 0;          // workload.output_tokens; 0: not declared
  std::uint32_t slots = 1;                    // sequences that an engine of the model computes at once
  std::span<const EngineState> engines = {};  // those without a row have not been started
  std::span<const Neighbour> neighbours = {};
  std::span<const LineState> lines = {};      // at those without a row turns come in order of arrival
  const measure::Book* book = nullptr;
  std::int64_t unix_seconds = 0;  // for the book
  TimePoint now{};
  std::uint64_t request = 0;  // that waits or runs here already, and is asked about again; 0: none
  // The request has them at the engine it is asked about. predict() asks with them, and with those of
  // `profiles`.
  config::RequestSettings settings = {};
  std::span<const ProfileTarget> profiles = {};
  bool hard_slo = false;      // route::SloGate finds out whether a figure still holds
  bool interactive = true;    // people wait for its answers
  bool asks_delay_to_others = false;  // the policy reads it; else it is not computed
  measure::CpuThreads threads = {};   // of the model's engines on the processor
};

// Of one engine. Microseconds.
struct Prediction {
  std::int64_t queue = 0, load = 0, prefill = 0, step = 0;  // their sum is ttft.p50
  double shorter_steps = 0;     // seconds of prefill and queue for each token, by step budgets
  bool waits_for_room = false;  // queue lasts until answers have freed KV blocks
  std::uint32_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  Times ttft;                        // of the first answer that begins
  std::optional<Times> tpot, total;  // until the last answer ends. Absent: nobody knows how fast it decodes
  // Absent: nobody asks for it, `total` is absent, or the load ends an engine of another model.
  std::optional<DelayToOthers> delay_to_others;
  // Before correction by the ratios seen, in seconds.
  double raw_ttft = 0, raw_tpot = 0;
  bool queued = false, cold = false;
  bool stale = false;    // without a hard SLO: the engine is idle, and nobody has seen it at work for a while
  bool assumed = false;  // its times follow from the device's class alone
};

// Engine kinds by the discrete GPUs that they open: the kinds of one set share theirs, and no others. A kind
// in no set computes on the processor's cores, or on a device beside them in the same memory.
using DeviceGroups = std::vector<std::vector<std::string>>;

class Predictor {
  struct Engine;
  struct Model;

 public:
  static constexpr std::size_t kMostModels = 1024, kMostApps = 1024;  // of one model; beyond: not predicted

  explicit Predictor(KeyedHash hash = KeyedHash::random(), const DeviceGroups& devices = {});
  ~Predictor();
  Predictor(const Predictor&) = delete;  // its places point to it
  Predictor& operator=(const Predictor&) = delete;

  // Any thread may take prints.
  PromptPrint print_of(const Prompt& prompt, std::string_view app) const {
    return predict::print_of(prompt, app, hash_);
  }
  std::vector<std::shared_ptr<const PromptPrint>> prints_of(std::span<const Prompt> prompts,
                                                            std::string_view app) const;

  // A trial is a request at an engine that nobody has measured with the model nor seen at work with it. One
  // runs at a time; after this many in a row that showed nothing the next is due after kTrialRest. None is
  // due at an engine that is predicted to miss the app's SLO, that the model does not fit in now, or whose
  // load nobody should wait for.
  static constexpr std::uint32_t kTrials = 3;
  static constexpr std::chrono::hours kTrialRest{1};
  static constexpr std::chrono::seconds kTrialLoad{10};  // the longest, where another target is loaded

  // Sets the predicted facts of engines of this machine that are available, where there is a basis and nobody
  // has set them, and `trial_due` of those that a request may try; times that differ with a profile as facts
  // of that profile. Reads the targets' facts `available` and `load_time`, and app.slo.*.
  void predict(const Query& query, policy::Facts& facts);
  // Sets the predicted facts of one engine, `loaded` and `trial_due` as they would be if it had loaded the
  // model. Precondition: predict() has set `facts` for the same query. Looks at the engine no more.
  void predict_loaded(const Query& query, std::string_view backend, policy::Facts& facts);
  // The model's engine has been idle since then, and so has every one on the same device or cores. nullopt:
  // one is at work. An engine that nobody used has been idle for ever.
  std::optional<TimePoint> idle_since(std::string_view model, std::string_view backend) const;
  // nullopt: no basis. `shares_cores`: false: it computes on its kind's discrete GPUs. `load_ms`: as the book
  // has it, by the loads that were seen; absent: those alone count that a request here waited for.
  std::optional<Prediction> expect(const Query& query, std::string_view backend, bool shares_cores,
                                   std::optional<std::int64_t> load_ms = {});

  // ---- the life of one answer at one engine ---------------------------------------------------------------
  struct Entering {
    const Query& query;
    std::string_view backend;
    const policy::Facts& facts;  // those that the request was decided on
    bool first = true;           // of its request: the one whose times are judged
    bool resumed = false;        // it goes on where another engine left it
    bool came_before = false;    // to another engine
    bool scored = false;         // its prompt's log probabilities are computed, too
  };
  // Gone from the engine with the object.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept
        : predictor_(std::exchange(other.predictor_, nullptr)), engine_(other.engine_), id_(other.id_) {}
    Place& operator=(Place&& other) noexcept;
    ~Place() { leave(); }
    explicit operator bool() const noexcept { return predictor_ != nullptr; }
    // It is decided again: to the same engine, with these.
    void asks(const config::RequestSettings& settings);
    void failed();              // the engine could not take it
    void began(TimePoint now);  // the engine has it
    void received(const Delta& delta, TimePoint now);
    void finished(const Usage& usage, const Timings& timings, TimePoint now);

   private:
    friend class Predictor;
    void leave();
    Predictor* predictor_ = nullptr;
    Engine* engine_ = nullptr;
    std::uint64_t id_ = 0;
  };
  // The query's engines are those that predict() was told last. The predictor outlives the place. Empty: the
  // target is an upstream, or too many models or apps are known.
  Place enter(const Entering& entering);

  // The model's engine keeps the prefix that the print is of; `computed`: the share of it that was not there
  // before. Nothing is learned of its speed.
  void keeps(std::string_view model, const EngineState& engine, const PromptPrint& print, double computed);
  // Seconds that the engine takes for so many tokens at the beginning of a prompt, alone. nullopt: nobody
  // knows.
  std::optional<double> prefill_time(std::string_view model, std::string_view backend,
                                     std::uint32_t tokens) const;

  // Fits the coefficients to what answers have shown since. Predictions do so, too; the caller does it once
  // the tokens that taught it are on their way, since a fit takes longer than a prediction.
  void learn();
  bool has_lessons() const noexcept { return !lessons_.empty(); }

  struct Quality {
    std::string_view backend;
    const Accuracy *ttft, *tpot;
  };
  std::vector<Quality> quality() const;  // as of the latest learn()

 private:
  struct PerBackend {
    Accuracy ttft, tpot;
  };
  Model* model_of(std::string_view id);
  Engine& engine_of(Model& model, std::string_view backend, bool shares_cores);
  // The group of an engine kind, or of an engine of its own; nullptr: it shares the cores.
  Group* device_group(std::string_view backend);
  AnswerLength* app_of(Model& model, std::string_view app);
  void look_at(Engine& engine, const Query& query);
  static void set_share(Engine& engine, double share);
  // An available engine whose times nobody else has set, and microseconds until it has loaded the model.
  struct Untold {
    const policy::TargetInstance* target = nullptr;
    std::optional<std::int64_t> load;
  };
  void set_trials(const Query& query, std::span<const Untold> untold, policy::Facts& facts);
  void foresee_others(const Query& query);
  // Precondition: foresee_others() has seen the query.
  std::optional<Prediction> expect_at(const Query& query, std::string_view backend, bool shares_cores,
                                      std::optional<std::int64_t> load_ms);
  // as_if_loaded: without the load of an engine that has not loaded the model.
  std::optional<Prediction> expect(const Query& query, const config::RequestSettings& settings, Model& model,
                                   Engine& engine, const AnswerLength& app,
                                   std::optional<std::int64_t> load_ms, bool as_if_loaded = false);
  // Seconds until other models' engines without work and at work have given the target's load the memory that
  // it lacks now; 0: none has to end.
  double until_room(const Query& query, const Engine& engine, const policy::TargetInstance& target,
                    const policy::Facts& facts);
  // The prediction with a profile, of an engine that is predicted without one. nullopt: it is the same,
  // because nobody else is there and no difference was seen.
  std::optional<Prediction> expect_with(const Query& query, const ProfileTarget& profile,
                                        std::optional<std::int64_t> load_ms, bool as_if_loaded);
  // The facts of profiles whose times differ from those `without` one.
  void set_profiles(const Query& query, const policy::TargetInstance& target, const Prediction& without,
                    std::optional<std::int64_t> load_ms, bool as_if_loaded, policy::Facts& facts);
  // The end of an answer, with what its engine had computed by then.
  struct Ended {
    Usage usage;
    Timings timings;
    WorkDone done;
    TimePoint at{};
  };
  // An answer that teaches something: at its first token, or at its end.
  struct Lesson {
    Engine* engine = nullptr;
    Stay stay;  // as it was then
    std::optional<Ended> ended;
  };
  static constexpr std::size_t kMostLessons = 64;  // until they are learned whoever waits
  void teach(Lesson lesson);
  void learn_prefill(Engine& engine, const Stay& stay);
  static void learn_decode(Engine& engine, const Stay& stay, const Ended& ended);

  const KeyedHash hash_;
  PrefixBlocks prefixes_;
  RobustFit<1> eviction_;  // seconds that the end of engines without work adds to a load
  Group cores_;
  struct Devices {
    std::vector<std::string> kinds;
    Group group;
  };
  std::deque<Devices> devices_;  // engines point to their groups
  std::uint64_t last_ = 0;  // stay
  TimePoint now_{};  // the latest that came in
  std::vector<Untold> untold_;   // storage for predict()
  bool some_yield_ = false;      // of the engines that predict() was told last
  std::vector<Lesson> lessons_;  // in the order in which they came; what they teach is not fitted yet
  std::map<std::string, std::unique_ptr<Model>, std::less<>> models_;
  std::map<std::string, PerBackend, std::less<>> quality_;
};

}  // namespace flyball::predict
