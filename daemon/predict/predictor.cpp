#include "daemon/predict/predictor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "config/engine_kinds.hpp"
#include "config/units.hpp"
#include "policy/fastest.hpp"

namespace flyball::predict {
namespace {

using policy::Facts;
using policy::TargetFact;

constexpr std::chrono::seconds kBookAge{10};  // until a book is asked again
constexpr double kTrustMemory = 0.8;          // of how much of what should be held is: some five prompts
constexpr std::uint32_t kLeastDecoded = 4;    // tokens behind the first: fewer say little of a speed
constexpr double kMostSeconds = 1e6;          // nobody waits longer
constexpr double kAlone = 1.05;  // engines at work in a group, on average: one, and little beside it
// An engine without work that nobody has seen at work for so long may have become faster: `pick: meets_slo`
// does not pass it over by a stale figure for ever. A hard SLO has a gate that finds out sooner.
constexpr std::chrono::seconds kStale{30};

std::int64_t microseconds(double seconds) {
  if (!std::isfinite(seconds)) seconds = kMostSeconds;
  return std::llround(std::clamp(seconds, 0.0, kMostSeconds) * 1e6);
}

// The text of a fact's source: times in milliseconds.
class Text {
 public:
  Text() { *this << policy::kPredictedSource; }
  Text& operator<<(std::string_view text) {
    const std::size_t n = std::min(text.size(), buffer_.size() - size_);
    std::memcpy(buffer_.data() + size_, text.data(), n);
    size_ += n;
    return *this;
  }
  Text& operator<<(std::uint64_t n) {
    std::array<char, 20> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), n).ptr;
    return *this << std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()));
  }
  Text& ms(std::int64_t us) { return *this << config::milliseconds_text(us); }
  std::string_view view() const { return {buffer_.data(), size_}; }

 private:
  std::array<char, 224> buffer_{};
  std::size_t size_ = 0;
};

std::optional<std::int64_t> integer_of(const Facts& facts, policy::FactId id) {
  const policy::Fact* fact = facts.get(id);
  return fact == nullptr ? std::nullopt : std::optional(std::get<std::int64_t>(fact->value));
}

// Of two independent spreads.
std::int64_t beyond(std::int64_t middle, double one, double other) {
  return middle + std::llround(std::sqrt(one * one + other * other));
}

struct Slo {
  std::optional<std::int64_t> ttft, tpot, deadline;  // milliseconds
};

Slo slo_of(const Facts& facts) {
  static const std::array kSlo{*policy::find_fact("app.slo.ttft"), *policy::find_fact("app.slo.tpot"),
                               *policy::find_fact("app.slo.deadline")};
  return {integer_of(facts, kSlo[0]), integer_of(facts, kSlo[1]), integer_of(facts, kSlo[2])};
}

// Nine in ten hold each of the times that are declared; nullopt: none is, or one of them is not predicted.
std::optional<bool> meets(const Slo& slo, const Prediction& p) {
  bool any = false, all = true, known = true;
  const auto look = [&](const std::optional<std::int64_t>& limit, const std::optional<Times>& times) {
    if (!limit) return;
    any = true;
    if (!times)
      known = false;
    else
      all = all && times->p90 <= *limit * 1000;
  };
  look(slo.ttft, p.ttft);
  look(slo.tpot, p.tpot);
  look(slo.deadline, p.total);
  if (!any) return std::nullopt;
  if (!all) return false;
  return known ? std::optional(true) : std::nullopt;
}

// The end of a process that has to give its memory back, until one was seen. Seconds.
constexpr double kEviction = 0.2;

// Nobody is refused for an assumption.
std::optional<bool> meets_fact(const Slo& slo, const Prediction& p) {
  const auto held = meets(slo, p);
  return held && (*held || !(p.stale || p.assumed)) ? held : std::nullopt;
}
constexpr std::string_view kMeetsSource = ": each time's p90 beside app.slo";

bool has_same_times(const Prediction& a, const Prediction& b) {
  const auto same = [](const Times& x, const Times& y) { return x.p50 == y.p50 && x.p90 == y.p90; };
  return same(a.ttft, b.ttft) && same(a.tpot.value_or(Times{}), b.tpot.value_or(Times{})) &&
         same(a.total.value_or(Times{}), b.total.value_or(Times{})) &&
         a.delay_to_others.value_or(DelayToOthers{}).sum() ==
             b.delay_to_others.value_or(DelayToOthers{}).sum();
}

// The source of the expected TTFT.
Text sum_of(const Prediction& p) {
  Text out;
  (((out << ": queue ").ms(p.queue) << " + load ").ms(p.load) << " + prefill ").ms(p.prefill)
      << " (" << std::uint64_t{p.prompt_tokens} << " tokens, " << std::uint64_t{p.cached_tokens}
      << " cached) + step ";
  out.ms(p.step);
  return out;
}

// The source of the expected delay to others.
Text sum_of(const DelayToOthers& delay) {
  Text out;
  (out << ": answers here ").ms(microseconds(delay.here));
  (out << " + at engines beside it ").ms(microseconds(delay.beside));
  (out << " + to come ").ms(microseconds(delay.to_come));
  return out;
}

