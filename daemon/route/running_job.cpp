#include "daemon/route/running_job.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/post.hpp>

#include "daemon/route/possible_targets.hpp"
#include "policy/profile.hpp"

namespace flyball::route {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using boost::system::error_code;

// on_unavailable: queue. How often a parked request looks again, and for how long.
constexpr std::chrono::milliseconds kParkedLook{250};
constexpr std::chrono::seconds kParkedLimit{30};

// Tokens, as estimated, of the prompts that one turn of the loop hands to engines: a start copies a text
// twice, which takes about a millisecond for the 256 KiB of so many. A long chat or constraint is shared with
// the frame to the worker; it counts as a text does, for the socket copies it.
constexpr std::uint64_t kCopiedInATurn = 64 * 1024;

const std::string kNone = "none";

// Errors of the request itself: another engine would find them, too.
bool is_of_the_request(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_value:
    case ErrorCode::unsupported_value:
    case ErrorCode::unsupported_feature:
    case ErrorCode::context_length_exceeded:
    case ErrorCode::template_error:
    case ErrorCode::template_budget:
    case ErrorCode::token_limit_exceeded:
      return true;
    default:
      return false;
  }
}

config::RequestSettings wanted_settings(const policy::Tree& tree, const policy::Target& target) {
  const config::RequestSettings* const settings = policy::settings_of(tree, target);
  return settings == nullptr ? config::RequestSettings{} : *settings;
}

bool is_loaded(const policy::Target& target, const policy::Facts& facts) {
  const policy::Fact* const loaded =
      facts.get(facts.targets()->fact_of(target.backend, policy::TargetFact::loaded));
  return loaded == nullptr || std::get<bool>(loaded->value);
}

// Where one engine's events for one choice arrive. Forgotten (the job moves on) before its ticket is
// destroyed.
class ChoiceSink final : public EventSink {
 public:
  ChoiceSink(std::weak_ptr<RunningJob> job, std::size_t choice, std::uint32_t attempt)
      : job_(std::move(job)), choice_(choice), attempt_(attempt) {}
  bool push(Event event) noexcept override {
    const auto job = job_.lock();
    return !job || job->on_event(choice_, attempt_, std::move(event));
  }

 private:
  std::weak_ptr<RunningJob> job_;
  std::size_t choice_;
  std::uint32_t attempt_;
};

}  // namespace

RunningJob::RunningJob(std::shared_ptr<Dispatcher::Impl> dispatcher, JobSpec spec,
                       Dispatcher::Admission admission, std::weak_ptr<JobObserver> observer)
    : dispatcher_(std::move(dispatcher)),
      spec_(std::move(spec)),
      number_(++dispatcher_->requests),
      arrival_(dispatcher_->turns->arrive(spec_.answers())),
      bill_(dispatcher_->app_limits, dispatcher_->journal, spec_.app.id, spec_.traits, admission.hand_over(),
            spec_.base.wanted, spec_.prompts, spec_.n, context_of(spec_.model)),
      observer_(std::move(observer)),
      receipt_(dispatcher_->receipts.add(begun_receipt(spec_))),
      reconsideration_(wanted_slo(spec_.app, spec_.traits)),
      admitted_(admission.at()),
      asked_(Clock::now()),
      started_(asked_),
      look_(dispatcher_->io),
      deadline_(dispatcher_->io),
      reconsider_(dispatcher_->io) {
  prints_ = std::move(spec_.prints);
  if (prints_.empty()) prints_ = dispatcher_->predictor.prints_of(spec_.prompts, spec_.app.id);
  // Its constraint was compiled meanwhile.
  if (spec_.base.constraint)
    spec_.traits.waited = std::chrono::duration_cast<std::chrono::milliseconds>(waited());
}

void RunningJob::start() {
  receipt_.in_line([weak = weak_from_this()]() -> std::optional<PlaceInLine> {
    if (const auto self = weak.lock())
      for (const Choice& choice : self->choices_)
        if (auto place = choice.place.in_line()) return place;
    return std::nullopt;
  });
  watch_deadline();
  decide();
}

