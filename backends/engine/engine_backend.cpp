#include "backends/engine/engine_backend.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/engine/automaton_cache.hpp"
#include "backends/engine/cold_kv.hpp"
#include "backends/engine/constraint_cache.hpp"
#include "backends/engine/engine_shared.hpp"
#include "backends/engine/kept_prefixes.hpp"
#include "backends/engine/mailbox.hpp"
#include "backends/engine/sequence.hpp"
#include "backends/engine/step_budget.hpp"
#include "backends/text/answer_form.hpp"
#include "config/engine_settings.hpp"

namespace flyball::engine {
namespace {

// After drain's deadline the engine has this long to get out of the step it is in.
constexpr std::chrono::seconds kCancelGrace{5};
// At the end, for what the disk has not yet: whoever told the engine to end kills it a second after its
// deadline.
constexpr std::chrono::milliseconds kSaveGrace{800};
// Of each step while a sequence's beginning is brought back: others' next tokens wait for it.
constexpr std::chrono::milliseconds kRestoreSlice{10};
// A step is not learned from if its masks took a larger share of its time and may have outlasted the device.
constexpr double kMaskShare = 0.1;
// The states of kept prefixes are told at most so often: each asks for all their blocks.
constexpr std::chrono::seconds kKeptPrefixesTold{1};
// Most commands of one request that can wait at once: submit, resume, cancel; twice, because a step that ends
// requests makes room for others before their commands are read.
constexpr std::size_t kCommandsPerRequest = 6;

// Added by the threads that prepare large prompts and compile constraints to the engine's niceness. On a
// shared processor it gets about a tenth of the share of a thread of the CPU engine or of the other lane:
// their steps lengthen by no more, and it never starves.
constexpr int kSlowLaneNice = 10;

Error shutting_down() {
  return {ErrorCode::shutting_down, "The engine is shutting down.", {}, {}};
}
Error device_lost() {
  return {ErrorCode::device_lost, "The engine has lost its device.", {}, {}};
}

// Short enough for std::string to hold it without memory.
Error out_of_memory() {
  return {ErrorCode::insufficient_memory, "Out of memory.", {}, {}};
}

// The engine thread's own: scheduler, KV books, device, sequences.
class Engine {
 public:
  Engine(EngineParts& parts, Shared& shared)
      : executor_(*parts.executor),
        vocab_size_(parts.text.vocab_size),
        logits_per_row_(parts.logits_per_row),
        limits_(parts.limits),
        yields_(parts.yields && executor_.can_stop()),
        cold_(parts.spill ? std::make_unique<ColdKv>(executor_, *parts.spill) : nullptr),
        cold_after_(parts.spill_after),
        scheduler_(parts.limits, cold_.get()),
        kept_(parts.limits.kv_blocks, parts.limits.block_size, parts.limits.keyed),
        observer_(std::move(parts.observer)),
        shared_(shared) {}

  void run() {
    bool idle = true;
    while (true) {
      shared_.called = false;  // before looking: who calls later stops the step that may be stopped
      for (Command& command : next_commands(idle)) {
        if (command.kind == Command::Kind::stop) {
          end_all(shutting_down());
          return;
        }
        try {
          apply(command);
        } catch (const std::bad_alloc&) {  // giving blocks back keeps books, too
          start_over();
        }
      }
      idle = shared_.held || !step();
      publish();
      if (!idle) {
        kept_changed_ |= !kept_.empty();
        audit_due_ = true;
        if (cold_) cold_->work_was_done();
      } else if (std::exchange(audit_due_, false) && sequences_.empty()) {
        audit();
      }
      tell_kept_prefixes(idle);
    }
  }

 private:
  void apply(Command& command) {
    switch (command.kind) {
      case Command::Kind::submit:
        submit(std::move(command.sequence));
        break;
      case Command::Kind::cancel:
        drop(command.delivery->sequence);
        break;
      case Command::Kind::resume:
        if (const auto it = sequences_.find(command.delivery->sequence); it != sequences_.end()) {
          it->second->delivery().resume_seen();
          scheduler_.resume(it->first);
        }
        break;
      case Command::Kind::drop_prefix:
        kept_.drop(scheduler_, command.prefix->owner, command.prefix->name);
        kept_changed_ = true;
        break;
      case Command::Kind::end_all:
        end_all(shutting_down());
        break;
      case Command::Kind::save:
        if (cold_) cold_->save_all(scheduler_.kv(), command.until);
        shared_.set_saved();
        break;
      case Command::Kind::look:
        break;
      case Command::Kind::stop:
        break;  // handled by run()
    }
  }

