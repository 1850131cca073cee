#include "daemon/route/kept_prefixes.hpp"

#include <algorithm>
#include <array>
#include <map>
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

// The engine has as many prefixes as it keeps.
bool is_full(const Error& error) noexcept {
  return error.code == ErrorCode::overloaded && error.param == "keep";
}

// The engine's or its machine's trouble, which another time may not meet.
bool passes(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::overloaded:
      return !is_full(error);
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

// The reason in words for the app, which must not learn how much others keep.
std::string reason_for_app(const Error& error) {
  switch (error.code) {
    case ErrorCode::token_limit_exceeded:  // these speak of the app's own prefixes alone
    case ErrorCode::context_length_exceeded:
    case ErrorCode::template_error:
    case ErrorCode::invalid_value:
      return error.message;
    case ErrorCode::insufficient_memory:
      return "The engine has no room for the prefix: all kept prefixes may take half of its KV.";
    case ErrorCode::overloaded:
      return "The engine keeps no further prefix: their number is limited for an app and for all apps.";
    default:
      return "The engine failed while it computed the prefix (" + std::string(to_string(error.code)) + ").";
  }
}

// An engine that has computed one has the other.
bool has_content_of(const KeptWish& a, const KeptWish& b) noexcept {
  return a.content == b.content || a.content->digest == b.content->digest;
}

const KeptPrefixState* state_in(std::span<const KeptPrefixState> states, const KeptWish& wish) noexcept {
  const auto it = std::ranges::find_if(states, [&](const KeptPrefixState& state) {
    return state.owner == wish.app && state.name == wish.name;
  });
  return it == states.end() ? nullptr : &*it;
}

bool is_whole(const KeptPrefixState& state) noexcept {
  return state.tokens_there >= state.tokens;
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

// Takes the engine's answer to one attempt.
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

KeptPrefixes::KeptPrefixes(asio::io_context& io, fleet::Fleet& fleet, predict::Predictor& predictor,
                           std::function<std::time_t()> now)
    : io_(io), fleet_(fleet), predictor_(predictor), now_(std::move(now)), retry_(io) {
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
    return row.wish->app == app && row.wish->name == name;
  });
  return it == engine.rows.end() ? nullptr : &*it;
}

KeptPrefixes::Day KeptPrefixes::today() const {
  const std::time_t now = now_();
  std::tm utc{}, local{};
  gmtime_r(&now, &utc);
  localtime_r(&now, &local);
  return {utc.tm_year * 366 + utc.tm_yday, local.tm_year * 366 + local.tm_yday};
}

// ---- what is wanted ---------------------------------------------------------------------------------------

void KeptPrefixes::want(std::vector<KeptWish> wishes) {
  std::ranges::stable_sort(wishes, {}, &KeptWish::app);
  wanted_.clear();
  for (KeptWish& wish : wishes) wanted_.push_back(std::make_shared<const KeptWish>(std::move(wish)));
  for (const auto& engine : engines_) {
    fill(*engine);
    drop_unwanted(*engine);
  }
  std::erase_if(engines_, [](const auto& engine) { return !engine->open && engine->rows.empty(); });
  for (const auto& engine : engines_) go_on(*engine);
}

// Brings the engine's rows in line with what is wanted.
void KeptPrefixes::fill(Engine& engine) {
  const std::vector<Row> before = std::exchange(engine.rows, {});
  std::map<Name, const Row*> known;
  for (const Row& row : before) known.emplace(Name{row.wish->app, row.wish->name}, &row);
  std::vector<Name> freed;
  const auto drop = [&](const Row& old) {
    if (old.state != KeptState::failed) freed.emplace_back(old.wish->app, old.wish->name);
    if (old.state == KeptState::computing) give_up(engine);
    engine.unwanted.emplace_back(old.wish->app, old.wish->name);
  };
  for (const auto& wish : wanted_) {
    if (wish->model != engine.model) continue;
    const bool at_once = wish->compute == config::KeptPrefix::Compute::load;
    const auto found = known.find({wish->app, wish->name});
    if (found == known.end()) {
      engine.rows.push_back({.wish = wish, .due = at_once});
      continue;
    }
    const Row& old = *found->second;
    known.erase(found);
    Row row = old;
    const bool was_asked_for = old.due || old.state != KeptState::waiting;
    const bool was_read_again = old.wish->content != wish->content;
    if (!has_content_of(*old.wish, *wish)) {
      // The engine forgets the old content first: the new one may fail, and must not leave the old one there.
      if (was_asked_for) drop(old);
      row = {.due = was_asked_for};
    } else if (old.wish->limit != wish->limit || (was_read_again && old.state == KeptState::failed)) {
      if (old.state == KeptState::computing) give_up(engine);
      row = {.due = was_asked_for, .held = old.held, .tokens = old.held ? old.tokens : 0};
    }
    row.due |= at_once && row.state == KeptState::waiting;
    row.wish = wish;
    engine.rows.push_back(std::move(row));
  }
  for (const auto& [name, old] : known) drop(*old);
  for (const auto& [app, name] : freed) has_room(engine, app, name);
}

