// Routing under recorded load over simulated engines (tests/bench/simulation/world.hpp says which code is
// real): Flyball beside every engine alone, round robin, least queue, prefix cache and load together, and a
// clairvoyant bound, by machine and load; and beside a discrete GPU what the engine of the profile `aside`
// adds on the cores.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "daemon/settings/config_files.hpp"
#include "tests/bench/program.hpp"
#include "tests/bench/simulation/clairvoyant.hpp"
#include "tests/bench/simulation/flyball_router.hpp"
#include "tests/bench/simulation/hash.hpp"
#include "tests/bench/simulation/measure.hpp"
#include "tests/bench/simulation/routers.hpp"

namespace {

using namespace flyball;
using namespace flyball::simulation;
using nlohmann::ordered_json;

// The floors of the issue that this program is held to.
// Least share of the best simple way's goodput, at every load of which that way carries so much.
constexpr double kOfBestSimple = 0.98, kSimpleCarries = 0.5;
// The same of the clairvoyant bound's goodput.
constexpr double kOfClairvoyant = 0.9, kBoundCarries = 0.8;
constexpr double kBesideBatchGpu = 1.3, kBesideBatchCpu = 1.6;  // p99 TTFT beside batch work to without
// With `aside`: p99 TTFT and TPOT beside batch work to without, and the share of idle time that it computes.
constexpr double kBesideAside = 1.1, kOfIdle = 0.8;

struct Options {
  std::string traces = "../shared/data/traces", policy;
  std::vector<std::string> machines;
  std::uint32_t interactive = 400, search = 40, seeds = 10;
  std::uint64_t seed = 1;
  unsigned threads = 2;
  bool json = false, synthetic = false;
};

struct Contender {
  std::string name;
  std::function<std::unique_ptr<Router>(const MachineSpec&)> make;
  bool simple = true;  // a compared simple way; else Flyball itself
};

// `policy` is Flyball's, and outlives them.
std::vector<Contender> contenders_of(const MachineSpec& machine, const policy::Tree& policy) {
  std::vector<Contender> out;
  for (std::size_t i = 0; i < machine.engines.size(); ++i)
    out.push_back({"only " + machine.engines[i].id,
                   [i](const MachineSpec&) { return std::make_unique<OneEngine>(i); }});
  if (machine.engines.size() > 1) {
    out.push_back({"round robin", [](const MachineSpec&) { return std::make_unique<RoundRobinRouter>(); }});
    out.push_back({"least queue", [](const MachineSpec&) { return std::make_unique<LeastQueue>(); }});
    out.push_back({"prefix and load", [](const MachineSpec&) { return std::make_unique<PrefixAndLoad>(); }});
  }
  out.push_back(
      {"flyball",
       [&policy](const MachineSpec& spec) { return make_flyball_router(spec, policy, trace_apps()); },
       false});
  return out;
}

struct Row {
  std::string router;
  Figures figures;
};
struct Ratios {  // of p99s beside batch work to those without, of the requests that came while it was open
  double ttft = 0, tpot = 0;  // 0: none did
};
// Flyball beside a GPU, where batch work has until the morning: medians of several loads.
struct Night {
  Ratios ratios;
  double within_slo = 0;    // share of interactive requests
  double batch_tokens = 0;  // a second
  double batch_done = 0;    // share of batch requests that ended while requests still arrived
  double idle_used = 0;     // World::Yielding: used / idle, the least; 0: the machine has no such engine
  double held = 0;          // seconds in all loads
};
struct Nights {
  Night shared;  // the profile `aside` has no engine
  Night tree;    // it has one, and the policy chooses
  Night aside;   // all batch work is there
};
struct Cell {  // one machine at one load
  double share = 0, offered = 0;
  std::size_t requests = 0;
  std::vector<Row> rows;
  Figures bound;
  Figures without_batch;  // Flyball without the batch requests
  Ratios ratios;
  std::optional<Nights> nights;
};
struct Report {  // of one machine
  const MachineSpec* machine = nullptr;
  std::vector<Cell> cells;
};

struct Bench {
  const Traces& traces;
  const Options& options;
  const policy::Tree& policy;