  // Where there is no work for a while, what has been computed goes to the disk, a little at a time.
  std::vector<Command>& next_commands(bool idle) {
    if (!idle || !cold_ || !cold_->has_unsaved() || shared_.held) return shared_.commands.take(idle);
    auto& commands =
        shared_.commands.take_within(cold_->saving() ? std::chrono::milliseconds(0) : cold_after_);
    if (commands.empty()) {
      cold_->save_some(scheduler_.kv());
      kept_changed_ |= !kept_.empty() && !cold_->has_unsaved();
    }
    return commands;
  }

  // The scheduler takes ids for the order of arrival: they rise here, whatever took how long to prepare.
  void submit(std::unique_ptr<Sequence> sequence) {
    sequence->id = sequence->delivery().sequence = ++last_id_;
    try {
      if (auto refused = try_submit(sequence)) refuse(*sequence, std::move(*refused));
    } catch (const std::bad_alloc&) {
      scheduler_.cancel(sequence->id);
      refuse(*sequence, out_of_memory());
    }
  }
  void refuse(Sequence& sequence, Event last) {
    sequence.delivery().finish(std::move(last));
    shared_.settle();
  }

  // The event that ends it at once, if any; otherwise it is taken.
  std::optional<Event> try_submit(std::unique_ptr<Sequence>& sequence) {
    // Nobody hears that one which was cancelled while it was prepared is refused.
    if (shared_.ending || sequence->delivery().closed()) return shutting_down();
    if (shared_.lost) return device_lost();
    // One that came before the request was here has found nobody; the next one must not wait for it.
    const bool resumed = sequence->delivery().resume_seen();

    if (auto ok = sequence->begin_constraint(automata_); !ok) return std::move(ok.error());
    auto old = sequence->replay();
    if (!old) return std::move(old.error());
    bool behind = sequence->behind() && !resumed;
    if (!old->text.empty()) {
      Delta delta{std::move(old->text), {}, {}};
      delta.control = std::move(old->control);
      delta.form = sequence->form();
      behind = !sequence->delivery().push(std::move(delta));
    }
    if (old->finish) sequence->end_behind_echo(*old->finish);
    if (const auto reason = sequence->end()) return sequence->done(*reason);
    if (!sequence->kept().empty()) {
      kept_changed_ = true;
      if (auto ok = kept_.keep(scheduler_, sequence->owner(), sequence->kept(), sequence->kept_tokens(),
                               sequence->kept_limit());
          !ok)
        return std::move(ok.error());
    }
    const Sequence::Scored scored = sequence->scored();
    const bool spare = !sequence->kept().empty();
    if (auto ok = scheduler_.submit({sequence->id, sequence->owner(), sequence->take_tokens(),
                                     sequence->most(), sequence->settings(), scored.from, scored.to, spare});
        !ok)
      return std::move(ok.error());
    if (behind) scheduler_.pause(sequence->id);
    sequences_.emplace(sequence->id, std::move(sequence));
    return std::nullopt;
  }

  // False: nothing to do.
  bool step() {
    try {
      return try_step();
    } catch (const std::bad_alloc&) {
      start_over();
      return true;
    }
  }

  // Memory ran out in the middle of the books: what was open ends, and the books begin anew. Where there is
  // no memory for that either, the process ends, and the daemon starts another.
  void start_over() {
    scheduler_ = Scheduler(limits_, cold_.get());
    kept_.keep_again(scheduler_);
    while (!sequences_.empty()) {
      sequences_.begin()->second->delivery().finish(out_of_memory());
      forget(sequences_.begin()->first);
    }
  }