void RunningJob::decide() {
  const Asked asked{prints_.front(), number_, arrival_};
  auto facts = dispatcher_->facts_for(spec_, asked);
  double took = dispatcher_->decide(spec_, facts);
  auto miss = dispatcher_->miss(spec_, facts);
  if (miss && ask_gate(*miss, facts)) {
    took += dispatcher_->decide(spec_, facts);
    miss.reset();
  }
  if (!miss && spec_.wants_answer()) background_load_ = dispatcher_->background_load(spec_, asked, facts);
  dispatcher_->record(std::move(facts), took, miss ? std::optional(slo_error(*miss)) : std::nullopt,
                      receipt_);
  if (!receipt().refused && !receipt().decision.target && receipt().decision.queue) {
    receipt_.parked();
    look_.expires_after(kParkedLook);
    look_.async_wait([weak = weak_from_this()](error_code ec) {
      if (const auto self = weak.lock(); self && !ec) self->look_again();
    });
    return;
  }
  begin_choices();
  if (!receipt().decision.target || receipt().refused || !spec_.wants_answer()) return;
  if (head_start_) return;  // it waits for nothing that another engine could do sooner
  const Outlook outlook = outlook_of(receipt().decision, receipt().facts, waited());
  reconsideration_.decided(outlook);
  watch(outlook);
}

// Asks the gate whether a request gets in that its hard SLO refuses on these facts. True: it does, and the
// facts say so.
bool RunningJob::ask_gate(const SloMiss& miss, policy::Facts& facts) {
  const std::string& nearest = miss.nearest->backend;
  refused_at_ = target_if_let_through(spec_.tree, nearest, facts);
  if (refused_at_ == nullptr) {
    refused_at_ = miss.nearest;
    return false;
  }
  // The outcome of an SLO that headers made stricter says nothing of the app's own.
  if (!is_own_slo(spec_.app, spec_.traits)) return false;
  // A probe that waits for a load would miss the SLO for the load alone.
  if (!is_loaded(*refused_at_, facts)) return false;
  const auto answer = dispatcher_->slo_gate.ask(
      spec_.app.id, spec_.model.id, dispatcher_->predictor.idle_since(spec_.model.id, refused_at_->backend),
      slo_ratio(*refused_at_, facts), Clock::now());
  if (!answer) {
    retry_after_ms_ = answer.error().retry_after ? answer.error().retry_after->count() : -1;
    return false;
  }
  pass_ = *answer;
  spec_.let_through =
      LetThrough{nearest, "at " + to_string(*refused_at_) + " " + to_text(*answer) +
                              ", although no usable engine is predicted to hold the SLO: " + miss.text};
  set_let_through(*spec_.let_through, facts);
  return true;
}

// Tells the gate whether a request that it let in held the SLO, once that is known or the request is over.
void RunningJob::tell_gate() {
  if (!pass_) return;
  times_.total = waited();
  const config::Slo slo = wanted_slo(spec_.app, spec_.traits);
  const auto held = slo_held(slo, times_);
  if (!held && !over_) {
    if (slo_held_so_far(slo, times_))
      dispatcher_->slo_gate.held_so_far(spec_.app.id, spec_.model.id, *pass_, Clock::now());
    return;
  }
  dispatcher_->slo_gate.ended(spec_.app.id, spec_.model.id, *std::exchange(pass_, std::nullopt),
                              !held   ? SloGate::Outcome::unknown
                              : *held ? SloGate::Outcome::held
                                      : SloGate::Outcome::missed,
                              Clock::now());
}

void RunningJob::look_again() {
  if (over_) return;
  spec_.traits.waited = std::chrono::duration_cast<std::chrono::milliseconds>(waited());
  if (Clock::now() - admitted_ < kParkedLimit) {
    decide();
    return;
  }
  fail_all(nothing_to_ask("No engine of the policy's choice became available in time."));
}

