#include "daemon/serve/daemon.hpp"
#include "daemon/api/gateway.hpp"
#include "daemon/api/kept_prompt.hpp"
#include "daemon/api/table/codecs.hpp"
#include "daemon/serve/start_signals.hpp"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "backends/spill/shared_directory.hpp"
#include "config/app_models.hpp"
#include "daemon/calibrate/idle_refresh.hpp"
#include "daemon/calibrate/measurements.hpp"
#include "daemon/calibrate/unmeasured.hpp"
#include "daemon/fleet/fleet.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/measure/measured_store.hpp"
#include "daemon/probe/device_memory.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/probe/probe.hpp"
#include "daemon/route/preload.hpp"
#include "daemon/settings/config_files.hpp"
#include "daemon/settings/descriptors.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/store/database.hpp"
#include "daemon/store/state_lock.hpp"
#include "daemon/store/writer.hpp"
#include "daemon/systemd/logging.hpp"
#include "daemon/systemd/notify.hpp"
#include "daemon/systemd/progress.hpp"
#include "daemon/usage/usage_store.hpp"

namespace flyball::serve {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// Longer than a worker client waits before it kills a wedged engine by itself: that costs one worker, the
// watchdog the whole daemon.
constexpr seconds kWatchdogPatience{150};
// Workers have nothing left to run when the gateway is drained; this is for their exit alone.
constexpr seconds kFleetExit{2};
// Blocks of this size and above go back to the system when they are freed. Without it malloc raises its limit to the
// largest body it has seen, and keeps such holes: RSS swings between 40 and 60 MB under a mixture of attacks, where it
// now stays within 1 MB of 27.
constexpr int kReturnedAt = 128 * 1024;
// Before figures expire they are measured again, where the daemon is to do so.
constexpr seconds kRefreshBefore{24 * 3600};

void read_measured(settings::Settings& settings, std::span<const measure::Engine> engines,
                   const std::shared_ptr<const measure::PredictionLedger>& ledger,
                   measure::Digests& digests) {
  const measure::BookOptions options{calibrate::sizes_of(settings.config.models, settings.files.infos),
                                     ledger, &digests};
  auto book = calibrate::measured_book(settings.config, engines, options);
  if (!book) {
    settings.measured = calibrate::unmeasured_book(settings.config, engines, options);
    return spdlog::warn("what was measured is not known: {}", describe(book.error()));
  }
  settings.measured = std::move(*book);
  if (!settings.measured.empty())
    spdlog::info("measured: {} {} of model and engine (flyball calibrate)", settings.measured.size(),
                 settings.measured.size() == 1 ? "pair" : "pairs");
}

// Tells the operator of models that cannot be served, and of a policy that is not used, before a client meets
// them.
void warn_of_files(const settings::Settings& settings) {
  for (const config::ModelEntry& model : settings.config.models)
    if (const auto trouble = settings.files.troubles.find(model.id);
        trouble != settings.files.troubles.end()) {
      const std::string why = (model.embedded ? "" : model.path.string() + ": ") + trouble->second.message;
      if (trouble->second.code == ErrorCode::model_unavailable)
        spdlog::warn("model {} is not known yet: {}", model.id, why);
      else
        spdlog::warn("model {} cannot be served now: {}", model.id, why);
    }
  if (!settings.unused_policy.empty())
    spdlog::warn("{}", settings::unused_policy_text(settings.unused_policy, settings.config));
}

config::OwnEngines own_engines_of(const settings::Settings& settings) {
  return policy::own_engines_of(*settings.tree->targets);
}

// What model files were found to be, so that a reload reads those alone that have changed.
struct KnownFiles {
  probe::ModelFiles models;
  measure::Digests digests;
};

class Daemon {
 public:
  Daemon(DaemonOptions options, std::shared_ptr<const settings::Settings> settings, KnownFiles files,
         policy::Facts hardware, std::vector<measure::Engine> engines, fleet::FleetOptions fleet,
         usage::Past past, std::shared_ptr<measure::PredictionLedger> ledger,
         std::optional<store::Database> database)
      : options_(std::move(options)),
        settings_(std::move(settings)),
        started_with_(settings_->config),
        files_(std::move(files)),
        hardware_(std::move(hardware)),
        device_memory_(fleet.device_memory),
        engines_(std::move(engines)),
        ledger_(std::move(ledger)),
        store_(database ? std::make_unique<store::Writer>(std::move(*database)) : nullptr),
        outcomes_(ledger_, store_.get()),
        kv_directory_(enter_at_once(settings_->config.kv_spill)),
        fleet_(fleet::make_worker_fleet(io_, settings_->config,
                                        with_predictions(with_preload(std::move(fleet))))),
        gateway_(io_, settings_, hardware_, *fleet_, api::all_codecs(), store_.get(), std::move(past),
                 &outcomes_),
        refresh_(io_, idle_host()),
        idle_timer_(io_),
        signals_(io_, SIGTERM, SIGINT, SIGHUP),
        watch_timer_(io_),
        judge_(kWatchdogPatience) {}