// Sources without figures are the same for all requests: records keep them once.
void set_facts(const policy::TargetInstance& target, const EngineState* state, const Prediction& p,
               const Slo& slo, Facts& facts) {
  const auto set = [&](TargetFact which, policy::FactValue value, const Text& source) {
    const policy::FactId id = fact_of(target, which);
    if (facts.get(id) == nullptr) facts.set(id, std::move(value), source.view());
  };
  const auto set_times = [&](TargetFact p50, TargetFact p90, const Times& times, const Text& source) {
    if (facts.get(fact_of(target, p50)) != nullptr) return;  // p90 of another prediction would contradict it
    set(p50, times.p50, source);
    set(p90, times.p90, Text());
  };
  set_times(TargetFact::expected_ttft, TargetFact::expected_ttft_p90, p.ttft, sum_of(p));
  if (p.tpot) set_times(TargetFact::expected_tpot, TargetFact::expected_tpot_p90, *p.tpot, Text());
  if (p.total) set_times(TargetFact::expected_total, TargetFact::expected_total_p90, *p.total, Text());
  if (const auto& delay = p.delay_to_others)
    set(TargetFact::expected_delay_to_others, microseconds(delay->sum()), sum_of(*delay));
  set(TargetFact::cached_tokens, std::int64_t{p.cached_tokens}, Text() << ": by prompts computed there");
  if (state != nullptr && state->loaded && state->kv_tokens > 0)
    set(TargetFact::kv_room,
        static_cast<std::int64_t>(state->kv_tokens - std::min(state->kv_tokens_used, state->kv_tokens)),
        Text() << ": blocks that are free now");
  if (const auto held = meets_fact(slo, p)) set(TargetFact::meets_slo, *held, Text() << kMeetsSource);
}

// A fact that somebody set holds with every profile, and p90 beside it would be of another prediction.
void set_profile_facts(const policy::TargetInstance& target, std::string_view profile, const Prediction& p,
                       const Slo& slo, Facts& facts) {
  const auto may_set = [&](TargetFact which) {
    const policy::Fact* const own = facts.get(fact_of(target, which));
    return own == nullptr || policy::is_predicted(*own);
  };
  const auto set = [&](TargetFact which, const std::optional<policy::FactValue>& value, const Text& source) {
    if (may_set(which))
      facts.set_of_profile(profile, fact_of(target, which), value, std::string(source.view()));
  };
  const auto set_times = [&](TargetFact p50, TargetFact p90, const std::optional<Times>& times,
                             const Text& source) {
    if (!times || !may_set(p50)) return;
    set(p50, times->p50, source);
    set(p90, times->p90, Text());
  };
  set_times(TargetFact::expected_ttft, TargetFact::expected_ttft_p90, p.ttft, sum_of(p));
  set_times(TargetFact::expected_tpot, TargetFact::expected_tpot_p90, p.tpot, Text());
  set_times(TargetFact::expected_total, TargetFact::expected_total_p90, p.total, Text());
  if (const auto& delay = p.delay_to_others)
    set(TargetFact::expected_delay_to_others, microseconds(delay->sum()), sum_of(*delay));
  const auto held = meets_fact(slo, p);
  set(TargetFact::meets_slo, held ? std::optional<policy::FactValue>(*held) : std::nullopt,
      Text() << kMeetsSource);
}

}  // namespace

struct Predictor::Engine {
  Engine(std::string_view name, Group& group, Model& m, PerBackend& q)
      : backend(name), work(group), model_of(m), quality(q) {}
  const std::string backend;
  EngineModel model;
  EngineWork work;
  Model& model_of;
  PerBackend& quality;
  PrefixBlocks::Holder prefixes;
  double trust = 1;  // share of what should be held that engines report as cached
  std::int64_t process = 0;
  std::uint64_t kv_tokens = 0;  // EngineState::kv_tokens
  std::string digest;  // of the file that it loaded last
  bool loaded = false;
  bool starts = false;  // EngineState::starts
  bool fresh = true;    // nobody has had a token of its process
  bool surprised = false;                       // by first prompts of a process, and by no other prompt since
  std::uint64_t processes = 0, surprising = 0;  // so far; the one that surprised
  std::optional<TimePoint> load_began;
  std::uint64_t load_seen_by = 0;    // the stay that it began for; 0: that has left
  double until_room = 0;             // of a load that began now: seconds until others have ended for it
  double load_waits = 0;             // the same of the load that is under way
  double load_evicts = 0;            // the part of it that is not others' answers
  std::optional<double> load_foreseen;  // seconds that it was to take besides; nullopt: nobody knew
  std::optional<TimePoint> seen_at;  // when its latest first token came
  std::uint32_t trials = 0;          // in a row, that showed nothing
  TimePoint trial_at{};              // when the latest of them began
  std::optional<std::uint64_t> book;  // its generation
  TimePoint book_asked{};
  double prefill_share = 1;  // measure::prefill_share()
  bool yields = false;       // it stands still while people's answers are computed in its group

  // Seconds until those that are there have ended, as foresee_interactive() saw them.
  double until_people_end() const {
    const Group& group = work.group();
    double until = 0;
    for (const Group::Member& member : group.members)
      if (member.work != &work)
        for (const float end : std::span(group.ends).subspan(member.first, member.n))
          until = std::max(until, static_cast<double>(end));
    return until;
  }

  // `request` may be there already, and wait.
  bool trial_due(TimePoint now, std::uint64_t request) const {
    return model.untried() && !work.has_others(request) && (trials < kTrials || now - trial_at >= kTrialRest);
  }
  // A stay counts as a trial once, when something came of it.
  void count_trial(Stay& stay, TimePoint now) {
    if (!std::exchange(stay.trial, false)) return;
    ++trials;
    trial_at = now;
  }
};

struct Predictor::Model {
  std::string id;
  PromptTokens tokens;
  std::map<std::string, std::unique_ptr<Engine>, std::less<>> engines;
  std::map<std::string, AnswerLength, std::less<>> answers;  // by app
};

