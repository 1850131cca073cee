#include "daemon/route/kept_prefixes.hpp"

#include <algorithm>
#include <array>
#include <variant>

#include <spdlog/spdlog.h>
#include <boost/asio/post.hpp>

#include "daemon/predict/predictor.hpp"
#include "daemon/route/engine_state.hpp"

namespace flyball::route {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 6> kStates{"not_loaded", "waiting",     "computing",
                                                  "kept",       "partly_kept", "failed"};
static_assert(kStates.size() == static_cast<std::size_t>(KeptState::failed) + 1);

// A prefix under which an engine has died so often is suspect: it is not computed again before a reload.
constexpr std::uint32_t kMostDeaths = 2;

// The engine's or its machine's trouble, which another time may not meet.
bool passes(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::overloaded:
    case ErrorCode::shutting_down:
    case ErrorCode::cancelled:
    case ErrorCode::worker_died:
    case ErrorCode::device_lost:
      return true;
    default:
      return false;
  }
}
bool is_death(ErrorCode code) noexcept {
  return code == ErrorCode::worker_died || code == ErrorCode::device_lost;
}

bool reads_control_tokens(const Prompt& prompt) {
  const auto* const chat = std::get_if<ChatPrompt>(&prompt);
  return chat != nullptr && chat->control_tokens_in_content;
}

// An engine that has computed one has the other.
bool is_same(const KeptWish& a, const KeptWish& b) {
  return a.role == b.role && a.limit == b.limit &&
         reads_control_tokens(a.prompt) == reads_control_tokens(b.prompt) &&
         (a.text == b.text || *a.text == *b.text);
}

const KeptPrefixState* state_in(std::span<const KeptPrefixState> states, const KeptWish& wish) noexcept {
  const auto it = std::ranges::find_if(states, [&](const KeptPrefixState& state) {
    return state.owner == wish.app && state.name == wish.name;
  });
  return it == states.end() ? nullptr : &*it;
}

bool is_whole(const KeptPrefixState& state) noexcept {
  return state.tokens_in_memory + state.tokens_on_disk >= state.tokens;
}

}  // namespace

std::string_view to_string(KeptState state) noexcept {
  return kStates[static_cast<std::size_t>(state)];
}

std::optional<KeptState> kept_state_from(std::string_view text) noexcept {
  const auto it = std::ranges::find(kStates, text);
  if (it == kStates.end()) return std::nullopt;
  return static_cast<KeptState>(it - kStates.begin());
}

// Where the engine's answer to one attempt arrives.
class KeptPrefixes::Sink final : public EventSink {
 public:
  Sink(KeptPrefixes& keeper, std::uint64_t attempt)
      : keeper_(keeper), alive_(keeper.alive_), attempt_(attempt) {}
  bool push(Event event) noexcept override {
    if (!alive_.expired() && !std::holds_alternative<Delta>(event)) keeper_.ended(attempt_, event);
    return true;
  }

 private:
  KeptPrefixes& keeper_;
  const std::weak_ptr<bool> alive_;
  const std::uint64_t attempt_;
};

KeptPrefixes::KeptPrefixes(asio::io_context& io, fleet::Fleet& fleet, predict::Predictor& predictor)
    : io_(io), fleet_(fleet), predictor_(predictor), retry_(io) {
  fleet_.watch(this);
}
KeptPrefixes::~KeptPrefixes() {
  stop();
}

void KeptPrefixes::stop() {
  if (std::exchange(stopped_, true)) return;
  retry_.cancel();
  for (const auto& engine : engines_) give_up(*engine);
  fleet_.watch(nullptr);
}

KeptPrefixes::Engine* KeptPrefixes::find(std::string_view model, std::string_view backend) const noexcept {
  const auto it = std::ranges::find_if(
      engines_, [&](const auto& engine) { return engine->model == model && engine->backend == backend; });
  return it == engines_.end() ? nullptr : it->get();
}

KeptPrefixes::Engine& KeptPrefixes::engine_of(const std::string& model, const std::string& backend) {
  if (Engine* const known = find(model, backend)) return *known;
  return *engines_.emplace_back(std::make_unique<Engine>(Engine{.model = model, .backend = backend}));
}

KeptPrefixes::Row* KeptPrefixes::row_of(Engine& engine, std::string_view app,
                                        std::string_view name) noexcept {
  const auto it = std::ranges::find_if(engine.rows, [&](const Row& row) {
    return row.wanted->wish.app == app && row.wanted->wish.name == name;
  });
  return it == engine.rows.end() ? nullptr : &*it;
}

// ---- what is wanted ---------------------------------------------------------------------------------------