  Result<void> run() {
    if (auto listening = gateway_.listen(); !listening) return pass(listening);
    for (const config::Listener& listener : started_with_.listeners)
      if (const std::string missing = http::without_ipv4(listener, started_with_.listeners); !missing.empty())
        spdlog::warn("{} | listener={}", missing, listener.id);
    wait_for_signal();
    release_signals();
    watch();
    refresh_.set(settings_->config.calibrate);
    forget_old_apps();
    announce();
    // What start-up took (parsers, the probe) goes back to the system: an idle daemon is small.
    malloc_trim(0);
    io_.run();
    spdlog::info("stopped");
    return {};
  }

 private:
  fleet::FleetOptions with_preload(fleet::FleetOptions fleet) {
    fleet.preload_on = [this](const config::ModelEntry& model, const fleet::MemoryStatus& memory) {
      return route::preload_targets(*settings_->tree, hardware_, settings_->apps, model, memory,
                                    settings_->file_of(model), settings_->measured, std::time(nullptr));
    };
    fleet.critical_on = [this](const config::ModelEntry& model, const fleet::MemoryStatus& memory) {
      const bool is_default = config::is_called(model, settings_->config.default_model);
      return route::critical_targets(*settings_->tree, hardware_, settings_->apps, model, is_default, memory,
                                     settings_->file_of(model), settings_->measured, std::time(nullptr));
    };
    return fleet;
  }

  fleet::FleetOptions with_predictions(fleet::FleetOptions fleet) {
    fleet.margin = [this](const std::string& backend) { return ledger_->margin(backend); };
    fleet.on_loaded = [this](const fleet::LoadReport& load) {
      outcomes_.loaded(settings_->measured,
                       {load.model, load.backend, load.predicted_bytes, load.actual_bytes, load.took.count()},
                       std::time(nullptr));
    };
    return fleet;
  }

  void announce() {
    std::string urls;
    for (const std::string& url : gateway_.urls()) {
      spdlog::info("listening on {}", url);
      std::printf(options_.print_url ? "%s\n" : "flyball serves at %s\n", url.c_str());
      urls += url + "\n";
    }
    std::fflush(stdout);
    notifier_.ready(status_line());
    if (options_.ready_fd >= 0) {
      if (write(options_.ready_fd, urls.data(), urls.size()) != static_cast<ssize_t>(urls.size()))
        spdlog::warn("the URLs cannot be written to --ready-fd {}: {}", options_.ready_fd,
                     std::strerror(errno));
      close(options_.ready_fd);
    }
  }