std::vector<std::shared_ptr<const PromptPrint>> Predictor::prints_of(std::span<const Prompt> prompts,
                                                                     std::string_view app) const {
  std::vector<std::shared_ptr<const PromptPrint>> out;
  out.reserve(prompts.size());
  for (const Prompt& prompt : prompts)
    out.push_back(std::make_shared<const PromptPrint>(print_of(prompt, app)));
  return out;
}

Predictor::Predictor(KeyedHash hash, const DeviceGroups& devices)
    : hash_(hash), eviction_({kEviction}, /*trusted=*/true) {
  for (const std::vector<std::string>& kinds : devices) devices_.push_back({kinds, {}});
}
Predictor::~Predictor() = default;

Group* Predictor::device_group(std::string_view backend) {
  const std::string_view kind = config::kind_of(backend);
  for (Devices& devices : devices_)
    if (std::ranges::find(devices.kinds, kind) != devices.kinds.end()) return &devices.group;
  return nullptr;
}

Predictor::Model* Predictor::model_of(std::string_view id) {
  if (const auto it = models_.find(id); it != models_.end()) return it->second.get();
  if (models_.size() >= kMostModels) return nullptr;
  auto model = std::make_unique<Model>();
  model->id = id;
  return models_.emplace(model->id, std::move(model)).first->second.get();
}

Predictor::Engine& Predictor::engine_of(Model& model, std::string_view backend, bool on_cores) {
  if (const auto it = model.engines.find(backend); it != model.engines.end()) return *it->second;
  const auto quality = quality_.try_emplace(std::string(backend)).first;
  Group* const devices = on_cores ? nullptr : device_group(backend);
  auto engine =
      std::make_unique<Engine>(backend, devices == nullptr ? cores_ : *devices, model, quality->second);
  prefixes_.forget(engine->prefixes);
  return *model.engines.emplace(std::string(backend), std::move(engine)).first->second;
}

AnswerLength* Predictor::app_of(Model& model, std::string_view app) {
  if (const auto it = model.answers.find(app); it != model.answers.end()) return &it->second;
  if (model.answers.size() >= kMostApps) return nullptr;
  return &model.answers[std::string(app)];
}

// The engine as it is now: another process holds no prefix, and the book may be another one.
void Predictor::look_at(Engine& engine, const Query& query) {
  Model& model = engine.model_of;
  const auto state =
      std::ranges::find(query.engines, std::string_view(engine.backend), &EngineState::backend);
  const bool loaded = state != query.engines.end() && state->loaded;
  if (loaded) engine.load_began.reset();
  if (loaded && (!engine.loaded || state->process != engine.process)) {
    prefixes_.forget(engine.prefixes);
    engine.fresh = true;
    ++engine.processes;
  }
  if (loaded && state->digest != engine.digest) {
    if (!engine.digest.empty()) {
      engine.model = {};
      engine.book.reset();
      engine.trials = 0;
    }
    engine.digest = state->digest;
  }
  if (loaded) {
    engine.process = state->process;
    engine.kv_tokens = state->kv_tokens;
    engine.prefixes.room = state->spills ? 0
                                         : static_cast<std::uint64_t>(static_cast<double>(state->kv_tokens) *
                                                                      model.tokens.bytes_per_token());
  }
  engine.loaded = loaded;
  engine.starts = state != query.engines.end() && state->starts;
  // After a reload requests that wait ask by an older book than new ones: they do not take turns.
  if (query.book == nullptr ||
      (engine.book && query.book->generation() <= *engine.book && query.now - engine.book_asked < kBookAge))
    return;
  engine.book = query.book->generation();
  engine.book_asked = query.now;
  engine.model.set_prior(*query.book, model.id, std::string(config::kind_of(engine.backend)),
                         query.unix_seconds, engine.prefill_share);
}

// An engine of its own that a reload gave other threads has to show its speed again.
void Predictor::set_share(Engine& engine, double share) {
  if (engine.prefill_share == share) return;
  engine.prefill_share = share;
  engine.model = {};
  engine.book.reset();
  engine.trials = 0;
}