void KeptPrefixes::want(std::vector<KeptWish> wishes) {
  std::ranges::stable_sort(wishes, {}, &KeptWish::app);
  const auto before = std::exchange(wanted_, {});
  for (KeptWish& wish : wishes) {
    // What nobody has read again keeps its print.
    const auto known = std::ranges::find_if(before, [&](const auto& one) {
      const KeptWish& old = one->wish;
      return old.app == wish.app && old.name == wish.name && old.model == wish.model &&
             old.compute == wish.compute && old.text == wish.text && is_same(old, wish);
    });
    if (known != before.end()) {
      wanted_.push_back(*known);
      continue;
    }
    auto print = std::make_shared<const predict::PromptPrint>(predictor_.print_of(wish.prompt, wish.app));
    wanted_.push_back(std::make_shared<const Wanted>(Wanted{std::move(wish), std::move(print)}));
  }
  for (const auto& engine : engines_) {
    fill(*engine);
    drop_unwanted(*engine);
  }
  std::erase_if(engines_, [](const auto& engine) { return !engine->open && engine->rows.empty(); });
  for (const auto& engine : engines_) go_on(*engine);
}

// Brings the engine's rows in line with what is wanted.
void KeptPrefixes::fill(Engine& engine) {
  std::vector<Row> rows;
  for (const auto& wanted : wanted_) {
    const KeptWish& wish = wanted->wish;
    if (wish.model != engine.model) continue;
    const bool at_once = wish.compute == config::KeptPrefix::Compute::load;
    Row* const old = row_of(engine, wish.app, wish.name);
    if (old == nullptr) {
      rows.push_back({.wanted = wanted, .due = at_once});
      continue;
    }
    Row row = *old;
    const bool was_asked_for = old->due || old->state != KeptState::waiting;
    const bool same = is_same(old->wanted->wish, wish);
    const bool was_read_again = old->wanted->wish.text != wish.text;
    if (!same && old->state == KeptState::computing) give_up(engine);
    if (!same || (was_read_again && old->state == KeptState::failed)) {
      row = {.due = was_asked_for};
    }
    row.due |= at_once && row.state == KeptState::waiting;
    row.wanted = wanted;
    rows.push_back(std::move(row));
  }
  for (const Row& old : engine.rows) {
    const KeptWish& wish = old.wanted->wish;
    const bool stays = std::ranges::any_of(rows, [&](const Row& row) {
      return row.wanted->wish.app == wish.app && row.wanted->wish.name == wish.name;
    });
    if (stays) continue;
    if (old.state == KeptState::computing) give_up(engine);
    engine.unwanted.emplace_back(wish.app, wish.name);
  }
  engine.rows = std::move(rows);
}

void KeptPrefixes::drop_unwanted(Engine& engine) {
  if (engine.unwanted.empty() || !engine.open) return;
  Backend* const backend = fleet_.open_engine(engine.model, engine.backend);
  if (backend == nullptr) return;
  for (const auto& [app, name] : std::exchange(engine.unwanted, {})) backend->drop_kept_prefix(app, name);
}

void KeptPrefixes::used(const std::string& app, const std::string& model, const std::string& backend) {
  const bool has_any = std::ranges::any_of(
      wanted_, [&](const auto& wanted) { return wanted->wish.app == app && wanted->wish.model == model; });
  Engine* engine = find(model, backend);
  if (engine == nullptr || !engine->open) {  // a request that waited for the load is the first to have it
    if (has_any) engine_of(model, backend).used_by.insert(app);
    return;
  }
  if (engine->rows.empty()) return;
  const TimePoint now = Clock::now();
  const bool tells = now - engine->told_at >= kSettled;
  const bool asks = tells || std::ranges::any_of(engine->rows, [&](const Row& row) {
                      return row.wanted->wish.app == app && row.state == KeptState::kept;
                    });
  const std::vector<KeptPrefixState> states =
      asks ? fleet_.kept_prefixes(model, backend) : std::vector<KeptPrefixState>{};
  for (Row& row : engine->rows) {
    const KeptPrefixState* const state = state_in(states, row.wanted->wish);
    // Others' prompts do not push it out, whatever else the engine has computed since.
    if (tells && row.state == KeptState::kept && state != nullptr && is_whole(*state))
      tell_predictor(*engine, row, 0);
    if (row.wanted->wish.app != app) continue;
    const bool is_gone = row.state == KeptState::kept && state == nullptr && now - row.kept_at >= kSettled;
    if (is_gone) row.state = KeptState::waiting;
    row.due |= row.state == KeptState::waiting;
  }
  if (tells) engine->told_at = now;
  go_on_later(*engine);
}

// ---- engines ----------------------------------------------------------------------------------------------