// An engine that the policy wants and that was disabled for dying is a fault of this machine with a known
// cause, and no word about the policy: the client reads model_unavailable and why.
Error RunningJob::nothing_to_ask(std::string otherwise) const {
  const auto workers = dispatcher_->fleet.status();
  for (const policy::TargetTrace& considered : receipt().decision.targets) {
    if (!considered.target || considered.verdict != policy::Verdict::unavailable) continue;
    for (const fleet::WorkerStatus& worker : workers)
      if (worker.state == fleet::WorkerState::disabled && worker.model == spec_.model.id &&
          worker.backend == considered.target->backend)
        return {ErrorCode::model_unavailable, worker.last_error, {}, {}};
  }
  std::vector<std::string> why;
  for (const policy::TargetTrace& considered : receipt().decision.targets) {
    if (!considered.target) continue;
    const bool missed = considered.verdict == policy::Verdict::available;
    std::string one = considered.target->backend + (considered.denied_by != nullptr
                                                        ? " is denied by " + considered.denied_by->id
                                                    : missed ? std::string(" would miss the SLO")
                                                             : std::string(" is not available"));
    if (std::ranges::find(why, one) == why.end()) why.push_back(std::move(one));
  }
  otherwise += " Model " + spec_.model.id;
  for (std::size_t i = 0; i < why.size(); ++i) otherwise += (i == 0 ? ": " : ", ") + why[i];
  return {ErrorCode::no_target, otherwise + ".", {}, {}};
}

void RunningJob::begin_choices() {
  auto targets = possible_targets(receipt().decision, reconsideration_.left());
  unfinished_ = spec_.answers();
  // Rows of logits of a prompt that is scored are not resumed half-way, and answers to one request begin
  // alike.
  if (unfinished_ == 1 && spec_.wants_answer() && !spec_.base.echo && !receipt().refused)
    head_start_ = head_start_of(receipt().decision, receipt().facts, targets,
                                static_cast<double>(estimated_tokens(spec_.prompts.front())));
  if (head_start_) {
    receipt_.head_start(head_start_->text());
    std::ranges::stable_partition(targets, [&](const policy::Target* t) { return t == head_start_->from; });
    targets.push_back(head_start_->from);  // where it goes back to if the others fail
  }
  choices_.reserve(unfinished_);  // engines hold no pointers into it, act() below holds references
  for (std::size_t i = 0; i < unfinished_; ++i) {
    choices_.emplace_back(targets);
    if (!targets.empty() && !receipt().refused) foresee(i, *targets.front());
  }
  // From the io_context, so that the observer never hears of a failure inside submit().
  asio::post(dispatcher_->io, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->asked_ = Clock::now();
    if (self->receipt().refused) {
      self->warm_up();
      return self->fail_all(*self->receipt().refused);
    }
    if (!self->receipt().decision.target)
      return self->fail_all(self->nothing_to_ask("The policy names no engine that is available now."));
    self->begin_from(0);
    self->wait_for_chosen();
    self->load_in_background();
  });
}

TurnRequest RunningJob::turn_at(const policy::Target& target, std::size_t index, bool goes_on) const {
  const config::AppManifest& app = spec_.app;
  return {spec_.model.id,
          target.backend,
          spec_.model.max_sequences,
          app.id,
          app.weight() / 100.0,
          static_cast<double>(estimated_tokens(spec_.prompts[index / spec_.n])),
          goes_on,
          arrival_ + index,
          is_behind(target)};
}

// The chosen engine loads the model while the answer is computed elsewhere.
void RunningJob::wait_for_chosen() {
  if (over_ || !head_start_) return;
  chosen_place_ = dispatcher_->turns->ask(turn_at(*head_start_->to, 0, false), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->chosen_turn();
  });
}

