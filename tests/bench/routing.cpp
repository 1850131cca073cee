// Routing under recorded load over simulated engines (tests/bench/simulation/world.hpp says which code is
// real): Flyball beside every engine alone, round robin, least queue, prefix cache and load together, and a
// clairvoyant bound, by machine and load.
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

struct Options {
  std::string traces = "../shared/data/traces", policy;
  std::vector<std::string> machines;
  std::uint32_t interactive = 400, search = 40;
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
struct Cell {  // one machine at one load
  double share = 0, offered = 0;
  std::size_t requests = 0;
  std::vector<Row> rows;
  Figures bound;
  // Flyball without the batch requests, and how much longer the p99 TTFT is with them, of the requests that
  // came while batch work was open; 0: none did.
  Figures without_batch;
  double beside_batch = 0;
};
struct Report {  // of one machine
  const MachineSpec* machine = nullptr;
  std::vector<Cell> cells;
};

struct Bench {
  const Traces& traces;
  const Options& options;
  const policy::Tree& policy;

  Load load_of(const MachineSpec& machine, double share, bool batch = true) const {
    Load load = make_load(traces, {share, options.interactive, batch, options.seed});
    set_slos(machine, load.requests);
    return load;
  }
  std::uint64_t noise_seed(double share) const {
    return mixed(options.seed + static_cast<std::uint64_t>(1 / share));
  }
  struct Run {
    Figures figures;
    std::vector<Outcome> outcomes;
    std::vector<Placement> plan() const { return {outcomes.begin(), outcomes.end()}; }
  };
  Run run(const MachineSpec& machine, const Load& load, Router& router, double share) const {
    World world(machine, trace_apps(), load.requests, router, noise_seed(share));
    world.run();
    return {figures_of(world, load.seconds), {world.outcomes().begin(), world.outcomes().end()}};
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
      cell.beside_batch = beside_batch(load, with.outcomes, people, without.outcomes);
    }
    cell.offered = static_cast<double>(cell.rows.front().figures.interactive) / load.seconds;
    LeastTrueWork by_work;
    plans.push_back(run(machine, load, by_work, share).plan());
    cell.bound = clairvoyant(machine, load.requests, load.seconds, plans, noise_seed(share),
                             {options.search, options.seed});
    return cell;
  }

  static double beside_batch(const Load& load, const std::vector<Outcome>& with, const Load& people,
                             const std::vector<Outcome>& without) {
    std::vector<double> ttft, ttft_without;
    for (std::size_t i = 0, j = 0; i < load.requests.size(); ++i) {
      if (!load.requests[i].interactive) continue;
      if (with[i].beside_batch) {
        ttft.push_back(with[i].first_token - load.requests[i].at);
        ttft_without.push_back(without[j].first_token - people.requests[j].at);
      }
      ++j;
    }
    return ttft.empty() ? 0 : quantile(ttft, 0.99) / quantile(ttft_without, 0.99);
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
    if (cell.beside_batch > 0) lower(batch, cell.beside_batch, at);
  }
  std::vector<Floor> out{simple, bound, batch};
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
    if (cell.beside_batch > 0) load["ttft_p99_beside_batch"] = cell.beside_batch;
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
    if (cell.beside_batch > 0)
      std::printf("    flyball's p99 TTFT while batch work is open: %.2f times that without it\n",
                  cell.beside_batch);
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