  bool try_step() {
    restore_some();
    StepTrace trace;
    trace.begin = std::chrono::steady_clock::now();
    const StepPlan plan = scheduler_.plan(step_budget(step_cost_.cost(), executor_.can_stop()));
    if (cold_) cold_->save_evicted(scheduler_.take_evicted());
    if (plan.empty()) return scheduler_.restoring();
    trace.work = plan.work;
    trace.expected = step_cost_.cost().of(plan.work);
    trace.may_stop = plan.may_stop;
    auto rows = compute(plan);
    if (!rows && (plan.may_stop || yields_) && rows.error().code == ErrorCode::cancelled) {
      scheduler_.retract();
      trace.stopped = true;
      observe(trace);
      return true;
    }
    shared_.steps.fetch_add(1);
    if (!rows) {
      fail_step(rows.error());
      return true;
    }

    results_.clear();
    behind_.clear();
    std::size_t whole = 0, cut = 0;
    for (std::size_t i = 0; i < batch_.size(); ++i) {  // as the plan has them
      const std::uint32_t n = batch_[i].n_wanted;
      if (n == 0) continue;
      const PlannedSequence& planned = plan.sequences[i];
      Sequence& sequence = *sequences_.at(planned.id);
      if (batch_[i].n_candidates > 0) {
        results_.push_back(deliver(sequence, rows->candidates[cut++]));
        continue;
      }
      const auto own = rows->logits.subspan(whole * logits_per_row_, std::size_t{n} * logits_per_row_);
      whole += n;
      const LogitRows scored{own.first(planned.n_scored * logits_per_row_), logits_per_row_, vocab_size_};
      if (auto ended = deliver_scores(sequence, scored))
        results_.push_back(std::move(*ended));
      else if (planned.want_logits)
        results_.push_back(deliver(sequence, own.last(logits_per_row_).first(vocab_size_)));
    }
    scheduler_.commit(results_);
    for (const StepResult& result : results_)
      if (result.ended) forget(result.id);
    for (const SequenceId id : behind_) scheduler_.pause(id);
    observe(trace);
    const double seconds = std::chrono::duration<double>(trace.end - trace.begin).count();
    if (mask_seconds_ < kMaskShare * seconds || waited_seconds_ > kMaskShare * seconds)
      step_cost_.measured(plan.work, seconds);
    return true;
  }
  void restore_some() {
    const TimePoint until = std::chrono::steady_clock::now() + kRestoreSlice;
    while (scheduler_.restoring()) {
      const auto next = scheduler_.next_restores(cold_->batch());
      Sequence& sequence = *sequences_.at(next.front().id);
      const TimePoint now = std::chrono::steady_clock::now();
      if (sequence.first_step == TimePoint{}) sequence.first_step = now;
      const std::uint32_t n = cold_->restore(next);
      scheduler_.restored(sequence.id, n, n < next.size());
      shared_.restored_tokens.fetch_add(std::uint64_t{n} * limits_.block_size);
      if (std::chrono::steady_clock::now() >= until) return;
    }
  }
  void observe(StepTrace& trace) const {
    trace.end = std::chrono::steady_clock::now();
    if (observer_) observer_(trace);
  }