std::optional<Prediction> Predictor::expect(const Query& query, const config::RequestSettings& settings,
                                            Model& model, Engine& engine, const AnswerLength& app,
                                            std::optional<std::int64_t> load_ms, bool as_if_loaded) {
  const EngineModel& known = engine.model;
  if (!known.knows_prefill()) return std::nullopt;
  Prediction out;
  double load = 0;
  const bool loads = !engine.loaded && !as_if_loaded;
  if (loads) {
    const auto seen = known.load();
    if (!seen && !load_ms) return std::nullopt;
    // The book counts every load of the engine, those that no request waited for, too.
    load = load_ms ? static_cast<double>(*load_ms) / 1e3 : *seen;
    load += engine.load_began ? engine.load_waits : engine.until_room;
    constexpr double kLeast = 0.1;  // of a load that takes longer than it should
    if (engine.load_began) {
      const double passed = seconds_between(*engine.load_began, query.now);
      // It goes on after the request that it began for has left, but nobody would see it fail.
      if (engine.load_seen_by == 0 && passed > load * known.load_p90())
        engine.load_began.reset();
      else
        load = std::max(load - passed, load * kLeast);
    }
  }
  const PromptPrint& print = *query.prompt;
  out.cold = loads;
  out.assumed = known.is_assumed();
  out.stale =
      !query.hard_slo && engine.seen_at && engine.work.empty() && query.now - *engine.seen_at > kStale;
  out.prompt_tokens = print.tokens > 0 ? print.tokens : model.tokens.expected(print.bytes);
  const double held = static_cast<double>(prefixes_.held(engine.prefixes, print)) * engine.trust;
  const double share = print.bytes > 0 ? std::min(held / static_cast<double>(print.bytes), 1.0) : 0;
  out.cached_tokens =
      engine.loaded ? std::min(static_cast<std::uint32_t>(share * out.prompt_tokens), out.prompt_tokens - 1)
                    : 0;
  const double tokens = out.prompt_tokens - out.cached_tokens;
  const AnswerLength::Expected output = app.expected(query.declared_output, query.max_tokens);
  out.output_tokens = output.median;

  const std::uint32_t slots = std::max(query.slots, 1U), answers = std::max(query.answers, 1U);
  const double rounds = std::ceil(static_cast<double>(answers) / slots);
  const auto line = std::ranges::find(query.lines, std::string_view(engine.backend), &LineState::backend);
  const EngineWork::Asked asked{.app = &app,
                                .print = &print,
                                .request = query.request,
                                .tokens = tokens,
                                .prompt = static_cast<double>(out.prompt_tokens),
                                .kv_tokens = engine.loaded ? static_cast<double>(engine.kv_tokens) : 0,
                                .output = static_cast<double>(output.median),
                                .answers = answers,
                                .own_prompts = query.further_tokens / (rounds * output.median),
                                .slots = slots,
                                .turn = line == query.lines.end() ? nullptr : &line->of(settings.place),
                                .settings = settings};
  const EngineWork::Ahead ahead = engine.work.ahead(asked, known, query.now);
  const double people = engine.yields ? engine.until_people_end() : 0;
  const double slower = people > 0 ? 1 : known.slowdown(engine.work.busy());  // then it has the cores
  const double pairs = pairs_of(tokens, out.cached_tokens);
  const auto prefill_of = [&](double n, double n_pairs) {
    return known.prefill({n, n_pairs, ahead.streams}) + n * ahead.shorter_steps;
  };
  const double own = prefill_of(tokens, pairs);
  const double all =
      prefill_of(tokens + ahead.tokens + ahead.tokens_to_come, pairs + ahead.pairs + ahead.pairs_to_come);
  out.shorter_steps = ahead.shorter_steps;
  out.waits_for_room = ahead.waits_for_room;
  const double queue = (ahead.turn + all - own) * slower + people, prefill = own * slower,
               step = known.first_step() * slower;
  out.raw_ttft = queue + prefill + step;
  out.queued = ahead.any() || people > 0;
  const RatioWindow& ratios = known.ttft_ratios(settings, out.queued);
  out.queue = microseconds(queue * ratios.median());
  out.load = microseconds(load);
  out.prefill = microseconds(prefill * ratios.median());
  out.step = microseconds(step * ratios.median());
  out.ttft.p50 = out.queue + out.load + out.prefill + out.step;
  const double load_spread = static_cast<double>(out.load) * (known.load_p90() - 1);
  out.ttft.p90 =
      beyond(out.ttft.p50, load_spread, out.raw_ttft * 1e6 * (known.p90_of(ratios) - ratios.median()));
  if (!known.knows_decode()) return out;

  // Its own answers decode side by side as far as there are slots.
  const std::uint32_t beside = std::min(answers, slots);
  const double streams = std::min<double>(ahead.streams_later + beside - 1, slots - 1);
  const double positions = ahead.positions + (out.prompt_tokens + output.median / 2.0) * beside;
  out.raw_tpot = known.token({streams, positions, ahead.prompts_later}) * slower;
  const RatioWindow& per_token = known.token_ratios(settings);
  const double token_p90 = known.token_p90_of(per_token);
  out.tpot = Times{microseconds(out.raw_tpot * per_token.median()), microseconds(out.raw_tpot * token_p90)};
  const std::int64_t more = output.median - 1, most = output.p90 - 1;
  const std::int64_t decode =
      microseconds(ahead.last_turn * slower * per_token.median()) + more * out.tpot->p50;
  out.total = Times{};
  out.total->p50 = out.ttft.p50 + decode;
  const double slow = static_cast<double>(decode) * (token_p90 / std::max(per_token.median(), 1e-9) - 1),
               length = static_cast<double>((most - more) * out.tpot->p50) * std::sqrt(rounds);
  out.total->p90 = beyond(out.total->p50, static_cast<double>(out.ttft.p90 - out.ttft.p50),
                          std::sqrt(slow * slow + length * length));
  // The price of another model's engine that ends for the load is not known.
  const bool ends_another = loads && engine.until_room > 0;
  if (query.asks_delay_to_others && !ends_another) {
    const auto seconds = [](std::int64_t us) { return static_cast<double>(us) / 1e6; };
    const Course course{.begins = seconds(out.load + out.queue),
                        .ends = seconds(out.total->p50),
                        .prompt = seconds(out.prefill + out.step),
                        .token = seconds(out.tpot->p50)};
    out.delay_to_others = engine.yields
                              ? DelayToOthers{}
                              : delay_to_others(asked, ahead, course, engine.work, known, query.now);
  }
  return out;
}

std::optional<Prediction> Predictor::expect(const Query& query, std::string_view backend, bool on_cores,
                                            std::optional<std::int64_t> load_ms) {
  foresee_others(query);
  return expect_at(query, backend, on_cores, load_ms);
}

void Predictor::foresee_others(const Query& query) {
  if (!query.asks_delay_to_others && !some_yield_) return;
  foresee_interactive(cores_, query.request, query.now);
  for (Devices& devices : devices_) foresee_interactive(devices.group, query.request, query.now);
}