void KeptPrefixes::engine_opens(const std::string& model, const std::string& backend, std::uint64_t process) {
  Engine& engine = engine_of(model, backend);
  engine.open = true;
  if (engine.process != process) {
    engine.process = process;
    engine.unwanted.clear();
    engine.rests_until = {};
    for (Row& row : engine.rows) {
      if (row.deaths >= kMostDeaths) continue;
      row = {.wanted = row.wanted,
             .due = row.wanted->wish.compute == config::KeptPrefix::Compute::load,
             .deaths = row.deaths};
    }
  }
  fill(engine);
  for (Row& row : engine.rows)
    row.due |= row.state == KeptState::waiting && engine.used_by.contains(row.wanted->wish.app);
  engine.used_by.clear();
  drop_unwanted(engine);
  go_on(engine);
}

void KeptPrefixes::engine_closes(const std::string& model, const std::string& backend) {
  Engine* const engine = find(model, backend);
  if (engine == nullptr) return;
  engine->open = false;
  give_up(*engine);
}

// The row waits for its turn again.
void KeptPrefixes::give_up(Engine& engine) {
  if (engine.attempt == 0) return;
  engine.attempt = 0;
  engine.ticket.cancel();
  if (Row* const row = row_of(engine, engine.last_app, engine.computing)) {
    row->state = KeptState::waiting;
    row->due = true;
  }
}

// The app behind the one that had its turn last, in order of their ids.
KeptPrefixes::Row* KeptPrefixes::next(Engine& engine) noexcept {
  Row* first = nullptr;
  for (Row& row : engine.rows) {
    if (!row.due) continue;
    if (row.wanted->wish.app > engine.last_app) return &row;
    if (first == nullptr) first = &row;
  }
  return first;
}

void KeptPrefixes::go_on_later(const Engine& engine) {
  asio::post(io_, [this, alive = std::weak_ptr(alive_), model = engine.model, backend = engine.backend] {
    if (alive.expired()) return;
    if (Engine* const again = find(model, backend)) go_on(*again);
  });
}

void KeptPrefixes::go_on(Engine& engine) {
  if (stopped_ || !engine.open || engine.attempt != 0) return;
  Row* const row = next(engine);
  if (row == nullptr) return;
  if (Clock::now() < engine.rests_until) return look_again();
  Backend* const backend = fleet_.open_engine(engine.model, engine.backend);
  if (backend == nullptr) return;  // it closes
  const KeptWish& wish = row->wanted->wish;
  const std::uint64_t attempt = ++attempts_;
  engine.attempt = attempt;
  engine.computing = wish.name;
  engine.last_app = wish.app;
  row->state = KeptState::computing;
  row->due = false;
  CompletionRequest request;
  request.id = "kept-" + std::to_string(attempt);
  request.owner = wish.app;
  request.prompt = wish.prompt;
  request.wanted = ::flyball::Wanted::kept_prefix;
  request.kept = wish.name;
  request.kept_limit = wish.limit;
  request.settings.place = config::QueuePlace::behind;
  auto ticket = backend->start(std::move(request), std::make_shared<Sink>(*this, attempt));
  if (ticket && engine.attempt == attempt)
    engine.ticket = std::move(*ticket);
  else if (ticket)
    retire(std::move(*ticket));  // it ended within start()
  else
    ended(attempt, ticket.error());
}

// The engine may be in the middle of calling us.
void KeptPrefixes::retire(Ticket ticket) {
  asio::post(io_, [ticket = std::make_shared<Ticket>(std::move(ticket))] {});
}

void KeptPrefixes::ended(std::uint64_t attempt, const Event& event) {
  const auto at = std::ranges::find(engines_, attempt, [](const auto& engine) { return engine->attempt; });
  if (at == engines_.end()) return;
  Engine& engine = **at;
  engine.attempt = 0;
  retire(std::move(engine.ticket));
  Row* const row = row_of(engine, engine.last_app, engine.computing);
  if (row == nullptr) return;
  const Done* const done = std::get_if<Done>(&event);
  if (done == nullptr)
    failed(engine, *row, std::get<Error>(event));
  else if (done->reason == FinishReason::cancelled)
    failed(engine, *row, {ErrorCode::shutting_down, "The engine is shutting down.", {}, {}});
  else
    kept(engine, *row, done->usage);
  go_on_later(engine);
}

void KeptPrefixes::kept(Engine& engine, Row& row, const Usage& usage) {
  row.state = KeptState::kept;
  row.why.clear();
  row.deaths = 0;
  row.tokens = usage.prompt_tokens;
  row.kept_at = Clock::now();
  const std::uint32_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  const KeptWish& wish = row.wanted->wish;
  spdlog::info("prefix kept: {} tokens, {} of them were there | app={} prefix={} model={} backend={}",
               usage.prompt_tokens, cached, wish.app, wish.name, engine.model, engine.backend);
  tell_predictor(engine, row,
                 usage.prompt_tokens == 0 ? 0 : 1 - static_cast<double>(cached) / usage.prompt_tokens);
}