void KeptPrefixes::drop_unwanted(Engine& engine) {
  if (engine.unwanted.empty() || !engine.open) return;
  Backend* const backend = fleet_.open_engine(engine.model, engine.backend);
  if (backend == nullptr) return;
  for (const auto& [app, name] : std::exchange(engine.unwanted, {})) backend->drop_kept_prefix(app, name);
}

void KeptPrefixes::has_room(Engine& engine, std::string_view app, std::string_view name) {
  for (Row& row : engine.rows) {
    if (!row.error || (row.wish->app == app && row.wish->name == name)) continue;
    const bool fits = row.error->code == ErrorCode::insufficient_memory || is_full(*row.error) ||
                      (row.error->code == ErrorCode::token_limit_exceeded && row.wish->app == app);
    if (!fits) continue;
    row.state = KeptState::waiting;
    row.due = true;
    row.error.reset();
  }
}

void KeptPrefixes::used(const std::string& app, const std::string& model, const std::string& backend) {
  const bool has_any = std::ranges::any_of(
      wanted_, [&](const auto& wish) { return wish->app == app && wish->model == model; });
  Engine* engine = find(model, backend);
  if (engine == nullptr || !engine->open) {  // a request that waited for the load is the first to have it
    if (has_any) engine_of(model, backend).used_by.insert(app);
    return;
  }
  if (engine->rows.empty()) return;
  const TimePoint now = Clock::now();
  const Day day = today();
  const bool tells = now - engine->told_at >= kSettled;
  const bool asks = tells || std::ranges::any_of(engine->rows, [&](const Row& row) {
                      return row.wish->app == app && row.state == KeptState::kept;
                    });
  const std::vector<KeptPrefixState> states =
      asks ? fleet_.kept_prefixes(model, backend) : std::vector<KeptPrefixState>{};
  for (Row& row : engine->rows) {
    const KeptPrefixState* const state = state_in(states, *row.wish);
    // Others' prompts do not push it out, whatever else the engine has computed since.
    if (tells && row.state == KeptState::kept && state != nullptr && is_whole(*state))
      tell_predictor(*engine, row, 0);
    if (row.wish->app != app) continue;
    const bool is_gone = row.state == KeptState::kept && state == nullptr && now - row.kept_at >= kSettled;
    if (is_gone) {
      row.state = KeptState::waiting;
      row.held = false;
    }
    // On another day the template may write another prompt; for the same tokens the engine computes nothing.
    row.due |= row.state == KeptState::waiting || (row.state == KeptState::kept && row.asked_on != day);
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
      row = {.wish = row.wish,
             .due = row.wish->compute == config::KeptPrefix::Compute::load,
             .deaths = row.deaths};
    }
  }
  fill(engine);
  for (Row& row : engine.rows)
    row.due |= row.state == KeptState::waiting && engine.used_by.contains(row.wish->app);
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
    if (row.wish->app > engine.last_app) return &row;
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
  if (stopped_ || !engine.open) return;
  drop_unwanted(engine);
  if (engine.attempt != 0) return;
  Row* const row = next(engine);
  if (row == nullptr) return;
  if (Clock::now() < engine.rests_until) return look_again();
  Backend* const backend = fleet_.open_engine(engine.model, engine.backend);
  if (backend == nullptr) return;  // it closes
  const KeptWish& wish = *row->wish;
  const std::uint64_t attempt = ++attempts_;
  engine.attempt = attempt;
  engine.computing = wish.name;
  engine.last_app = wish.app;
  row->state = KeptState::computing;
  row->due = false;
  row->asked_on = today();
  CompletionRequest request;
  request.id = "kept-" + std::to_string(attempt);
  request.owner = wish.app;
  request.prompt = wish.content->prompt;
  request.wanted = Wanted::kept_prefix;
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
  const KeptWish& wish = *row.wish;
  if (row.held && usage.prompt_tokens < row.tokens) has_room(engine, wish.app, wish.name);
  row.state = KeptState::kept;
  row.held = true;
  row.error.reset();
  row.deaths = 0;
  row.tokens = usage.prompt_tokens;
  row.kept_at = Clock::now();
  const std::uint32_t cached = std::min(usage.cached_tokens, usage.prompt_tokens);
  spdlog::info("prefix kept: {} tokens, {} of them were there | app={} prefix={} model={} backend={}",
               usage.prompt_tokens, cached, wish.app, wish.name, engine.model, engine.backend);
  tell_predictor(engine, row,
                 usage.prompt_tokens == 0 ? 0 : 1 - static_cast<double>(cached) / usage.prompt_tokens);
}