  // ---- signals --------------------------------------------------------------------------------------------
  void wait_for_signal() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (error) return;
      if (signal == SIGHUP) {
        reload();
      } else {
        stop(signal);
      }
      wait_for_signal();
    });
  }

  // Read by a thread of its own: model files may lie on a slow disk, and no stream waits for one.
  void reload() {
    if (draining_) return;
    if (std::exchange(reading_, true)) {
      read_again_ = true;
      return;
    }
    notifier_.reloading();
    reader_ = std::jthread([this, files = files_]() mutable {
      auto settings = settings::load_settings(options_.source, files.models);
      if (settings)
        if (auto fits = settings::fit_connections(settings::raise_file_limit(), (*settings)->config,
                                                  own_engines_of(**settings).size());
            !fits)
          settings = pass(fits);
      if (settings) {
        read_measured(**settings, engines_, ledger_, files.digests);
        api::read_kept_prompts(**settings);
      }
      asio::post(io_, [this, settings = std::move(settings), files = std::move(files)]() mutable {
        files_ = std::move(files);
        use(std::move(settings));
      });
    });
  }
  void use(Result<std::shared_ptr<settings::Settings>> settings) {
    reading_ = false;
    if (draining_) return;
    if (!settings) {
      spdlog::error("reload refused, the old configuration stays: {}", describe(settings.error()));
      gateway_.reload_failed();
      reload_failed_ = true;
    } else {
      reload_failed_ = false;
      for (const std::string& key : settings::fixed_at_start(started_with_, (*settings)->config))
        spdlog::warn("{} changed: the daemon goes on as it was started until it is restarted", key);
      (*settings)->config.listeners =
          started_with_.listeners;  // hosts that are served are those of its sockets
      settings_ = std::move(*settings);
      refresh_.set(settings_->config.calibrate);
      systemd::set_log_level(options_.log_level.value_or(settings_->config.log_level));
      fleet_->set_own_engines(own_engines_of(*settings_));
      fleet_->reload(settings_->config, settings_->files.stamps);
      gateway_.reload(settings_);
      forget_old_apps();
      spdlog::info("configuration reloaded");
      warn_of_files(*settings_);
    }
    notifier_.ready(status_line());
    if (std::exchange(read_again_, false)) reload();
  }

  // KV on the disk of apps that the configuration has not any more. What an engine still holds of one it may
  // write later: that goes at the next start or reload.
  void forget_old_apps() {
    if (settings_->config.kv_spill.directory.empty()) return;
    // A sweep that still runs is stopped between two reads, and its end begins the next one: nothing waits
    // here for the disk.
    if (sweeping_) {
      sweep_again_ = true;
      sweep_.request_stop();
      return;
    }
    sweeping_ = true;
    std::vector<std::string> apps;
    for (const config::AppManifest& app : settings_->apps) apps.push_back(app.id);
    // The thread has kv_directory_ until it posts.
    sweep_ = std::jthread([this, kv = settings_->config.kv_spill,
                           apps = std::move(apps)](const std::stop_token& stop) {
      sweep(kv, apps, stop);
      asio::post(io_, [this] {
        sweeping_ = false;
        if (std::exchange(sweep_again_, false) && !draining_) forget_old_apps();
      });
    });
  }
  // nullopt: no engine writes KV there, or the directory cannot be used (the log has the reason), or another
  // daemon's sweep was still running when stop was requested.
  static std::optional<spill::SharedDirectory> enter(const config::KvSpill& kv, const std::stop_token& stop) {
    std::error_code error;
    if (kv.directory.empty() || (kv.max_bytes == 0 && !std::filesystem::exists(kv.directory, error)))
      return std::nullopt;
    auto entered = spill::SharedDirectory::enter(kv.directory, stop);
    if (entered) return std::move(*entered);
    if (entered.error().code != ErrorCode::cancelled)
      spdlog::warn("cannot use the directory for KV on the disk: {}", describe(entered.error()));
    return std::nullopt;
  }
  // Enters without a wait. The sweep's thread tries again.
  static std::optional<spill::SharedDirectory> enter_at_once(const config::KvSpill& kv) {
    std::stop_source now;
    now.request_stop();
    return enter(kv, now.get_token());
  }
  void sweep(const config::KvSpill& kv, const std::vector<std::string>& apps, const std::stop_token& stop) {
    if (!kv_directory_ || !kv_directory_->is_at(kv.directory)) kv_directory_ = enter(kv, stop);
    if (!kv_directory_) return;
    const auto removed = kv_directory_->sweep(apps, stop);
    if (!removed && removed.error().code == ErrorCode::cancelled) return;
    if (!removed)
      spdlog::warn("cannot remove the KV of former apps from the disk: {}", describe(removed.error()));
    else if (!*removed)
      spdlog::info("keeping the KV of former apps: another daemon uses {}, too", kv.directory.string());
    else if (**removed > 0)
      spdlog::info("removed the KV of former apps from the disk: {} files", **removed);
  }

  void stop(int signal) {
    if (std::exchange(draining_, true)) {
      spdlog::warn("stopping now, {} requests are cut off", gateway_.requests_in_flight());
      io_.stop();
      return;
    }
    const auto deadline = steady_clock::now() + settings_->config.drain_timeout;
    spdlog::info("signal {}: draining {} requests, at most {} s; a second signal stops at once", signal,
                 gateway_.requests_in_flight(), settings_->config.drain_timeout.count() / 1000);
    notifier_.stopping("draining " + std::to_string(gateway_.requests_in_flight()) + " requests");
    refresh_.stop();
    gateway_.drain(deadline,
                   [this] { fleet_->drain(steady_clock::now() + kFleetExit, [this] { io_.stop(); }); });
  }

  // ---- measuring while nothing is asked -------------------------------------------------------------------
  calibrate::IdleRefresh::Host idle_host() {
    return {
        .busy = [this] { return was_busy(); },
        .due = [this] { return due(); },
        .due_ceilings = [this] { return due_ceilings(); },
        .lend =
            [this](const calibrate::IdleRefresh::Work& work, const MemoryNeed& need, auto give_back) {
              return fleet_->lend(work.model, work.engine.backend, need, std::move(give_back));
            },
        .keep = [this](const measure::Subject& subject,
                       std::vector<measure::Figure> figures) { keep_measured(subject, std::move(figures)); },
        .look_after = [this](milliseconds delay) { look_at_idle_after(delay); }};
  }
  bool was_busy() {
    const std::uint64_t finished = gateway_.inferences_finished();
    const bool loads = std::ranges::any_of(fleet_->status(), [](const fleet::WorkerStatus& worker) {
      return worker.state == fleet::WorkerState::starting;
    });
    return std::exchange(finished_, finished) != finished || gateway_.requests_in_flight() > 0 ||
           gateway_.computes_prefixes() || loads || reading_;
  }
  std::vector<calibrate::IdleRefresh::Work> due() {
    if (store_ == nullptr) return {};  // nowhere to keep it
    return calibrate::unmeasured(settings_->config, settings_->measured, engines_, device_memory_,
                                 fleet_->memory(), std::time(nullptr) + kRefreshBefore.count());
  }
  std::vector<calibrate::IdleRefresh::Work> due_ceilings() {
    if (store_ == nullptr) return {};
    return calibrate::unmeasured_ceilings(settings_->config, settings_->measured, engines_, device_memory_,
                                          std::time(nullptr) + kRefreshBefore.count());
  }
  void look_at_idle_after(milliseconds delay) {
    idle_timer_.expires_after(delay);
    idle_timer_.async_wait([this](boost::system::error_code error) {
      if (!error) refresh_.look();
    });
  }
  void keep_measured(const measure::Subject& subject, std::vector<measure::Figure> figures) {
    store_->post([subject, figures = std::move(figures)](store::Database& database) {
      return measure::put(database, subject, figures);
    });
    look_at_measured();
  }
  // The writer's thread reads them, and model files; all else of the settings stays.
  void look_at_measured() {
    store_->look([this, base = settings_, engines = engines_, ledger = ledger_,
                  digests = files_.digests](store::Database& database) mutable {
      const auto measured = measure::load(database, std::time(nullptr));
      if (!measured) return spdlog::warn("what was measured is not known: {}", describe(measured.error()));
      measure::Book book(*measured, engines, base->config.models,
                         {calibrate::sizes_of(base->config.models, base->files.infos), ledger, &digests});
      asio::post(io_, [this, base, book = std::move(book)]() mutable {
        if (draining_) return;
        if (settings_ != base) return look_at_measured();  // a reload came between
        auto settings = std::make_shared<settings::Settings>(*base);
        settings->measured = std::move(book);
        settings_ = std::move(settings);
        gateway_.reload(settings_);
        if (reload_failed_) gateway_.reload_failed();  // this was none
      });
    });
  }

  // ---- systemd --------------------------------------------------------------------------------------------
  void watch() {
    if (!notifier_.watchdog_interval()) return;
    watch_timer_.expires_after(*notifier_.watchdog_interval());
    watch_timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      look();
      watch();
    });
  }
  void look() {
    systemd::Observation seen;
    seen.finished = gateway_.requests_finished();
    for (const fleet::WorkerStatus& worker : fleet_->status()) {
      seen.engine_steps += worker.load.steps + worker.load.completion_tokens;
      seen.worst_engine = std::max(seen.worst_engine, worker.without_progress);
    }
    seen.waiting = seen.worst_engine > milliseconds(0);
    if (!judge_.healthy(seen, steady_clock::now())) {
      spdlog::critical("an engine holds requests and made no step for {} s: the watchdog is not fed",
                       seen.worst_engine.count() / 1000);
      return;
    }
    notifier_.watchdog();
    if (std::string line = status_line(); !draining_ && line != last_status_) {
      notifier_.status(line);
      last_status_ = std::move(line);
    }
  }
  std::string status_line() const {
    std::size_t ready = 0;
    for (const fleet::WorkerStatus& worker : fleet_->status())
      ready += worker.state == fleet::WorkerState::ready;
    return std::to_string(settings_->config.models.size()) + " models, " + std::to_string(ready) +
           " engines loaded, " + std::to_string(gateway_.requests_in_flight()) + " requests running";
  }

  const DaemonOptions options_;
  std::shared_ptr<const settings::Settings> settings_;
  const config::Config started_with_;
  KnownFiles files_;
  asio::io_context io_{1};
  const policy::Facts hardware_;
  const std::vector<fleet::DeviceMemory> device_memory_;
  const std::vector<measure::Engine> engines_;     // as probed: measurements are kept by device and driver
  const std::shared_ptr<measure::PredictionLedger> ledger_;  // of what was predicted
  const std::unique_ptr<store::Writer> store_;     // nullptr: there is no state directory that can be written
  measure::Outcomes outcomes_;
  // Entered before the first engine writes there, and left after the last one has. Used by sweep_'s thread
  // while it runs.
  std::optional<spill::SharedDirectory> kv_directory_;
  std::unique_ptr<fleet::Fleet> fleet_;
  api::Gateway gateway_;
  calibrate::IdleRefresh refresh_;
  asio::steady_timer idle_timer_;  // its
  asio::signal_set signals_;
  asio::steady_timer watch_timer_;
  systemd::Notifier notifier_;
  systemd::ProgressJudge judge_;
  std::string last_status_;
  bool draining_ = false, reload_failed_ = false;
  std::uint64_t finished_ = 0;                 // requests, when it was last asked whether there were any
  bool reading_ = false, read_again_ = false;  // settings: being read; asked for meanwhile
  bool sweeping_ = false, sweep_again_ = false;  // KV of former apps: being removed; asked for meanwhile
  std::jthread sweep_;
  std::jthread reader_;                        // last: it ends before what it uses
};