void RunningJob::chosen_turn() {
  if (over_ || !head_start_) return;
  dispatcher_->fleet.acquire(spec_.model.id, head_start_->to->backend,
                             [weak = weak_from_this()](Result<Backend*> got) {
                               if (const auto self = weak.lock()) self->chosen_ready(std::move(got));
                             },
                             {spec_.app.id, spec_.app.limits.may_evict, spec_.app.limits.resident});
}

// The answer goes on without the chosen engine, or waits for it as any other would.
void RunningJob::end_head_start(const std::string& why) {
  if (!head_start_) return;
  receipt_.head_start(head_start_->text() + "; " + why);
  chosen_place_.settle(0);
  chosen_place_ = {};
  head_start_.reset();
}

// True where the answer, which is computed elsewhere, goes on at its chosen engine, which is ready.
bool RunningJob::moves_to(const Backend& backend) {
  const Choice& choice = choices_.front();
  const BackendInfo& there = backend.info();
  return !choice.done && there.context_length >= choice.context &&
         choice.attempt.can_go_on_with(there.digest) &&
         head_start_->goes_on(bill_.usage().prompt_tokens, choice.attempt.resume_tokens().size());
}

void RunningJob::chosen_ready(Result<Backend*> backend) {
  if (over_ || !head_start_) return;
  Choice& choice = choices_.front();
  if (!backend) return end_head_start("it stays there: " + backend.error().message);
  if (!moves_to(**backend)) return end_head_start("it stays there, where it should end first");
  const policy::Target& to = *std::exchange(head_start_, std::nullopt)->to;
  receipt_.attempt_ended(choice.record, RunState::Kind::moved);
  bill_.failed(0);
  if (!choice.begun) choice.place.settle(0);
  choice.begun = false;
  retire(std::move(choice.ticket));
  choice.attempt.move_to(to);
  choice.place = std::move(chosen_place_);
  choice.placed_at = to.backend;
  choice.ask = ++asks_;  // an engine that it still waits for gets no request
  foresee(0, to);
  choice.record = receipt_.attempt(to, 0, static_cast<std::uint32_t>(choice.attempt.resume_tokens().size()));
  start_on(0, **backend);
}

// Behind the start of its first answer, so that no process is spawned before the request is sent.
void RunningJob::load_in_background() {
  const auto load = std::exchange(background_load_, std::nullopt);
  if (load && !over_ && dispatcher_->begin(*load, spec_))
    receipt_.background_load(background_load_text(*load, true));
}

// An engine that is refused for its load would never be loaded, and never hold the SLO.
void RunningJob::warm_up() {
  if (refused_at_ == nullptr || is_loaded(*refused_at_, receipt().facts)) return;
  dispatcher_->fleet.acquire(spec_.model.id, refused_at_->backend, [](const Result<Backend*>&) {},
                             {spec_.app.id, spec_.app.limits.may_evict, spec_.app.limits.resident});
}

// The predictor counts the answer among those at that engine.
void RunningJob::foresee(std::size_t index, const policy::Target& target) {
  if (!spec_.wants_answer()) return;
  Choice& choice = choices_[index];
  const std::string& backend = target.backend;
  const bool came_before = !choice.predicted_at.empty();
  choice.predicted = {};
  choice.predicted_at = backend;
  const Asked asked{prints_[index / spec_.n], number_, arrival_};
  predict::Query query = query_of(spec_, asked, std::chrono::steady_clock::now());
  query.settings = wanted_settings(spec_.tree, target);
  std::optional<predict::LineState> line;
  FairQueue::Coming coming = coming_of(spec_, asked);
  coming.behind = is_behind(target);
  if (index == 0) line = dispatcher_->turns->forecast(spec_.model.id, backend, coming);
  if (line) query.lines = {&*line, 1};  // the times of the first answer are judged
  const bool goes_on = !choice.attempt.resume_tokens().empty();
  const bool scored = spec_.base.echo && spec_.base.sampling.top_logprobs >= 0;
  choice.predicted = dispatcher_->predictor.enter(
      {query, backend, receipt().facts, index == 0, goes_on, came_before, scored});
}