std::optional<Prediction> Predictor::expect_at(const Query& query, std::string_view backend, bool on_cores,
                                               std::optional<std::int64_t> load_ms) {
  now_ = std::max(now_, query.now);
  learn();
  Model* const model = model_of(query.model);
  const AnswerLength* const app = model == nullptr ? nullptr : app_of(*model, query.app);
  if (app == nullptr) return std::nullopt;
  Engine& engine = engine_of(*model, backend, on_cores);
  look_at(engine, query);
  return expect(query, query.settings, *model, engine, *app, load_ms);
}

// The memory governor ends engines without work first, then those at work, once the answers that have begun
// there have ended.
double Predictor::until_room(const Query& query, const Engine& engine, const policy::TargetInstance& target,
                             const Facts& facts) {
  const auto needed = policy::least_model_bytes(facts);
  const auto free = integer_of(facts, fact_of(target, TargetFact::memory_free));
  if (!needed || !free || *needed <= *free) return 0;
  struct Victim {
    double until = 0;
    double bytes = 0;
  };
  std::vector<Victim> victims;
  for (const Neighbour& neighbour : query.neighbours) {
    const auto model = models_.find(neighbour.model);
    Engine* other = nullptr;
    if (model != models_.end())
      if (const auto it = model->second->engines.find(neighbour.backend); it != model->second->engines.end())
        other = it->second.get();
    // Nobody has asked about it since the start: it has no work that is known here.
    const bool shares = other != nullptr ? other->work.shares_with(engine.work)
                                         : device_group(neighbour.backend) == device_group(target.kind);
    if (!shares) continue;
    victims.push_back({other == nullptr ? 0 : other->work.until_done(query.now, other->model),
                       static_cast<double>(neighbour.bytes)});
  }
  std::ranges::sort(victims, {}, &Victim::until);
  double missing = static_cast<double>(*needed - *free), out = 0;
  for (const Victim& victim : victims) {
    if (missing <= 0) break;
    missing -= victim.bytes;
    out = eviction_.coefficients()[0] + victim.until;
  }
  return out;
}

std::optional<Prediction> Predictor::expect_with(const Query& query, const ProfileTarget& profile,
                                                 std::optional<std::int64_t> load_ms, bool as_if_loaded) {
  Model& model = *models_.find(query.model)->second;
  Engine& engine = *model.engines.find(profile.backend)->second;
  // At an engine without others the settings change no time, but what the place delays of requests to come.
  const bool delays_alike = !query.asks_delay_to_others || profile.settings.place == query.settings.place;
  if (delays_alike && !engine.work.has_others(query.request) && !engine.model.tells_settings_apart())
    return std::nullopt;
  return expect(query, profile.settings, model, engine, *app_of(model, query.app), load_ms, as_if_loaded);
}

std::optional<TimePoint> Predictor::idle_since(std::string_view model, std::string_view backend) const {
  const auto known = models_.find(model);
  if (known == models_.end()) return TimePoint{};
  const auto engine = known->second->engines.find(backend);
  return engine == known->second->engines.end() ? TimePoint{} : engine->second->work.idle_since();
}

void Predictor::set_profiles(const Query& query, const policy::TargetInstance& target,
                             const Prediction& without, std::optional<std::int64_t> load_ms,
                             bool as_if_loaded, Facts& facts) {
  for (const ProfileTarget& profile : query.profiles) {
    if (profile.backend != target.id) continue;
    const auto with = expect_with(query, profile, load_ms, as_if_loaded);
    if (with && !has_same_times(*with, without))
      set_profile_facts(target, profile.profile, *with, slo_of(facts), facts);
  }
}

void Predictor::predict(const Query& query, Facts& facts) {
  learn();
  some_yield_ = std::ranges::any_of(facts.targets()->instances(),
                                    [](const auto& target) { return target.settings.yields; });
  foresee_others(query);
  const Slo slo = slo_of(facts);
  untold_.clear();
  for (const policy::TargetInstance& target : facts.targets()->instances()) {
    if (target.remote || !facts.is_true(fact_of(target, TargetFact::available))) continue;
    const bool is_untold = facts.get(fact_of(target, TargetFact::expected_total)) == nullptr;
    const auto load_time = integer_of(facts, fact_of(target, TargetFact::load_time));
    if (Model* const model = model_of(query.model)) {
      Engine& engine = engine_of(*model, target.id, device_group(target.kind) == nullptr);
      const auto state = std::ranges::find(query.engines, std::string_view(target.id), &EngineState::backend);
      const bool has_room = state != query.engines.end() && (state->loaded || state->starts);
      set_share(engine, measure::prefill_share(target, query.threads));
      if (engine.work.begun() == 0) {
        engine.yields = target.settings.yields;
        engine.work.set_yields(engine.yields);
      }
      engine.until_room = has_room ? 0 : until_room(query, engine, target, facts);
    }
    const auto prediction = expect_at(query, target.id, device_group(target.kind) == nullptr, load_time);
    if (is_untold) untold_.push_back({&target, prediction ? std::optional(prediction->load) : std::nullopt});
    if (!prediction) continue;
    const auto state = std::ranges::find(query.engines, std::string_view(target.id), &EngineState::backend);
    set_facts(target, state == query.engines.end() ? nullptr : &*state, *prediction, slo, facts);
    set_profiles(query, target, *prediction, load_time, false, facts);
  }
  set_trials(query, untold_, facts);
}