// Made for this user alone. One that is there already stays as it is: others may have been let in on purpose.
Result<void> make_state_dir(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory.parent_path(), error);
  if (::mkdir(directory.c_str(), 0700) == 0) return {};
  const int why = errno;
  struct stat s {};
  if (::stat(directory.c_str(), &s) != 0 || !S_ISDIR(s.st_mode))
    return fail(ErrorCode::io_error, std::string(std::strerror(why)) + ".", {}, directory.string());
  if ((s.st_mode & 077U) != 0)
    spdlog::warn("the state directory is open to other users (mode {:o}): chmod 700 {}", s.st_mode & 07777U,
                 directory.string());
  return {};
}

// A daemon without a memory of its past serves all the same.
struct Store {
  config::FileLock lock;  // of the state directory; outlives the database
  std::optional<store::Database> database;
  std::optional<store::SetAside> set_aside;
  bool past_unread = false;  // the file is there or may be, with what was in it
};
// io_error: another process has the state directory.
Result<Store> open_store(const std::filesystem::path& state_dir, std::int64_t now) {
  if (state_dir.empty()) {
    spdlog::warn("no state directory is known: nothing survives a restart");
    return Store{};
  }
  const std::filesystem::path directory = state_dir.has_filename() ? state_dir : state_dir.parent_path();
  std::error_code error;
  if (const auto made = make_state_dir(directory); !made) {
    spdlog::warn("the state directory cannot be made, nothing survives a restart: {} ({})",
                 made.error().message, made.error().where);
    // A link to a disk that is not mounted, or a directory that cannot be looked at, may hold a past.
    const auto found = std::filesystem::symlink_status(directory, error).type();
    return Store{{}, std::nullopt, std::nullopt, found != std::filesystem::file_type::not_found};
  }
  const std::filesystem::path file = store::file_in(directory);
  const bool has_past =
      std::filesystem::file_size(file, error) > 0 && error != std::errc::no_such_file_or_directory;
  auto lock = store::lock_state(directory);
  if (!lock && lock.error().in_use) return std::unexpected(std::move(lock.error().error));
  if (!lock) {
    spdlog::error("the state database is not used, nothing survives a restart: {}",
                  describe(lock.error().error));
    return Store{{}, std::nullopt, std::nullopt, has_past};
  }
  auto opened = store::Database::open_for_daemon(file, now);
  if (!opened) {
    spdlog::error("the state database is not used, nothing survives a restart: {}", describe(opened.error()));
    return Store{std::move(*lock), std::nullopt, std::nullopt, has_past};
  }
  if (opened->set_aside) {
    spdlog::error("the state database was damaged, it is kept as {} and a new one begun: {}",
                  opened->set_aside->file.string(), opened->set_aside->why);
    for (const auto& old : opened->set_aside->removed)
      spdlog::warn("removed {}: {} damaged state databases are kept", old.string(),
                   store::Database::kKeptDamaged);
  }
  return Store{std::move(*lock), std::move(opened->database), std::move(opened->set_aside), false};
}