// Begins as many choices as one turn of the loop has time for; the next turns begin the others.
void RunningJob::begin_from(std::size_t index) {
  for (std::uint64_t copied = 0; index < choices_.size() && !over_; ++index) {
    if (copied > kCopiedInATurn) {
      asio::post(dispatcher_->io, [weak = weak_from_this(), index] {
        if (const auto self = weak.lock()) self->begin_from(index);
      });
      return;
    }
    copied += estimated_tokens(spec_.prompts[index / spec_.n]);
    if (spec_.base.constraint)
      copied += spec_.base.constraint->source.bytes().size() / predict::PromptTokens::kBytesPerToken;
    act(index, choices_[index].attempt.begin());
  }
}

void RunningJob::watch_deadline() {
  if (!spec_.app.slo.deadline) return;
  deadline_.expires_at(admitted_ + *spec_.app.slo.deadline);
  deadline_.async_wait([weak = weak_from_this()](error_code ec) {
    const auto self = weak.lock();
    if (!self || ec || self->over_ || self->times_.ttft) return;  // an answer that has begun is finished
    self->fail_all({ErrorCode::deadline_exceeded,
                    "The app's deadline passed before an engine gave the first token.",
                    {},
                    {}});
  });
}

std::chrono::microseconds RunningJob::waited() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - admitted_);
}

// Every answer stands in line or waits for a load, at the engine of the decision. A request that fell back to
// another target is not decided again: the policy would send it to the engine that has just failed it.
bool RunningJob::only_waits() const {
  return !over_ && !had_event_ && std::ranges::all_of(choices_, [](const Choice& choice) {
    return choice.attempt.attempts() == 1 && !choice.begun && !choice.done;
  });
}

void RunningJob::watch(const Outlook& outlook) {
  const auto next = reconsideration_.until_look(outlook);
  if (!next) return;
  reconsider_.expires_after(*next);
  reconsider_.async_wait([weak = weak_from_this()](error_code ec) {
    if (const auto self = weak.lock(); self && !ec) self->reconsider();
  });
}

void RunningJob::reconsider() {
  if (!only_waits()) return;
  const std::chrono::microseconds so_far = waited();
  spec_.traits.waited = std::chrono::duration_cast<std::chrono::milliseconds>(so_far);
  const policy::Decision& decision = receipt().decision;
  auto facts = dispatcher_->facts_for(
      spec_, {prints_.front(), number_, arrival_, own_line(), reconsideration_.left()});
  const Outlook now = outlook_of(decision, facts, so_far);
  if (auto why = reconsideration_.reason(now)) return decide_again(std::move(facts), so_far, std::move(*why));
  watch(now);
}

// The engine in whose line its answers stand. "": none does yet.
std::string_view RunningJob::own_line() const {
  const bool stands = std::ranges::any_of(choices_, [](const Choice& choice) { return bool{choice.place}; });
  return stands ? std::string_view(receipt().decision.target->backend) : std::string_view();
}

bool RunningJob::is_behind(const policy::Target& target) const {
  return wanted_settings(spec_.tree, target).place == config::QueuePlace::behind;
}