void Predictor::predict_loaded(const Query& query, std::string_view backend, Facts& facts) {
  const policy::TargetInstance& target = *facts.targets()->find(backend);
  using enum TargetFact;
  for (const TargetFact which :
       {expected_delay_to_others, expected_ttft, expected_ttft_p90, expected_tpot, expected_tpot_p90,
        expected_total, expected_total_p90, meets_slo, trial_due}) {
    const policy::FactId id = fact_of(target, which);
    const policy::Fact* const fact = facts.get(id);
    if (fact != nullptr && fact->source.starts_with(policy::kPredictedSource)) facts.forget(id);
  }
  facts.set(fact_of(target, TargetFact::loaded), true, policy::kPredictedSource);
  Model* const model = model_of(query.model);
  const AnswerLength* const app = model == nullptr ? nullptr : app_of(*model, query.app);
  if (app == nullptr) return;
  Engine& engine = engine_of(*model, backend, device_group(target.kind) == nullptr);
  foresee_others(query);
  const bool is_untold = facts.get(fact_of(target, TargetFact::expected_total)) == nullptr;
  const auto prediction = expect(query, query.settings, *model, engine, *app, std::nullopt, true);
  if (prediction) {
    set_facts(target, nullptr, *prediction, slo_of(facts), facts);
    set_profiles(query, target, *prediction, std::nullopt, true, facts);
  }
  const Untold untold{&target, 0};
  if (is_untold) set_trials(query, {&untold, 1}, facts);
}

// A trial is not to cost the request its SLO, others their engine, or anybody a long load.
void Predictor::set_trials(const Query& query, std::span<const Untold> untold, Facts& facts) {
  Model* const model = model_of(query.model);
  if (model == nullptr || app_of(*model, query.app) == nullptr) return;
  const auto is = [&](const policy::TargetInstance& target, TargetFact which) {
    return facts.is_true(fact_of(target, which));
  };
  const auto is_not = [&](const policy::TargetInstance& target, TargetFact which) {
    return facts.get(fact_of(target, which)) != nullptr && !is(target, which);
  };
  const auto other_than = [&](const policy::TargetInstance* self, auto&& holds) {
    return std::ranges::any_of(facts.targets()->instances(), [&](const policy::TargetInstance& target) {
      return &target != self && is(target, TargetFact::available) && holds(target);
    });
  };
  const auto holds_slo = [&](const policy::TargetInstance& t) { return is(t, TargetFact::meets_slo); };
  const auto is_at_hand = [&](const policy::TargetInstance& target) {
    return is(target, TargetFact::loaded) &&
           facts.get(fact_of(target, TargetFact::expected_total)) != nullptr;
  };
  if (query.hard_slo && other_than(nullptr, holds_slo)) return;
  for (const auto& [target, predicted_load] : untold) {
    const policy::FactId due = fact_of(*target, TargetFact::trial_due);
    const Engine& engine = engine_of(*model, target->id, device_group(target->kind) == nullptr);
    if (facts.get(due) != nullptr || !engine.trial_due(query.now, query.request)) continue;
    if (is_not(*target, TargetFact::meets_slo) || is_not(*target, TargetFact::fits_now)) continue;
    const std::int64_t most_load = std::chrono::microseconds(kTrialLoad).count();
    const bool loaded = engine.loaded || is(*target, TargetFact::loaded);
    const bool loads_long = !loaded && predicted_load.value_or(most_load + 1) > most_load;
    if (!loaded && other_than(target, holds_slo)) continue;
    if (loads_long && other_than(target, is_at_hand)) continue;
    facts.set(
        due, true,
        (Text() << (engine.model.knows_prefill() ? ": its speed is an estimate, and no request was seen there"
                                                 : ": nothing is known of its speed"))
            .view());
  }
}

Predictor::Place Predictor::enter(const Entering& entering) {
  const Query& query = entering.query;
  now_ = std::max(now_, query.now);
  learn();
  Place place;
  const policy::TargetInstance* const target = entering.facts.targets()->find(entering.backend);
  if (target == nullptr || target->remote) return place;
  Model* const model = model_of(query.model);
  AnswerLength* const app = model == nullptr ? nullptr : app_of(*model, query.app);
  if (app == nullptr) return place;
  Engine& engine = engine_of(*model, entering.backend, device_group(target->kind) == nullptr);
  const auto load_ms = integer_of(entering.facts, fact_of(*target, TargetFact::load_time));
  const auto expected = expect(query, query.settings, *model, engine, *app, load_ms);
  Stay stay;
  stay.id = ++last_;
  stay.request = query.request;
  stay.app = app;
  stay.declared = query.declared_output;
  stay.max_tokens = query.max_tokens;
  stay.print = query.prompt;
  stay.prompt = query.prompt->tokens > 0 ? query.prompt->tokens : model->tokens.expected(query.prompt->bytes);
  stay.held = engine.loaded ? prefixes_.held(engine.prefixes, *query.prompt) : 0;
  stay.placed = query.now;
  stay.cold = !engine.loaded;
  stay.fresh = !engine.loaded || engine.fresh;
  stay.resumed = entering.resumed;
  stay.scored = entering.scored;
  stay.settings = query.settings;
  stay.interactive = query.interactive;
  stay.came_before = entering.came_before || entering.resumed;
  const bool shares_prompt = engine.work.computes_for(query.request, query.prompt.get());
  if (!engine.loaded && !engine.load_began) {
    engine.load_began = query.now;
    engine.load_waits = engine.until_room;
    engine.load_evicts = engine.until_room > 0 ? eviction_.coefficients()[0] : 0;
    engine.load_foreseen = load_ms ? std::optional(static_cast<double>(*load_ms) / 1e3) : engine.model.load();
    engine.load_seen_by = engine.starts ? 0 : stay.id;  // somebody else's load began before
  }
  stay.trial = engine.model.untried() && engine.work.empty();
  if (expected) {
    // Answers to one prompt compute it once, but each scores it anew.
    if (!stay.scored) stay.cached = shares_prompt ? std::max(stay.prompt, 1U) - 1 : expected->cached_tokens;
    stay.queued = expected->queued;
    stay.shorter_steps = expected->shorter_steps;
    stay.waits_for_room = expected->waits_for_room;
    if (entering.first && !entering.resumed) {
      stay.raw_ttft = stay.scored ? 0 : expected->raw_ttft;
      stay.raw_tpot = expected->raw_tpot;
      stay.ttft = expected->ttft;
      stay.tpot = expected->tpot.value_or(Times{});
    }
  }
  place.predictor_ = this;
  place.engine_ = &engine;
  place.id_ = stay.id;
  engine.work.enter(std::move(stay));
  join_group(engine.work, engine.model);
  return place;
}