// Brings the usage that a damaged file still shows into the new one.
usage::Past salvaged_usage(Store& state, const std::vector<std::string>& apps, std::int64_t today) {
  auto damaged = store::Database::open(state.set_aside->file, store::Database::Access::salvage);
  usage::Past past;
  if (damaged)
    past = usage::salvage(*damaged, apps, today);
  else
    for (const std::string& app : apps) past.lost.emplace_back(app, today);
  // A lost use stays lost for its day, however often a daemon starts.
  const auto written = state.database->transaction([&] {
    auto done = usage::write(*state.database, past.days);
    return done ? usage::write_lost(*state.database, past.lost, today) : done;
  });
  if (!written) spdlog::error("salvaged usage cannot be written: {}", describe(written.error()));
  const auto lost_today = std::ranges::count(apps, true, [&](const std::string& app) {
    return std::ranges::find(past.lost, std::pair(app, today)) != past.lost.end();
  });
  spdlog::warn("salvaged {} days of apps from the damaged state database; today of {} apps cannot be read",
               past.days.size(), lost_today);
  return past;
}

// Budgets of a day go on where the last daemon left them. By count, not by date: the clock may be wrong, and
// be set right while this daemon runs. Where today's use of an app is not known it is not taken for nothing.
usage::Past usage_lately(Store& state, const settings::Settings& settings, std::int64_t today) {
  std::vector<std::string> apps;
  for (const config::AppManifest& app : settings.apps) apps.push_back(app.id);
  usage::Past past;
  if (state.set_aside) {
    past = salvaged_usage(state, apps, today);
  } else if (state.database) {
    auto rows = usage::read_latest(*state.database, usage::DailyUsage::kKeptDays + 1);
    auto lost = rows ? usage::read_lost(*state.database) : Result<usage::LostDays>(pass(std::as_const(rows)));
    if (lost) {
      past = {std::move(*rows), std::move(*lost)};
    } else {
      spdlog::error("usage cannot be read from the state database: {}", describe(lost.error()));
      state.past_unread = true;
    }
  }
  if (state.past_unread)
    for (const std::string& app : apps) past.lost.emplace_back(app, today);
  for (const config::AppManifest& app : settings.apps)
    if (app.limits.tokens_per_day > 0 &&
        std::ranges::find(past.lost, std::pair(app.id, today)) != past.lost.end())
      spdlog::error("refusing requests until midnight UTC: the app's use of its tokens_per_day {} | app={}",
                    state.past_unread ? "cannot be read; a restart of the daemon tries again"
                                      : "is lost with a damaged state database",
                    app.id);
  return past;
}