  // The rows wanted, in the plan's order: whole, or where the device would have to copy them no more of them
  // than their sequences look at.
  Result<device::StepOutput> compute(const StepPlan& plan) {
    tokens_.clear();
    batch_.clear();
    copies_.clear();
    for (const PlannedCopy& copy : plan.copies) copies_.push_back({copy.from, copy.to});
    std::size_t whole = 0, cut = 0;
    const TimePoint now = std::chrono::steady_clock::now();
    for (const PlannedSequence& planned : plan.sequences) {
      Sequence& sequence = *sequences_.at(planned.id);
      if (sequence.first_step == TimePoint{}) sequence.first_step = now;
      if (!std::exchange(sequence.counted, true)) {
        sequence.cached_tokens = std::min(planned.first_position, sequence.prompt_tokens());
        shared_.prompt_tokens.fetch_add(sequence.prompt_tokens());
        shared_.cached_tokens.fetch_add(sequence.cached_tokens);
        note_prefix(sequence);
      }
      device::StepSequence s;
      s.first_token = static_cast<std::uint32_t>(tokens_.size());
      s.n_tokens = planned.n_tokens;
      s.first_position = planned.first_position;
      s.block_table = scheduler_.kv().table(planned.id);
      s.n_wanted = planned.n_scored + (planned.want_logits ? 1 : 0);
      if (const std::uint32_t n = sequence.candidates();
          planned.want_logits && planned.n_scored == 0 && n <= executor_.max_candidates()) {
        s.n_candidates = std::min(n, vocab_size_);
        s.want_exp_sum = sequence.wants_exp_sum();
      }
      batch_.push_back(s);
      const auto known = scheduler_.tokens(planned.id).subspan(planned.first_position, planned.n_tokens);
      tokens_.insert(tokens_.end(), known.begin(), known.end());
      (s.n_candidates > 0 ? cut : whole) += s.n_wanted;
    }
    try {
      auto id = executor_.submit({tokens_, batch_, vocab_size_, stop_of(plan)}, copies_);
      if (!id) return pass(id);
      make_masks(plan);  // while the device computes, if it does so beside this thread
      const auto waiting = std::chrono::steady_clock::now();
      auto rows = executor_.wait(*id);
      waited_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - waiting).count();
      if (rows && (rows->logits.size() != whole * logits_per_row_ || rows->candidates.size() != cut))
        return fail(ErrorCode::internal, "The device returned another number of logits than was asked for.");
      return rows;
    } catch (const std::bad_alloc&) {
      return std::unexpected(out_of_memory());
    } catch (const std::exception&) {  // a driver's; it does not get past the step
      return fail(ErrorCode::internal, "The device failed during a step.");
    }
  }

  // hold() sets both flags.
  const std::atomic<bool>* stop_of(const StepPlan& plan) const noexcept {
    return plan.may_stop ? &shared_.called : yields_ ? &shared_.held : nullptr;
  }

  // The kept prefix that the sequence, whose first step is planned, begins with.
  void note_prefix(Sequence& sequence) {
    if (kept_.empty() || !sequence.kept().empty()) return;
    const auto run = scheduler_.kv().prefix_of(sequence.id, sequence.owner(), sequence.cached_tokens);
    if (!run) return;
    sequence.prefix = run->name;
    sequence.prefix_tokens = run->blocks * limits_.block_size;
    kept_.used(sequence.owner(), run->name, sequence.prefix_tokens);
    kept_changed_ = true;
  }

  void make_masks(const StepPlan& plan) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (!plan.sequences[i].want_logits) continue;
      Sequence& sequence = *sequences_.at(plan.sequences[i].id);
      if (!sequence.delivery().closed()) sequence.make_mask();
    }
    mask_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // row: logits, or candidates.
  template <class Row>
  StepResult deliver(Sequence& sequence, const Row& row) {
    try {
      return try_deliver(sequence, row);
    } catch (const std::bad_alloc&) {
      sequence.delivery().finish(out_of_memory());
      return {.id = sequence.id, .ended = true};
    }
  }

  void push(Sequence& sequence, Delta delta) {
    if (!sequence.delivery().push(std::move(delta))) behind_.push_back(sequence.id);
  }

  void end_distrusted(Sequence& sequence) {
    sequence.delivery().finish(Error{
        ErrorCode::numeric_error, "The model's output is not a number; this request cannot go on.", {}, {}});
    if (cold_) cold_->forget(limits_.keyed->space, sequence.owner());
  }