// The request gives its places up if another engine is chosen that it does not stay against, or its own one
// with another line. It stays if its own line is chosen, or none.
void RunningJob::decide_again(policy::Facts facts, std::chrono::microseconds so_far, std::string why) {
  const policy::Target& from = *receipt().decision.target;
  const double took = dispatcher_->decide(spec_, facts);
  const policy::Decision& again = dispatcher_->deciding;
  const bool follows = again.target != nullptr && !stays_against(again, facts, from.backend);
  const policy::Target& to = follows ? *again.target : from;
  receipt_.redecided(
      {static_cast<double>(so_far.count()) / 1e3, to_string(from), to_string(to), std::move(why)});
  dispatcher_->metrics.redecided(from.backend, to.backend);
  const Outlook outlook = outlook_of(follows ? again : receipt().decision, facts, so_far);
  auto refused = dispatcher_->refusal(spec_, facts);
  if (follows || refused) dispatcher_->record(std::move(facts), took, refused, receipt_);
  if (refused) return fail_all(*refused);
  reconsideration_.decided(outlook);
  const auto targets = possible_targets(receipt().decision, reconsideration_.left());
  if (to.backend == from.backend && is_behind(to) == is_behind(from)) {
    for (Choice& choice : choices_) {
      choice.attempt.decided_again(targets);
      choice.predicted.asks(wanted_settings(spec_.tree, *targets.front()));
    }
  } else {
    for (Choice& choice : choices_) {
      receipt_.attempt_ended(choice.record, RunState::Kind::moved);
      choice.place.settle(0);
      choice = Choice(targets);
    }
    begin_from(0);
  }
  watch(outlook);
}

void RunningJob::act(std::size_t index, Attempt::Action action) {
  if (over_) return;
  if (auto* give_up = std::get_if<Attempt::GiveUp>(&action)) {
    fail_all(give_up->error);
    return;
  }
  Choice& choice = choices_[index];
  const policy::Target& target = *std::get<Attempt::Acquire>(action).target;
  const std::string& backend = target.backend;
  if (choice.attempt.attempts() > 1) {
    const std::string& from = receipt().attempts[choice.record].backend;
    if (from != backend) dispatcher_->metrics.fell_back(from, backend);
  }
  if (choice.attempt.attempts() > 1 || choice.predicted_at != backend) foresee(index, target);
  choice.record = receipt_.attempt(target, static_cast<std::uint32_t>(index),
                                   static_cast<std::uint32_t>(choice.attempt.resume_tokens().size()));
  choice.ask = ++asks_;
  if (choice.place && choice.placed_at == backend) return acquire(index, choice.ask);
  if (head_start_ && head_start_->to->backend == backend)
    end_head_start("the engine that it began at failed");
  const bool goes_on = choice.place && (choice.begun || !choice.attempt.resume_tokens().empty());
  choice.placed_at = backend;
  // Its engine has a thread beside the steps for it: it need not wait until an answer ends.
  if (!spec_.wants_answer()) return acquire(index, choice.ask);
  choice.place = dispatcher_->turns->ask(turn_at(target, index, goes_on),
                                         [weak = weak_from_this(), index, ask = choice.ask] {
                                           if (const auto self = weak.lock()) self->acquire(index, ask);
                                         });
}

// Its turn has come.
void RunningJob::acquire(std::size_t index, std::uint64_t ask) {
  if (over_) return;
  dispatcher_->fleet.acquire(spec_.model.id, choices_[index].placed_at,
                             [weak = weak_from_this(), index, ask](Result<Backend*> got) {
                               if (const auto self = weak.lock()) self->acquired(index, ask, std::move(got));
                             },
                             {spec_.app.id, spec_.app.limits.may_evict, spec_.app.limits.resident});
}

void RunningJob::acquired(std::size_t index, std::uint64_t ask, Result<Backend*> backend) {
  if (over_ || choices_[index].ask != ask) return;
  if (backend) {
    start_on(index, **backend);
    return;
  }
  Error error = std::move(backend.error());
  if (error.code == ErrorCode::model_invalid || error.code == ErrorCode::model_unsupported)
    error.message = "Model " + spec_.model.id + ": " + error.message;
  refused(index, error);
}

// By the fleet or by the engine, before it began there.
void RunningJob::refused(std::size_t index, const Error& error) {
  Choice& choice = choices_[index];
  choice.people = {};
  receipt_.attempt_ended(choice.record, RunState::failed(error.code));
  if (!choice.begun) choice.place.settle(0);
  choice.predicted.failed();
  act(index, choice.attempt.unavailable(error));
}