  Load load_of(const MachineSpec& machine, double share, bool batch = true,
               std::optional<std::uint64_t> seed = {}) const {
    Load load = make_load(traces, {share, options.interactive, batch, seed.value_or(options.seed)});
    set_slos(machine, load.requests);
    return load;
  }
  std::uint64_t noise_seed(double share, std::optional<std::uint64_t> seed = {}) const {
    return mixed(seed.value_or(options.seed) + static_cast<std::uint64_t>(1 / share));
  }
  struct Run {
    Figures figures;
    std::vector<Outcome> outcomes;
    std::optional<World::Yielding> yielding;
    std::vector<Placement> plan() const { return {outcomes.begin(), outcomes.end()}; }
  };
  Run run(const MachineSpec& machine, const Load& load, Router& router, double share,
          std::span<const config::AppManifest> apps = trace_apps(),
          std::optional<std::uint64_t> seed = {}) const {
    World world(machine, apps, load.requests, router, noise_seed(share, seed));
    world.run();
    return {figures_of(world, load.seconds),
            {world.outcomes().begin(), world.outcomes().end()},
            world.yielding()};
  }

  Cell cell(const MachineSpec& machine, double share) const {
    const Load load = load_of(machine, share);
    Cell cell;
    cell.share = share;
    cell.requests = load.requests.size();
    std::vector<std::vector<Placement>> plans;
    for (const Contender& contender : contenders_of(machine, policy)) {
      const Run with = run(machine, load, *contender.make(machine), share);
      plans.push_back(with.plan());
      cell.rows.push_back({contender.name, with.figures});
      if (contender.simple) continue;
      const Load people = load_of(machine, share, false);
      const Run without = run(machine, people, *contender.make(machine), share);
      cell.without_batch = without.figures;
      cell.ratios = ratios_of(load, with.outcomes, people, without.outcomes);
    }
    if (machine.has_discrete_gpu()) {
      const MachineSpec more = with_aside(machine);
      const std::size_t aside = more.engines.size() - 1;
      cell.nights = {night(machine, share), night(more, share), night(more, share, aside)};
    }
    cell.offered = static_cast<double>(cell.rows.front().figures.interactive) / load.seconds;
    LeastTrueWork by_work;
    plans.push_back(run(machine, load, by_work, share).plan());
    cell.bound = clairvoyant(machine, load.requests, load.seconds, plans, noise_seed(share),
                             {options.search, options.seed});
    return cell;
  }

  // batch: the engine of all batch work; nullopt: the policy chooses.
  Night night(const MachineSpec& machine, double share, std::optional<std::size_t> batch = {}) const {
    std::vector<config::AppManifest> apps(trace_apps().begin(), trace_apps().end());
    apps[AppId::batch].slo.deadline = std::chrono::hours(12);
    Night out;
    std::vector<double> ttft, token, within, tokens, done, used;
    for (std::uint64_t seed = options.seed; seed < options.seed + options.seeds; ++seed) {
      const Load load = load_of(machine, share, true, seed), people = load_of(machine, share, false, seed);
      std::unique_ptr<Router> router = make_flyball_router(machine, policy, apps);
      if (batch) router = std::make_unique<BatchTo>(*batch, std::move(router));
      const Run with = run(machine, load, *router, share, apps, seed);
      const Run without =
          run(machine, people, *make_flyball_router(machine, policy, apps), share, apps, seed);
      const Ratios ratios = ratios_of(load, with.outcomes, people, without.outcomes);
      if (ratios.ttft > 0) {
        ttft.push_back(ratios.ttft);
        token.push_back(ratios.tpot);
      }
      within.push_back(with.figures.share());
      tokens.push_back(with.figures.batch_tokens_per_second);
      done.push_back(with.figures.batch_done);
      if (!with.yielding) continue;
      if (with.yielding->idle > 0) used.push_back(with.yielding->used / with.yielding->idle);
      out.held += with.yielding->held;
    }
    out.ratios = {quantile(ttft, 0.5), quantile(token, 0.5)};
    out.within_slo = quantile(within, 0.5);
    out.batch_tokens = quantile(tokens, 0.5);
    out.batch_done = quantile(done, 0.5);
    if (!used.empty()) out.idle_used = std::ranges::min(used);
    return out;
  }