  // The log probabilities of the prompt's tokens behind these rows, which may be none. Others wait meanwhile:
  // the rows count in the step's cost. Nothing: the sequence goes on.
  std::optional<StepResult> deliver_scores(Sequence& sequence, const LogitRows& rows) {
    if (rows.size() == 0) return std::nullopt;
    StepResult ended{.id = sequence.id, .ended = true};
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!decode::all_finite(rows[i])) {
        end_distrusted(sequence);
        ended.distrusted = true;
        return ended;
      }
    if (sequence.delivery().closed()) return ended;
    try {
      for (LogitRows left = rows; left.size() > 0;) {
        Delta delta = sequence.echo(scheduler_.tokens(sequence.id), left);
        left = left.from(delta.echoed);
        push(sequence, std::move(delta));
      }
      const auto reason = sequence.end();
      if (!reason) return std::nullopt;
      sequence.first_token = sequence.last_token = std::chrono::steady_clock::now();
      sequence.delivery().finish(sequence.done(*reason));
      return ended;
    } catch (const std::bad_alloc&) {
      sequence.delivery().finish(out_of_memory());
      return ended;
    }
  }

  template <class Row>
  StepResult try_deliver(Sequence& sequence, const Row& row) {
    StepResult result{.id = sequence.id, .ended = true};
    if (!decode::all_finite(row)) {
      end_distrusted(sequence);
      result.distrusted = true;
      return result;
    }
    if (sequence.delivery().closed()) return result;
    if (!sequence.kept().empty()) {  // its KV is computed, and that is all
      sequence.first_token = sequence.last_token = std::chrono::steady_clock::now();
      sequence.delivery().finish(sequence.done(FinishReason::stop));
      kept_changed_ = true;
      return result;
    }
    Delta delta;
    auto step = sequence.sample(row, scratch_, delta);
    if (!step) {
      sequence.delivery().finish(step.error());
      return result;
    }
    delta.text = std::move(step->text);
    delta.control = std::move(step->control);
    result.token = delta.tokens.front();
    result.forced.assign(delta.tokens.begin() + 1, delta.tokens.end());
    sequence.last_token = std::chrono::steady_clock::now();
    if (sequence.first_token == TimePoint{}) {
      sequence.first_token = sequence.last_token;
      delta.prompt_tokens = sequence.prompt_tokens();
      delta.cached_tokens = sequence.cached_tokens;
      delta.form = sequence.form();
    }
    shared_.completion_tokens.fetch_add(delta.tokens.size());
    push(sequence, std::move(delta));
    result.ended = step->finish.has_value();
    if (step->finish) sequence.delivery().finish(sequence.done(*step->finish));
    return result;
  }

  void fail_step(const Error& error) {
    // Before anybody hears of it: who tries again at once is refused.
    if (error.code == ErrorCode::device_lost) shared_.lost = true;
    for (const SequenceId id : scheduler_.abort()) {
      sequences_.at(id)->delivery().finish(error);
      forget(id);
    }
    if (shared_.lost) end_all(error);
  }

  void end_all(const Error& error) {
    while (!sequences_.empty()) {
      Delivery& delivery = sequences_.begin()->second->delivery();
      try {
        delivery.finish(error);
      } catch (const std::bad_alloc&) {
        delivery.finish(out_of_memory());
      }
      drop(sequences_.begin()->first);
    }
  }

  void drop(SequenceId id) {
    if (!sequences_.contains(id))
      return;  // it ended, or is being prepared: submit() will see that it is closed
    scheduler_.cancel(id);
    forget(id);
  }

  void forget(SequenceId id) {
    sequences_.erase(id);
    automata_.trim();
    publish();
    shared_.settle();
  }

  void publish() {
    shared_.running = scheduler_.running();
    shared_.kv_used = scheduler_.kv().used();
    shared_.preemptions = scheduler_.preemptions();
  }

  // Once in a while, and when work has ended that changed them.
  void tell_kept_prefixes(bool idle) {
    if (kept_.empty() && !kept_changed_) return;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now < kept_told_ + kKeptPrefixesTold && !(idle && kept_changed_)) return;
    try {
      const std::function<bool(const kv::ChainKey&)> on_disk = [this](const kv::ChainKey& key) {
        return cold_->knows(key);
      };
      shared_.set_kept_prefixes(
          kept_.states(scheduler_.kv(), cold_ ? on_disk : std::function<bool(const kv::ChainKey&)>()));
      kept_told_ = now;
      kept_changed_ = false;
    } catch (const std::bad_alloc&) {  // the next time, then
    }
  }

  // The books, once each time work has ended, after everybody has been told: it reads all that is kept.
  void audit() const {
    try {
      if (!scheduler_.balanced()) std::abort();
    } catch (const std::bad_alloc&) {  // the next time, then
    }
  }

  device::Executor& executor_;
  const std::uint32_t vocab_size_, logits_per_row_;
  const SchedulerLimits limits_;
  const bool yields_;                   // any step may be stopped
  const std::unique_ptr<ColdKv> cold_;  // null: nothing spills
  const std::chrono::milliseconds cold_after_;
  Scheduler scheduler_;
  KeptPrefixes kept_;
  bool kept_changed_ = false;
  TimePoint kept_told_{};
  const StepObserver observer_;
  bool audit_due_ = false;
  StepCostFit step_cost_{cost_guess()};
  Shared& shared_;
  AutomatonCache automata_;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  SequenceId last_id_ = 0;

  // Of a step; kept to reuse their memory.
  std::vector<Token> tokens_;
  std::vector<device::StepSequence> batch_;
  std::vector<device::BlockCopy> copies_;
  std::vector<StepResult> results_;
  std::vector<SequenceId> behind_;
  double mask_seconds_ = 0, waited_seconds_ = 0;
  decode::SamplerScratch scratch_;
};