void Predictor::keeps(std::string_view model, const EngineState& engine, const PromptPrint& print,
                      double computed) {
  Model* const known = model_of(model);
  if (known == nullptr) return;
  Engine& at = engine_of(*known, engine.backend, device_group(engine.backend) == nullptr);
  Query query;
  query.model = model;
  query.engines = {&engine, 1};
  look_at(at, query);
  if (!at.loaded) return;
  at.prefixes.written += static_cast<std::uint64_t>(computed * static_cast<double>(print.bytes));
  prefixes_.computed(at.prefixes, print);
}

std::optional<double> Predictor::prefill_time(std::string_view model, std::string_view backend,
                                              std::uint32_t tokens) const {
  const auto known = models_.find(model);
  if (known == models_.end()) return std::nullopt;
  const auto engine = known->second->engines.find(backend);
  if (engine == known->second->engines.end() || !engine->second->model.knows_prefill()) return std::nullopt;
  const double n = tokens;
  return engine->second->model.prefill({n, pairs_of(n, 0), 0});
}

Predictor::Place& Predictor::Place::operator=(Place&& other) noexcept {
  if (this == &other) return *this;
  leave();
  predictor_ = std::exchange(other.predictor_, nullptr);
  engine_ = other.engine_;
  id_ = other.id_;
  return *this;
}

void Predictor::Place::leave() {
  if (predictor_ == nullptr) return;
  if (engine_->load_seen_by == id_) engine_->load_seen_by = 0;
  engine_->work.leave(id_, predictor_->now_, engine_->model);
  predictor_ = nullptr;
}

void Predictor::Place::asks(const config::RequestSettings& settings) {
  if (predictor_ == nullptr) return;
  Stay& stay = *engine_->work.find(id_);
  if (stay.settings == settings) return;
  engine_->work.asks(id_, settings);
  join_group(engine_->work, engine_->model);
  stay.moved = true;
  stay.raw_ttft = stay.raw_tpot = 0;  // predicted with other settings: nothing is judged by it
}

void Predictor::Place::failed() {
  if (predictor_ == nullptr) return;
  engine_->count_trial(*engine_->work.find(id_), predictor_->now_);
}

void Predictor::Place::began(TimePoint now) {
  if (predictor_ == nullptr) return;
  predictor_->now_ = std::max(predictor_->now_, now);
  Stay& stay = *engine_->work.find(id_);
  engine_->count_trial(stay, now);
  if (stay.cold && engine_->load_began) {
    // A load whose beginning nobody here has seen may have been given up since, and begun again.
    const double took = seconds_between(*engine_->load_began, now);
    constexpr double kLeast = 0.01;
    if (engine_->load_seen_by != 0 && engine_->load_waits == 0)
      engine_->model.loaded(took);
    else if (engine_->load_seen_by != 0 && engine_->load_waits <= engine_->load_evicts &&
             engine_->load_foreseen)
      predictor_->eviction_.add({1}, std::max(took - *engine_->load_foreseen, kLeast));
    engine_->load_began.reset();
  }
  engine_->work.begin(stay, now, engine_->model);
}

void Predictor::Place::received(const Delta& delta, TimePoint now) {
  if (predictor_ == nullptr) return;
  predictor_->now_ = std::max(predictor_->now_, now);
  EngineWork& work = engine_->work;
  Stay& stay = *work.find(id_);
  if (stay.state == Stay::State::prefills && !delta.tokens.empty()) {
    if (delta.prompt_tokens > 0) {
      stay.prompt = delta.prompt_tokens;
      stay.cached = std::min(delta.cached_tokens, delta.prompt_tokens);
    }
    work.first_token(stay, now, engine_->model);
    if (!stay.resumed) predictor_->teach({engine_, stay, std::nullopt});
  }
  work.generated(stay, static_cast<std::uint32_t>(delta.tokens.size()), now);
}

void Predictor::teach(Lesson lesson) {
  if (lessons_.size() >= kMostLessons) learn();
  lessons_.push_back(std::move(lesson));
}

void Predictor::learn() {
  for (const Lesson& lesson : lessons_) {
    if (lesson.ended)
      learn_decode(*lesson.engine, lesson.stay, *lesson.ended);
    else
      learn_prefill(*lesson.engine, lesson.stay);
  }
  lessons_.clear();
}