  // The same requests, those that came while batch work was open, with it and without it.
  static Ratios ratios_of(const Load& load, const std::vector<Outcome>& with, const Load& people,
                          const std::vector<Outcome>& without) {
    std::vector<double> ttft, ttft_without, token, token_without;
    for (std::size_t i = 0, j = 0; i < load.requests.size(); ++i) {
      if (!load.requests[i].interactive) continue;
      if (with[i].beside_batch) {
        ttft.push_back(with[i].first_token - load.requests[i].at);
        ttft_without.push_back(without[j].first_token - people.requests[j].at);
        token.push_back(tpot(with[i]));
        token_without.push_back(tpot(without[j]));
      }
      ++j;
    }
    if (ttft.empty()) return {};
    return {quantile(ttft, 0.99) / quantile(ttft_without, 0.99),
            quantile(token, 0.99) / quantile(token_without, 0.99)};
  }
};

// Runs the jobs on so many threads; every job writes what is its own.
void run_all(const std::vector<std::function<void()>>& jobs, unsigned threads) {
  std::atomic<std::size_t> next{0};
  std::vector<std::jthread> pool;
  for (unsigned i = 0; i < threads; ++i)
    pool.emplace_back([&] {
      for (std::size_t job = next++; job < jobs.size(); job = next++) jobs[job]();
    });
}

struct Floor {
  std::string name;
  double least_or_most = 0, worst = 0;
  bool at_most = false;
  std::string where;
  bool held() const noexcept { return at_most ? worst <= least_or_most : worst >= least_or_most; }
};

std::string share_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "1/%.4g", 1 / share);
  return text;
}

const Figures* find(const Cell& cell, bool simple) {
  const Figures* best = nullptr;
  for (const Row& row : cell.rows)
    if ((row.router != "flyball") == simple && (best == nullptr || row.figures.goodput > best->goodput))
      best = &row.figures;
  return best;
}

std::vector<Floor> floors_of(const Report& report) {
  Floor simple{"goodput beside the best simple way", kOfBestSimple, 1e9, false, {}};
  Floor bound{"goodput beside the clairvoyant bound", kOfClairvoyant, 1e9, false, {}};
  const bool gpu = report.machine->has_discrete_gpu();
  Floor batch{
      "p99 TTFT beside the batch app to without", gpu ? kBesideBatchGpu : kBesideBatchCpu, 0, true, {}};
  Floor aside_ttft{"p99 TTFT beside batch work at aside to without", kBesideAside, 0, true, {}};
  Floor aside_tpot{"p99 TPOT beside batch work at aside to without", kBesideAside, 0, true, {}};
  Floor tree_ttft{"p99 TTFT beside batch work with a deadline to without", kBesideBatchGpu, 0, true, {}};
  Floor tree_tpot{"p99 TPOT beside batch work with a deadline to without", kBesideBatchGpu, 0, true, {}};
  Floor aside_use{"share of the cores' idle time in which aside computes", kOfIdle, 1e9, false, {}};
  const auto lower = [](Floor& floor, double value, const std::string& where) {
    if (floor.at_most ? value > floor.worst : value < floor.worst) {
      floor.worst = value;
      floor.where = where;
    }
  };
  for (const Cell& cell : report.cells) {
    const Figures* ours = find(cell, false);
    const std::string at = share_text(cell.share);
    const Figures* best = find(cell, true);
    if (best->share() >= kSimpleCarries) lower(simple, ours->goodput / best->goodput, at);
    if (cell.bound.share() >= kBoundCarries) lower(bound, ours->goodput / cell.bound.goodput, at);
    if (cell.ratios.ttft > 0) lower(batch, cell.ratios.ttft, at);
    if (!cell.nights || cell.nights->aside.ratios.ttft == 0) continue;
    lower(aside_ttft, cell.nights->aside.ratios.ttft, at);
    lower(aside_tpot, cell.nights->aside.ratios.tpot, at);
    lower(tree_ttft, cell.nights->tree.ratios.ttft, at);
    lower(tree_tpot, cell.nights->tree.ratios.tpot, at);
    lower(aside_use, cell.nights->tree.idle_used, at);
  }
  std::vector<Floor> out{simple, bound, batch, aside_ttft, aside_tpot, tree_ttft, tree_tpot, aside_use};
  std::erase_if(out, [](const Floor& floor) { return floor.where.empty(); });
  return out;
}