class EngineBackend final : public Backend {
 public:
  explicit EngineBackend(EngineParts parts)
      : parts_(std::move(parts)), shared_(std::make_shared<Shared>()), engine_(parts_, *shared_) {
    shared_->commands.reserve(kCommandsPerRequest * max_open());
    engine_thread_ = std::thread([this] { engine_.run(); });
    small_thread_ = std::thread([this] { prepare_requests(LaneId::small); });
    large_thread_ = std::thread([this] {
      yield_to_others();
      prepare_requests(LaneId::large);
    });
    constraint_thread_ = std::thread([this] {
      yield_to_others();
      compile_constraints();
    });
  }

  ~EngineBackend() override {
    shared_->refusing = true;
    shared_->ending = true;
    shared_->to_prepare.end(LaneId::constraints);
    constraint_thread_.join();  // it fills the other lanes
    shared_->to_prepare.end(LaneId::small);
    shared_->to_prepare.end(LaneId::large);
    small_thread_.join();
    large_thread_.join();
    shared_->order({Command::Kind::stop, nullptr, nullptr, {}});
    engine_thread_.join();
  }

  const BackendInfo& info() const override { return parts_.info; }

  BackendLoad load() const noexcept override {
    BackendLoad load;
    load.running = shared_->running;
    const std::uint32_t open = shared_->open();
    load.waiting = open > load.running ? open - load.running : 0;
    load.kv_blocks_total = parts_.limits.kv_blocks;
    load.kv_blocks_used = shared_->kv_used;
    load.steps = shared_->steps;
    load.prompt_tokens = shared_->prompt_tokens;
    load.cached_tokens = shared_->cached_tokens;
    load.completion_tokens = shared_->completion_tokens;
    load.preemptions = shared_->preemptions;
    if (parts_.spill) {
      load.spills = parts_.spill->on();
      load.spilled_bytes = parts_.spill->counts().bytes;
    }
    load.restored_tokens = shared_->restored_tokens;
    return load;
  }

  Result<Ticket> start(CompletionRequest request, std::shared_ptr<EventSink> sink) override {
    const TimePoint arrived = std::chrono::steady_clock::now();
    if (shared_->refusing) return std::unexpected(shutting_down());
    if (shared_->lost) return std::unexpected(device_lost());
    if (auto ok = check_request(request, parts_.text); !ok) return pass(ok);
    if (!shared_->reserve(max_open()))
      return fail(ErrorCode::overloaded, "The engine's queue is full: " +
                                             std::to_string(parts_.limits.max_waiting) + " requests wait.");
    try {
      // Looked at again, because drain may have begun meanwhile: it waits for what is reserved before.
      if (!shared_->refusing) return enqueue(std::move(request), std::move(sink), arrived);
    } catch (const std::bad_alloc&) {
      shared_->settle();
      return std::unexpected(out_of_memory());
    }
    shared_->settle();
    return std::unexpected(shutting_down());
  }

  std::vector<KeptPrefixState> kept_prefixes() const override { return shared_->kept_prefixes(); }

  void drop_kept_prefix(const std::string& owner, const std::string& name) override {
    try {
      auto prefix = std::make_unique<const Command::Prefix>(Command::Prefix{owner, name});
      shared_->order({Command::Kind::drop_prefix, nullptr, nullptr, {}, std::move(prefix)});
    } catch (const std::bad_alloc&) {  // it stays among what is evicted last
    }
  }