void KeptPrefixes::failed(Engine& engine, Row& row, const Error& error) {
  if (is_death(error.code)) ++row.deaths;
  if (passes(error.code) && row.deaths < kMostDeaths) {
    row.state = KeptState::waiting;
    row.due = true;
    engine.rests_until = Clock::now() + kRetry;
    return;
  }
  row.state = KeptState::failed;
  row.due = false;
  row.why = error.message;
  const KeptWish& wish = row.wanted->wish;
  spdlog::warn("prefix not kept: {} | app={} prefix={} model={} backend={} code={}", error.message, wish.app,
               wish.name, engine.model, engine.backend, to_string(error.code));
}

void KeptPrefixes::tell_predictor(const Engine& engine, const Row& row, double computed) {
  const auto workers = fleet_.status();
  const auto worker = std::ranges::find_if(workers, [&](const fleet::WorkerStatus& one) {
    return one.model == engine.model && one.backend == engine.backend;
  });
  if (worker != workers.end())
    predictor_.keeps(engine.model, state_of(*worker), *row.wanted->print, computed);
}

void KeptPrefixes::look_again() {
  if (std::exchange(looks_again_, true)) return;
  retry_.expires_after(kRetry);
  retry_.async_wait([this, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
    if (error || alive.expired()) return;
    looks_again_ = false;
    for (const auto& engine : engines_) go_on(*engine);
  });
}

// ---- views ------------------------------------------------------------------------------------------------

bool KeptPrefixes::computes() const noexcept {
  return std::ranges::any_of(engines_, [](const auto& engine) { return engine->attempt != 0; });
}

KeptPrefixRecord KeptPrefixes::record_of(const Wanted& wanted, const std::string& backend,
                                         std::span<const KeptPrefixState> states) const {
  const KeptWish& wish = wanted.wish;
  KeptPrefixRecord out{.app = wish.app, .name = wish.name, .model = wish.model, .backend = backend};
  out.state = KeptState::waiting;
  Engine* const engine = find(wish.model, backend);
  const Row* const row = engine == nullptr ? nullptr : row_of(*engine, wish.app, wish.name);
  if (row != nullptr) {
    out.state = row->state;
    out.why = row->why;
    out.tokens = row->tokens;
  }
  if (const KeptPrefixState* const state = state_in(states, wish)) {
    out.tokens = state->tokens;
    out.tokens_in_memory = state->tokens_in_memory;
    out.tokens_on_disk = state->tokens_on_disk;
    out.uses = state->uses;
    out.saved_tokens = state->saved_tokens;
    if (out.state == KeptState::kept && !is_whole(*state)) out.state = KeptState::partly_kept;
    if (const auto whole = predictor_.prefill_time(wish.model, backend, state->tokens);
        whole && state->tokens > 0)
      out.saved_ms = *whole * 1e3 * static_cast<double>(state->saved_tokens) / state->tokens;
  } else if (out.state == KeptState::kept && Clock::now() - row->kept_at >= kSettled) {
    out.state = KeptState::partly_kept;
  } else if (out.state == KeptState::kept) {
    out.tokens_in_memory = out.tokens;  // the engine's word on it is still to come
  }
  return out;
}

std::vector<KeptPrefixRecord> KeptPrefixes::records(std::string_view app) const {
  std::vector<KeptPrefixRecord> out;
  if (wanted_.empty()) return out;
  const auto workers = fleet_.status();
  for (const auto& wanted : wanted_) {
    const KeptWish& wish = wanted->wish;
    if (!app.empty() && wish.app != app) continue;
    const std::size_t before = out.size();
    for (const fleet::WorkerStatus& worker : workers)
      if (worker.model == wish.model && worker.state == fleet::WorkerState::ready)
        out.push_back(record_of(*wanted, worker.backend, fleet_.kept_prefixes(wish.model, worker.backend)));
    if (out.size() == before)
      out.push_back({.app = wish.app, .name = wish.name, .model = wish.model, .backend = {}});
  }
  return out;
}

std::vector<KeptPrefixRecord> KeptPrefixes::records_at(std::string_view app, std::string_view model,
                                                       const std::string& backend) const {
  std::vector<KeptPrefixRecord> out;
  std::optional<std::vector<KeptPrefixState>> states;
  for (const auto& wanted : wanted_) {
    if (wanted->wish.app != app || wanted->wish.model != model) continue;
    if (!states) states = fleet_.kept_prefixes(wanted->wish.model, backend);
    out.push_back(record_of(*wanted, backend, *states));
  }
  return out;
}

}  // namespace flyball::route