ordered_json json_of(const std::string& router, const Figures& f) {
  return {{"router", router},
          {"interactive", f.interactive},
          {"within_slo", f.share()},
          {"goodput_per_s", f.goodput},
          {"ttft_p50_s", f.ttft_p50},
          {"ttft_p99_s", f.ttft_p99},
          {"batch_tokens_per_s", f.batch_tokens_per_second},
          {"batch_done", f.batch_done},
          {"interactive_on", f.interactive_on},
          {"batch_on", f.batch_on},
          {"moved", f.moved}};
}

ordered_json json_of(const Report& report) {
  ordered_json out{{"machine", report.machine->id}, {"loads", ordered_json::array()}};
  for (const EngineSpec& engine : report.machine->engines) out["engines"].push_back(engine.id);
  for (const Cell& cell : report.cells) {
    ordered_json load{{"share", cell.share}, {"requests", cell.requests}, {"offered_per_s", cell.offered}};
    for (const Row& row : cell.rows) load["routers"].push_back(json_of(row.router, row.figures));
    load["routers"].push_back(json_of("clairvoyant", cell.bound));
    load["routers"].push_back(json_of("flyball without batch", cell.without_batch));
    if (cell.ratios.ttft > 0) load["ttft_p99_beside_batch"] = cell.ratios.ttft;
    const auto add = [&](const char* name, const Night& night) {
      load["until_morning"][name] = {{"ttft_p99_beside_batch", night.ratios.ttft},
                                     {"tpot_p99_beside_batch", night.ratios.tpot},
                                     {"within_slo", night.within_slo},
                                     {"batch_tokens_per_s", night.batch_tokens},
                                     {"batch_done", night.batch_done},
                                     {"idle_used", night.idle_used},
                                     {"held_s", night.held}};
    };
    if (cell.nights) {
      add("shared", cell.nights->shared);
      add("aside", cell.nights->tree);
      add("all_aside", cell.nights->aside);
    }
    out["loads"].push_back(std::move(load));
  }
  for (const Floor& floor : floors_of(report))
    out["floors"].push_back({{"floor", floor.name},
                             {floor.at_most ? "most" : "least", floor.least_or_most},
                             {"worst", floor.worst},
                             {"at", floor.where},
                             {"held", floor.held()}});
  return out;
}

void print_row(const MachineSpec& machine, const std::string& name, const Figures& f) {
  std::string on;
  for (std::size_t i = 0; i < machine.engines.size(); ++i)
    on += (i > 0 ? ", " : "") + machine.engines[i].id + " " + std::to_string(f.interactive_on[i]) + "+" +
          std::to_string(f.batch_on[i]);
  if (f.moved > 0) on += "; moved " + std::to_string(f.moved);
  std::printf("    %-22s %9.4f %6.1f %% %9.2f %9.2f %10.0f %6.0f %%   %s\n", name.c_str(), f.goodput,
              100 * f.share(), f.ttft_p50, f.ttft_p99, f.batch_tokens_per_second, 100 * f.batch_done,
              on.c_str());
}

void print(const char* name, const Night& night) {
  std::printf("    %-22s %9.2f %9.2f %8.1f %% %9.0f %7.0f %% %7.0f %% %9.0f\n", name, night.ratios.ttft,
              night.ratios.tpot, 100 * night.within_slo, night.batch_tokens, 100 * night.batch_done,
              100 * night.idle_used, night.held);
}