  void hold(bool held) override {
    shared_->held = held;
    try {
      shared_->order({Command::Kind::look, nullptr, nullptr, {}});
    } catch (const std::bad_alloc&) {
      shared_->called = true;  // the next command has it look
    }
  }

  void drain(TimePoint deadline) override {
    shared_->refusing = true;
    if (!shared_->wait_idle(deadline)) {
      shared_->ending = true;
      shared_->order({Command::Kind::end_all, nullptr, nullptr, {}});
      if (!shared_->wait_idle(std::chrono::steady_clock::now() + kCancelGrace)) return;
    }
    if (!parts_.spill || shared_->lost) return;
    const TimePoint least = std::min(deadline, std::chrono::steady_clock::now()) + kSaveGrace;
    shared_->order({Command::Kind::save, nullptr, nullptr, std::max(deadline, least)});
    shared_->wait_saved();
  }

 private:
  std::uint32_t max_open() const noexcept { return parts_.limits.max_waiting + parts_.limits.max_sequences; }

  Ticket enqueue(CompletionRequest request, std::shared_ptr<EventSink> sink, TimePoint arrived) {
    auto delivery = std::make_shared<Delivery>(std::move(sink));
    auto ticket = std::make_unique<EngineTicket>(shared_, delivery);
    const LaneId lane = request.constraint ? LaneId::constraints : lane_of(text_bytes(request.prompt));
    shared_->to_prepare.put(lane, {std::move(request), std::move(delivery), arrived});
    return Ticket(std::move(ticket));
  }

  // On Linux the priority is the thread's alone. Without it the work is done all the same. The thread begins
  // with the niceness of the process, which an engine of its own may have been given.
  static void yield_to_others() noexcept {
    const auto thread = static_cast<id_t>(::gettid());
    const int nice = std::min<int>(::getpriority(PRIO_PROCESS, thread) + kSlowLaneNice, config::kMaxNice);
    [[maybe_unused]] const int ignored = ::setpriority(PRIO_PROCESS, thread, nice);
  }

  void compile_constraints() {
    ConstraintCache cache(
        *parts_.text.tokenizer, parts_.text.vocab_size,
        parts_.text.chat_template ? parts_.text.chat_template->answer_form() : AnswerForm{});
    while (auto waiting = shared_->to_prepare.take(LaneId::constraints)) {
      const std::shared_ptr<Delivery> delivery = waiting->delivery;
      if (auto error = compile_one(cache, *waiting)) end(*delivery, std::move(*error));
    }
  }