void KeptPrefixes::failed(Engine& engine, Row& row, const Error& error) {
  if (is_death(error.code)) ++row.deaths;
  if (passes(error) && row.deaths < kMostDeaths) {
    row.state = KeptState::waiting;
    row.due = true;
    engine.rests_until = Clock::now() + kRetry;
    return;
  }
  row.state = KeptState::failed;
  row.due = false;
  row.error = error;
  const KeptWish& wish = *row.wish;
  engine.unwanted.emplace_back(wish.app, wish.name);  // it may still hold what another day or limit allowed
  if (std::exchange(row.held, false)) has_room(engine, wish.app, wish.name);
  spdlog::warn("prefix not kept: {} | app={} prefix={} model={} backend={} code={}", error.message, wish.app,
               wish.name, engine.model, engine.backend, to_string(error.code));
}

void KeptPrefixes::tell_predictor(const Engine& engine, const Row& row, double computed) {
  const auto workers = fleet_.status();
  const auto worker = std::ranges::find_if(workers, [&](const fleet::WorkerStatus& one) {
    return one.model == engine.model && one.backend == engine.backend;
  });
  if (worker != workers.end())
    predictor_.keeps(engine.model, state_of(*worker), row.wish->content->print, computed);
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

KeptPrefixRecord KeptPrefixes::record_of(const KeptWish& wish, const std::string& backend,
                                         std::span<const KeptPrefixState> states) const {
  KeptPrefixRecord out{.app = wish.app, .name = wish.name, .model = wish.model, .backend = backend};
  out.state = KeptState::waiting;
  Engine* const engine = find(wish.model, backend);
  const Row* const row = engine == nullptr ? nullptr : row_of(*engine, wish.app, wish.name);
  if (row != nullptr) {
    out.state = row->state;
    out.tokens = row->tokens;
    if (row->error) {
      out.why = reason_for_app(*row->error);
      out.cause = row->error->message;
    }
  }
  // The engine's figures may be those of a content that it was told to drop.
  const bool is_held = row != nullptr && row->held;
  if (const KeptPrefixState* const state = is_held ? state_in(states, wish) : nullptr) {
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
    const KeptWish& wish = *wanted;
    if (!app.empty() && wish.app != app) continue;
    const std::size_t before = out.size();
    for (const fleet::WorkerStatus& worker : workers)
      if (worker.model == wish.model && worker.state == fleet::WorkerState::ready)
        out.push_back(record_of(wish, worker.backend, fleet_.kept_prefixes(wish.model, worker.backend)));
    if (out.size() == before)
      out.push_back({.app = wish.app, .name = wish.name, .model = wish.model, .backend = {}});
  }
  return out;
}

std::vector<KeptPrefixRecord> KeptPrefixes::records_at(std::string_view app, std::string_view model,
                                                       const std::string& backend) const {
  std::vector<KeptPrefixRecord> out;
  std::optional<std::vector<KeptPrefixState>> states;
  for (const auto& wish : wanted_) {
    if (wish->app != app || wish->model != model) continue;
    if (!states) states = fleet_.kept_prefixes(wish->model, backend);
    out.push_back(record_of(*wish, backend, *states));
  }
  return out;
}

}  // namespace flyball::route