void print(const Report& report) {
  const MachineSpec& machine = *report.machine;
  std::printf("%s: %s\n", machine.id.c_str(), machine.what.c_str());
  for (const Cell& cell : report.cells) {
    std::printf("  load %s: %zu requests, %.4f interactive ones a second\n", share_text(cell.share).c_str(),
                cell.requests, cell.offered);
    std::printf("    %-22s %9s %8s %9s %9s %10s %8s   %s\n", "", "goodput/s", "in SLO", "TTFT p50",
                "TTFT p99", "batch t/s", "batch", "requests+batch by engine");
    for (const Row& row : cell.rows) print_row(machine, row.router, row.figures);
    print_row(machine, "clairvoyant", cell.bound);
    print_row(machine, "flyball without batch", cell.without_batch);
    if (cell.ratios.ttft > 0)
      std::printf("    while batch work is open: p99 TTFT %.2f, p99 TPOT %.2f times those without it\n",
                  cell.ratios.ttft, cell.ratios.tpot);
    if (!cell.nights) continue;
    std::printf("    %-22s %9s %9s %10s %9s %9s %9s %9s\n", "batch until morning", "TTFT p99x", "TPOT p99x",
                "in SLO", "batch t/s", "batch", "idle used", "held s");
    print("shared engines", cell.nights->shared);
    print("aside too", cell.nights->tree);
    print("all batch at aside", cell.nights->aside);
  }
  for (const Floor& floor : floors_of(report))
    std::printf("  floor: %s: %.3f, %s %.2f, at %s: %s\n", floor.name.c_str(), floor.worst,
                floor.at_most ? "at most" : "at least", floor.least_or_most, floor.where.c_str(),
                floor.held() ? "holds" : "FAILS");
}

Options parse(int argc, char** argv) {
  Options o;
  CLI::App app{"Routing under recorded load over simulated engines."};
  app.add_option("--traces", o.traces, "Folder of the recorded traces")->capture_default_str();
  app.add_option("--policy", o.policy, "Flyball's policy file; none: the shipped one");
  app.add_option("--machine", o.machines, "Machines by id: cpu, apu, gpu; none: all");
  app.add_option("--interactive", o.interactive, "Chat and code requests of each load")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  app.add_option("--search", o.search, "Assignments that the clairvoyant search tries")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Which requests are kept, and where the noise begins")
      ->capture_default_str();
  app.add_option("--seeds", o.seeds, "Loads with a deadline for batch work, by seeds from --seed on")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--threads", o.threads, "Simulations at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_flag("--synthetic", o.synthetic, "A made-up load instead of the traces: for tests of this program");
  app.add_flag("--json", o.json, "Figures as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 64);
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (!options.synthetic && !std::filesystem::exists(options.traces)) {
    std::printf("SKIPPED: %s is not there; name the folder of the traces with --traces\n",
                options.traces.c_str());
    return bench::kSkipped;
  }
  const Traces traces =
      options.synthetic ? synthetic_traces(options.seed) : bench::expect(read_traces(options.traces));
  const std::vector<MachineSpec> all = machines();
  for (const std::string& id : options.machines)
    if (std::ranges::find(all, id, &MachineSpec::id) == all.end())
      bench::die("there is no machine " + id + "; there are cpu, apu and gpu", 64);
  std::vector<Report> reports;
  for (const MachineSpec& machine : all)
    if (options.machines.empty() || std::ranges::find(options.machines, machine.id) != options.machines.end())
      reports.push_back({&machine, std::vector<Cell>(machine.shares.size())});

  const policy::Tree policy = bench::expect(settings::policy_at(options.policy));
  const Bench bench{traces, options, policy};
  std::vector<std::function<void()>> jobs;
  for (Report& report : reports)
    for (std::size_t i = 0; i < report.cells.size(); ++i)
      jobs.push_back([&, i] { report.cells[i] = bench.cell(*report.machine, report.machine->shares[i]); });
  run_all(jobs, options.threads);

  if (options.json) {
    ordered_json out{{"bench", "routing"}, {"seed", options.seed}, {"machines", ordered_json::array()}};
    for (const Report& report : reports) out["machines"].push_back(json_of(report));
    std::printf("%s\n", out.dump(1).c_str());
  } else {
    for (const Report& report : reports) print(report);
  }
  const bool all_hold = std::ranges::all_of(
      reports, [](const Report& report) { return std::ranges::all_of(floors_of(report), &Floor::held); });
  return all_hold ? 0 : 1;
}