  // The error that ends it, if any; otherwise another lane has it.
  std::optional<Error> compile_one(ConstraintCache& cache, Waiting& waiting) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      if (auto error = why_not(waiting)) return error;
      auto compiled =
          cache.compiled(waiting.request.owner, *waiting.request.constraint, waiting.request.marks_control);
      if (!compiled) return std::move(compiled.error());
      waiting.request.constraint->source = {};  // no more is read of it
      waiting.constraint = std::move(*compiled);
      waiting.compile_us = static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin)
              .count());
      shared_->to_prepare.put(lane_of(text_bytes(waiting.request.prompt)), std::move(waiting));
      return std::nullopt;
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  }

  void prepare_requests(LaneId lane) {
    while (auto waiting = shared_->to_prepare.take(lane))
      if (auto error = prepare_one(*waiting)) end(*waiting->delivery, std::move(*error));
  }

  void end(Delivery& delivery, Error error) {
    delivery.finish(std::move(error));
    shared_->settle();
  }

  // Why there is no work to do for it any more, if so.
  std::optional<Error> why_not(const Waiting& waiting) const {
    if (waiting.delivery->closed()) return Error{ErrorCode::cancelled, "The request was cancelled.", {}, {}};
    if (shared_->ending) return shutting_down();
    return std::nullopt;
  }

  // Ends a request for its prompt alone. The engine thread never hears of it.
  std::optional<Error> tell_prompt(Waiting& waiting, std::int64_t now) {
    auto tokens = prompt_tokens(waiting.request, parts_.text, now);
    if (!tokens) return std::move(tokens.error());
    Done done;
    done.usage.prompt_tokens = static_cast<std::uint32_t>(tokens->size());
    Delta delta;
    if (waiting.request.wanted == Wanted::prompt_text)
      delta.text = text_of(*tokens, *parts_.text.tokenizer);
    else
      delta.prompt = std::move(*tokens);
    waiting.delivery->push(std::move(delta));
    waiting.delivery->finish(std::move(done));
    shared_->settle();
    return std::nullopt;
  }

  std::optional<Error> keep_prefix(Waiting& waiting, std::int64_t now) {
    auto prepared = prepare_kept(std::move(waiting.request), parts_.text, parts_.limits.block_size, now);
    if (!prepared) return std::move(prepared.error());
    shared_->order(
        {Command::Kind::submit,
         nullptr,
         std::make_unique<Sequence>(std::move(*prepared), parts_.text, waiting.delivery, waiting.arrived),
         {}});
    return std::nullopt;
  }

  // Pushes the part of the echo that needs no logits: all of it, or the first token of a scored prompt. The
  // client may fall behind meanwhile: it has its prompt as memory already.
  void push_echo(Delivery& delivery, PreparedRequest& prepared) const {
    if (!prepared.echo) return;
    Echo echo(*parts_.text.tokenizer, *prepared.echo, prepared.prompt);
    while (echo.needs_no_row())
      if (!delivery.push(echo.next(prepared.prompt))) prepared.behind = true;
    prepared.echo->sent = echo.sent();
    if (echo.over()) prepared.echo.reset();
  }

  // Ends a request whose answer is empty and for which nothing is left to compute.
  std::optional<Error> end_empty(Waiting& waiting, const PreparedRequest& prepared) {
    Done done;
    done.reason = FinishReason::length;
    done.usage.prompt_tokens = static_cast<std::uint32_t>(prepared.prompt.size());
    waiting.delivery->finish(std::move(done));
    shared_->settle();
    return std::nullopt;
  }

  // True where words of the constraint may begin with the rest of reasoning, as free text: those of
  // structural tags may.
  bool takes_reasoning(const CompiledConstraint& constraint) const {
    if (!parts_.text.chat_template) return false;
    const std::string end = text::reasoning_end(parts_.text.chat_template->answer_form());
    if (end.empty()) return false;
    auto matcher = constrain::Matcher::begin(std::make_shared<constrain::Automaton>(constraint.program));
    return matcher && matcher->accept("Well. " + end).value_or(false);
  }

  // The error that ends it, if any; otherwise it has ended, or the engine thread has it.
  std::optional<Error> prepare_one(Waiting& waiting) {
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
    try {
      if (auto error = why_not(waiting)) return error;
      if (waiting.request.wanted == Wanted::kept_prefix) return keep_prefix(waiting, now.count());
      if (waiting.request.wanted != Wanted::answer) return tell_prompt(waiting, now.count());
      const bool reasons = !waiting.constraint || takes_reasoning(*waiting.constraint);
      auto prepared = prepare(std::move(waiting.request), parts_.text, now.count(), !reasons);
      if (!prepared) return std::move(prepared.error());
      push_echo(*waiting.delivery, *prepared);
      if (prepared->empty_answer && !prepared->echo) return end_empty(waiting, *prepared);
      if (!prepared->empty_answer) prepared->constraint = std::move(waiting.constraint);
      prepared->compile_us = waiting.compile_us;
      auto sequence =
          std::make_unique<Sequence>(std::move(*prepared), parts_.text, waiting.delivery, waiting.arrived);
      shared_->order({Command::Kind::submit, nullptr, std::move(sequence), {}});
      return std::nullopt;
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  }

  EngineParts parts_;
  std::shared_ptr<Shared> shared_;
  Engine engine_;  // engine_thread_'s own
  std::thread engine_thread_, small_thread_, large_thread_, constraint_thread_;
};

}  // namespace

std::unique_ptr<Backend> make_engine_backend(EngineParts parts) {
  parts.limits.step_tokens = std::min(parts.limits.step_tokens, parts.executor->max_step_tokens());
  return std::make_unique<EngineBackend>(std::move(parts));
}

}  // namespace flyball::engine