std::shared_ptr<measure::PredictionLedger> ledger_of(std::optional<store::Database>& database) {
  if (!database) return std::make_shared<measure::PredictionLedger>();
  auto ledger = measure::load_ledger(*database);
  if (ledger) return std::make_shared<measure::PredictionLedger>(std::move(*ledger));
  spdlog::warn("what was predicted and what it was is not known: {}", describe(ledger.error()));
  return std::make_shared<measure::PredictionLedger>();
}

}  // namespace

std::expected<void, StartFailure> run_daemon(const DaemonOptions& options) {
  // Before the first thread, so that all threads and children have it, also without the unit's
  // NoNewPrivileges=.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return std::unexpected(
        StartFailure{{ErrorCode::io_error,
                      std::string("Cannot give up new privileges: ") + std::strerror(errno) + ".",
                      {},
                      {}}});
  mallopt(M_MMAP_THRESHOLD, kReturnedAt);
  systemd::set_up_logging(options.log_level.value_or("info"));
  KnownFiles files;
  auto settings = settings::load_settings(options.source, files.models);
  if (!settings) return std::unexpected(StartFailure{std::move(settings.error()), true});
  systemd::set_log_level(options.log_level.value_or((*settings)->config.log_level));
  spdlog::info(
      "flyball {} starting, configuration {}", FLYBALL_VERSION,
      options.source.config.empty() ? std::string(settings::kShippedConfig) : options.source.config.string());
  if (auto fits = settings::fit_connections(settings::raise_file_limit(), (*settings)->config,
                                            own_engines_of(**settings).size());
      !fits)
    return std::unexpected(StartFailure{std::move(fits.error()), true});
  const config::Config& config = (*settings)->config;
  const std::int64_t now = std::time(nullptr);
  // Before an engine is started or anything is removed.
  auto opened = open_store(config.state_dir, now);
  if (!opened) return std::unexpected(StartFailure{std::move(opened.error()), false});
  Store& state = *opened;
  probe::ProbeOptions probe;
  probe.timeout = options.probe_timeout;
  const probe::HardwareReport report = probe::probe_hardware(probe);
  policy::Facts hardware = probe::facts_of(report, config.devices, (*settings)->tree->targets);
  fleet::FleetOptions fleet;
  fleet.devices = probe::opened_devices(report, config.devices);
  fleet.device_memory = probe::device_memory(report, fleet.devices);
  fleet.own_engines = own_engines_of(**settings);
  usage::Past past = usage_lately(state, **settings, now / 86'400);
  auto engines = calibrate::engines_of(report, config);
  auto ledger = ledger_of(state.database);
  read_measured(**settings, engines, ledger, files.digests);
  api::read_kept_prompts(**settings);
  warn_of_files(**settings);
  auto ended =
      Daemon(options, std::move(*settings), std::move(files), std::move(hardware), std::move(engines),
             std::move(fleet), std::move(past), std::move(ledger), std::move(state.database))
          .run();
  if (!ended) return std::unexpected(StartFailure{std::move(ended.error()), false});
  return {};
}

}  // namespace flyball::serve