// An engine that yields is no reason for it to yield.
People::Place RunningJob::people_at(const policy::Target& target) const {
  const policy::TargetInstance* const instance = spec_.tree.targets->find(target.backend);
  const bool waits = spec_.wants_answer() && !is_behind(target) &&
                     spec_.app.is_interactive(wanted_slo(spec_.app, spec_.traits));
  if (!waits || instance == nullptr || instance->remote || instance->settings.yields) return {};
  return dispatcher_->people->at(target.backend);
}

void RunningJob::start_on(std::size_t index, Backend& backend) {
  Choice& choice = choices_[index];
  if (auto given_up = choice.attempt.starts_on(backend.info().digest)) {
    receipt_.attempt_ended(choice.record, RunState::failed(given_up->error.code));
    return act(index, std::move(*given_up));
  }
  const std::uint32_t attempt = choice.attempt.attempts();
  CompletionRequest request = spec_.base;
  request.prompt = spec_.prompts[index / spec_.n];
  if (auto* const chat = std::get_if<ChatPrompt>(&request.prompt))
    chat->control_tokens_in_content = spec_.app.chat.control_tokens_in_content;
  request.sampling.seed += index;  // wraps; every answer has its own draw
  // A new id for each attempt: an engine may still be letting go of the last one.
  request.owner = spec_.app.id;
  request.id = spec_.id + "/" + std::to_string(index) + "." + std::to_string(attempt);
  request.total_tokens = bill_.total_tokens();
  request.resume_tokens = choice.attempt.resume_tokens();
  request.resume_text_bytes = choice.attempt.text_bytes();
  request.resume_echo = choice.attempt.echoed();
  if (!had_event_) started_ = Clock::now();
  bill_.began(index);
  std::vector<std::string> devices;
  for (const DeviceShare& share : backend.info().devices) devices.push_back(to_string(share));
  const config::RequestSettings* const settings = policy::settings_of(spec_.tree, choice.attempt.target());
  if (settings != nullptr) request.settings = *settings;
  const policy::Profile* const profile = policy::profile_of(spec_.tree, choice.attempt.target());
  const bool sets = settings != nullptr || (profile != nullptr && profile->own_engine);
  receipt_.attempt_runs(choice.record, std::move(devices), sets ? policy::to_text(*profile) : "");
  const std::string& engine = choice.attempt.target().backend;
  if (!receipt_.knows_engine(engine, backend.info()))
    receipt_.engine(engine_record(engine, backend.info(), spec_));
  if (!spec_.app.keep.empty())
    receipt_.kept_prefixes(dispatcher_->kept.records_at(spec_.app.id, spec_.model.id, choice.placed_at));
  choice.predicted.began(Clock::now());
  choice.people = people_at(choice.attempt.target());
  auto ticket =
      backend.start(std::move(request), std::make_shared<ChoiceSink>(weak_from_this(), index, attempt));
  if (over_ || choice.done || choice.attempt.attempts() != attempt) {  // it all happened inside start()
    if (ticket) retire(std::move(*ticket));
    return;
  }
  if (!ticket) {
    bill_.failed(index);
    return refused(index, ticket.error());
  }
  choice.ticket = std::move(*ticket);
  choice.begun = true;
  choice.context = backend.info().context_length;
  dispatcher_->background_pace.served(spec_.model.id, choice.placed_at);
  dispatcher_->kept.used(spec_.app.id, spec_.model.id, choice.placed_at);
}

