// Keeps the prefixes that manifests declare at the engines that are loaded: asks each engine for the KV of
// one prefix after the other, apps by turns, and drops those that no manifest has any more. It loads no
// engine and keeps none from ending. One io_context thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "backends/backend.hpp"
#include "config/kept_prefix.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/predict/kept_prompt.hpp"

namespace flyball::predict {
class Predictor;
}

namespace flyball::route {

// A prefix of a manifest as engines of its model are asked for it.
struct KeptWish {
  std::string app, name;
  std::string model;  // id
  config::KeptPrefix::Compute compute = config::KeptPrefix::Compute::load;
  std::shared_ptr<const predict::KeptPrompt> content;  // not null; every reading brings another
  std::uint64_t limit = 0;  // tokens that the app's prefixes may have together; 0: no limit
};

enum class KeptState : std::uint8_t {
  not_loaded,  // no engine has loaded the model
  waiting,     // for its turn, for the app's first request, or until nobody waits for the engine's memory
  computing,
  kept,
  partly_kept,  // some of its blocks had to go; a prompt that needs them computes them again
  failed,
};
std::string_view to_string(KeptState state) noexcept;  // "not_loaded"
std::optional<KeptState> kept_state_from(std::string_view text) noexcept;

// A prefix at one engine, for receipts and lists.
struct KeptPrefixRecord {
  std::string app, name, model;
  std::string backend;  // "": no engine has loaded the model
  KeptState state = KeptState::not_loaded;
  std::string why = {};      // it failed, in words for its app: they tell nothing of other apps
  std::string cause = {};    // the engine's own words, for the operator; not recorded
  std::uint32_t tokens = 0;  // of whole blocks; 0: not known
  std::uint32_t tokens_in_memory = 0, tokens_on_disk = 0;
  std::uint64_t uses = 0, saved_tokens = 0;  // as the engine counts them; at most a heartbeat old
  double saved_ms = -1;  // that these tokens would have taken, as predicted; -1: not known
};

class KeptPrefixes final : public fleet::Fleet::Watcher {
 public:
  // An engine that refused a prefix for a reason that passes is left alone so long.
  static constexpr std::chrono::seconds kRetry{10};
  // An engine tells what it keeps with each heartbeat: until so long after a prefix was computed, its absence
  // there means nothing.
  static constexpr std::chrono::seconds kSettled{10};

  // All outlive this, or stop() is called. now: the system's clock.
  KeptPrefixes(boost::asio::io_context& io, fleet::Fleet& fleet, predict::Predictor& predictor,
               std::function<std::time_t()> now = [] { return std::time(nullptr); });
  ~KeptPrefixes() override;

  // All that is wanted from now on, those of an app in the order of its manifest. Engines first drop those
  // that changed or are gone, and are then asked for others. A prefix that failed is tried again if its
  // manifest was read again.
  void want(std::vector<KeptWish> wishes);
  // A request of the app has gone to the engine. It is asked again for those of the app's prefixes that
  // it was asked for on another day: a chat template may write the date.
  void used(const std::string& app, const std::string& model, const std::string& backend);
  // Cancels what runs, and asks for nothing more.
  void stop();

  // The app's ("": all apps') prefixes at every engine that has loaded their models; one record for a model
  // that none has.
  std::vector<KeptPrefixRecord> records(std::string_view app = {}) const;
  // The app's prefixes of the model at this engine, loaded or not.
  std::vector<KeptPrefixRecord> records_at(std::string_view app, std::string_view model,
                                           const std::string& backend) const;
  bool computes() const noexcept;  // at some engine

  // fleet::Fleet::Watcher
  void engine_opens(const std::string& model, const std::string& backend, std::uint64_t process) override;
  void engine_closes(const std::string& model, const std::string& backend) override;

 private:
  class Sink;
  using Name = std::pair<std::string_view, std::string_view>;  // app, prefix
  // A day of the calendar, by UTC and by the machine's time zone: templates write either.
  struct Day {
    int utc = 0, local = 0;
    bool operator==(const Day&) const = default;
  };
  // A prefix at one engine.
  struct Row {
    std::shared_ptr<const KeptWish> wish = {};
    KeptState state = KeptState::waiting;
    bool due = false;   // the engine is to be asked for it
    bool held = false;  // the engine has kept this content, and was not told to drop it
    std::optional<Error> error = {};  // the state is failed
    std::uint32_t tokens = 0;
    std::uint32_t deaths = 0;  // in a row, of the engine while it computed it
    TimePoint kept_at{};
    Day asked_on{};
  };
  struct Engine {
    std::string model, backend;
    std::uint64_t process = 0;
    bool open = false;
    std::vector<Row> rows = {};  // by app, those of an app in the order of its manifest
    std::vector<std::pair<std::string, std::string>> unwanted = {};  // app and name, to be dropped
    std::uint64_t attempt = 0;                                       // the one that runs; 0: none does
    std::string computing = {};                                      // its prefix, of the app last_app
    Ticket ticket = {};
    std::set<std::string, std::less<>> used_by = {};  // apps, while it was not open
    std::string last_app = {};                        // whose turn was last
    TimePoint rests_until{};                          // it refused a prefix for a reason that passes
    TimePoint told_at{};                              // when the predictor heard last what it keeps
  };

  Engine& engine_of(const std::string& model, const std::string& backend);
  Engine* find(std::string_view model, std::string_view backend) const noexcept;
  static Row* row_of(Engine& engine, std::string_view app, std::string_view name) noexcept;
  Day today() const;
  void fill(Engine& engine);
  void drop_unwanted(Engine& engine);
  // An app's prefix is gone from the engine, or shorter: those that found no room are due again.
  static void has_room(Engine& engine, std::string_view app, std::string_view name);
  static Row* next(Engine& engine) noexcept;
  void go_on(Engine& engine);
  void go_on_later(const Engine& engine);
  static void give_up(Engine& engine);
  void retire(Ticket ticket);
  void ended(std::uint64_t attempt, const Event& event);
  void kept(Engine& engine, Row& row, const Usage& usage);
  void failed(Engine& engine, Row& row, const Error& error);
  void tell_predictor(const Engine& engine, const Row& row, double computed);
  void look_again();
  KeptPrefixRecord record_of(const KeptWish& wish, const std::string& backend,
                             std::span<const KeptPrefixState> states) const;

  boost::asio::io_context& io_;
  fleet::Fleet& fleet_;
  predict::Predictor& predictor_;
  const std::function<std::time_t()> now_;
  boost::asio::steady_timer retry_;
  std::vector<std::shared_ptr<const KeptWish>> wanted_;  // by app, those of an app in its manifest's order
  std::vector<std::unique_ptr<Engine>> engines_;         // that were open once
  std::uint64_t attempts_ = 0;
  bool looks_again_ = false;
  bool stopped_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace flyball::route