// At its first token: the prompt's size, what of it was cached, and how long it took.
void Predictor::learn_prefill(Engine& engine, const Stay& stay) {
  const PromptPrint& print = *stay.print;
  engine.seen_at = stay.first;
  if (print.tokens == 0) engine.model_of.tokens.counted(print.bytes, stay.prompt);
  if (stay.held > 0 && !stay.scored && stay.prompt > 0 && print.bytes > 0) {
    const double tokens = static_cast<double>(stay.held) * stay.prompt / static_cast<double>(print.bytes);
    const double share = std::clamp(stay.cached / std::max(tokens, 1.0), 0.0, 1.0);
    engine.trust = kTrustMemory * engine.trust + (1 - kTrustMemory) * share;
  }
  const double fresh = stay.uncached() / std::max(stay.prompt, 1U);
  engine.prefixes.written += static_cast<std::uint64_t>(fresh * static_cast<double>(print.bytes));
  prefixes_.computed(engine.prefixes, print);
  if (stay.scored) return;

  const WorkDone &from = stay.at_begin, &to = stay.at_first;
  const double took = seconds_between(from.at, to.at);
  if (!(took > 0)) return;
  engine.fresh = false;
  const double busy = std::max((to.busy_seconds - from.busy_seconds) / took, 1.0);
  if (engine.yields && busy > kAlone) return;
  PrefillWork work;
  work.tokens = std::max(to.prefilled - from.prefilled, stay.uncached());
  work.pairs = std::max(to.pairs - from.pairs, pairs_of(stay.uncached(), stay.cached));
  work.streams = (to.stream_seconds - from.stream_seconds) / took;
  // A GPU's driver compiles, and takes memory, when a kernel is first used: that is no speed. What the next
  // process shows again is.
  constexpr double kSurprise = 4;
  const double usual = engine.model.prefill(work) + engine.model.first_step();
  const bool is_far = stay.fresh && config::kind_of(engine.backend) != config::kCpu.id &&
                      engine.model.knows_prefill() && took > kSurprise * engine.model.slowdown(busy) * usual;
  const bool surprises = is_far && (!engine.surprised || engine.surprising == engine.processes);
  engine.surprised = is_far;
  if (surprises) engine.surprising = engine.processes;
  if (engine.model.wants_prefill() && !surprises) engine.trials = 0;
  // The ratio first: it is over the values of the fit before.
  if (stay.raw_ttft > 0) {
    const double ttft = seconds_between(stay.placed, stay.first);
    engine.quality.ttft.add(ttft * 1e6, static_cast<double>(stay.ttft.p50),
                            static_cast<double>(stay.ttft.p90));
    if (!stay.cold && !surprises) engine.model.saw_ttft(stay.settings, stay.queued, ttft, stay.raw_ttft);
  }
  // The engine had it, and waited for others' blocks; or its steps are not those that it was predicted with.
  if (stay.waits_for_room || stay.moved || surprises) return;
  // Step budgets have a term of their own, which is an estimate: it is at most half of the time.
  const double own = took / engine.model.slowdown(busy);
  engine.model.prefilled(work, std::max(own - stay.shorter_steps * work.tokens, own / 2));
}

void Predictor::Place::finished(const Usage& usage, const Timings& timings, TimePoint now) {
  if (predictor_ == nullptr) return;
  predictor_->now_ = std::max(predictor_->now_, now);
  Stay& stay = *engine_->work.find(id_);
  if (!stay.resumed) {
    const bool decodes = stay.state == Stay::State::decodes;
    const WorkDone done = decodes ? engine_->work.done(now, engine_->model) : WorkDone{};
    predictor_->teach({engine_, stay, Ended{usage, timings, done, now}});
  }
  leave();
}

void Predictor::learn_decode(Engine& engine, const Stay& stay, const Ended& ended) {
  const Usage& usage = ended.usage;
  if (usage.completion_tokens > 0) stay.app->answered(usage.completion_tokens);
  if (stay.state != Stay::State::decodes) return;
  const WorkDone &from = stay.at_first, &to = ended.done;
  engine.prefixes.written += static_cast<std::uint64_t>(static_cast<double>(usage.completion_tokens) *
                                                        engine.model_of.tokens.bytes_per_token());
  const double passed = seconds_between(from.at, ended.at);
  if (usage.completion_tokens <= kLeastDecoded || !(passed > 0)) return;
  const double steps = usage.completion_tokens - 1;
  const double token =
      (ended.timings.decode_us > 0 ? static_cast<double>(ended.timings.decode_us) / 1e6 : passed) / steps;
  const double busy = std::max((to.busy_seconds - from.busy_seconds) / passed, 1.0);
  if (engine.yields && busy > kAlone) return;
  DecodeWork work;
  work.streams = std::max((to.stream_seconds - from.stream_seconds) / passed - 1, 0.0);
  work.positions = (to.position_seconds - from.position_seconds) / passed;
  work.prompts = std::max(to.prefilled - from.prefilled, 0.0) / steps;
  if (engine.model.wants_decode()) engine.trials = 0;
  if (stay.raw_tpot > 0) {
    engine.quality.tpot.add(token * 1e6, static_cast<double>(stay.tpot.p50),
                            static_cast<double>(stay.tpot.p90));
    engine.model.saw_token(stay.settings, token, stay.raw_tpot);
  }
  engine.model.shared(work, token, busy);
  engine.model.decoded(work, token / engine.model.slowdown(busy));
  engine.model.met(work);
}

std::vector<Predictor::Quality> Predictor::quality() const {
  std::vector<Quality> out;
  for (const auto& [backend, quality] : quality_) out.push_back({backend, &quality.ttft, &quality.tpot});
  return out;
}

}  // namespace flyball::predict