bool RunningJob::on_event(std::size_t index, std::uint32_t attempt, Event event) {
  Choice& choice = choices_[index];
  if (over_ || choice.done || choice.attempt.attempts() != attempt) return true;
  const auto observer = observer_.lock();
  if (auto* error = std::get_if<Error>(&event)) {
    bill_.failed(index);
    receipt_.attempt_ended(choice.record, RunState::failed(error->code));
    choice.people = {};
    retire(std::move(choice.ticket));
    if (!had_event_ && is_of_the_request(error->code)) choice.place.settle(0);
    act(index, choice.attempt.failed(*error));
    return true;
  }
  first_event();
  if (auto* delta = std::get_if<Delta>(&event)) {
    if (delta->echoed == 0) {
      answer_began();
      choice.times.received(delta->tokens.size(), waited(), times_);
    }
    tell_gate();
    choice.attempt.received(*delta);
    choice.place.generated(delta->tokens.size());
    choice.predicted.received(*delta, Clock::now());
    bill_.received(index, *delta);
    const bool keeps_up = !observer || observer->on_delta(index, *delta);
    dispatcher_->learn_later();
    return keeps_up;
  }
  Done& done = std::get<Done>(event);
  if (done.reason == FinishReason::cancelled) {  // the engine was told to drain; nobody here cancelled
    fail_all({ErrorCode::shutting_down, "The engine is shutting down.", {}, {}});
    return true;
  }
  choice.done = true;
  answer_began();
  choice.times.ended(done.usage.completion_tokens, waited(), times_);
  bill_.done(index, done.usage);
  receipt_.used(bill_.usage());
  receipt_.constrained(done.timings);
  if (!done.kept.empty()) receipt_.began_with(done.kept, done.kept_tokens);
  receipt_.attempt_ended(choice.record, RunState::Kind::done);
  choice.place.settle(done.usage.prompt_tokens -
                      std::min(done.usage.cached_tokens, done.usage.prompt_tokens));
  choice.place = {};
  choice.people = {};
  choice.predicted.finished(done.usage, done.timings, Clock::now());
  retire(std::move(choice.ticket));
  receipt_.queued(seconds_between(admitted_, started_) * 1e3 +
                  static_cast<double>(done.timings.queue_us) / 1e3);
  if (--unfinished_ == 0) finish(RunState::Kind::done);
  if (observer) observer->on_done(index, done);
  dispatcher_->learn_later();
  return true;
}

void RunningJob::first_event() {
  if (had_event_) return;
  had_event_ = true;
  reconsider_.cancel();
  receipt_.first_event();
  --dispatcher_->waiting;
  ++dispatcher_->running;
  dispatcher_->waiting_answers -= spec_.answers();
  bill_.waits_no_longer();
}

// Its first token has come, behind an echo of the prompt; or its end, where it has none.
void RunningJob::answer_began() {
  if (times_.ttft) return;
  times_.ttft = waited();
  deadline_.cancel();
}

void RunningJob::resume() {
  for (std::size_t i = 0; i < choices_.size() && !over_; ++i) choices_[i].ticket.resume();
}

const std::string& RunningJob::backend() const noexcept {
  return choices_.empty() || receipt().attempts.empty() ? kNone : choices_.front().attempt.target().backend;
}

void RunningJob::fail_all(const Error& error) {
  if (over_) return;
  finish(RunState::failed(error.code));
  if (const auto observer = observer_.lock()) observer->on_error(error);
}

void RunningJob::finish(const RunState& state) {
  if (over_) return;
  over_ = true;
  times_.complete = state.kind() == RunState::Kind::done;
  tell_gate();
  look_.cancel();
  deadline_.cancel();
  reconsider_.cancel();
  end_head_start(times_.complete ? "it ended there first" : "the request ended first");
  receipt_.ended(state, seconds_between(admitted_, Clock::now()) * 1e3, bill_.usage());
  for (Choice& choice : choices_) {
    if (!choice.begun) choice.place.settle(0);
    choice.place = {};
    choice.people = {};
    choice.predicted = {};
    retire(std::move(choice.ticket));
  }
  --(had_event_ ? dispatcher_->running : dispatcher_->waiting);
  if (!had_event_) dispatcher_->waiting_answers -= spec_.answers();
  bill_.close(state);
}

void RunningJob::retire(Ticket ticket) {
  if (ticket) dispatcher_->retire(std::move(ticket));
}

}  // namespace flyball::route
