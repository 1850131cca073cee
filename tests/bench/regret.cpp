// Regret of a policy on simulated machines (tests/bench/simulation/world.hpp says which code is real): what
// the tree's choices cost beside the best fixed choice of engine and profile for each app, of apps alone and
// of two beside each other; and for each choice of the tree the case in which its nearest alternative costs
// most.
//
// Steps have no noise and engines are loaded at once: a fixed choice and a tree that makes the same choice
// cost exactly the same, so that the least of many costs is no lucky one.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "daemon/settings/config_files.hpp"
#include "policy/profile.hpp"
#include "tests/bench/program.hpp"
#include "tests/bench/simulation/calibration.hpp"
#include "tests/bench/simulation/closed_loop.hpp"
#include "tests/bench/simulation/flyball_router.hpp"
#include "tests/bench/simulation/hash.hpp"
#include "tests/bench/simulation/routers.hpp"

namespace {

using namespace flyball;
using namespace flyball::simulation;
using nlohmann::ordered_json;

constexpr double kMeanRegret = 0.05, kWorstRegret = 0.15;  // the floors of the issue
constexpr double kPairedCase = 0.1;  // that a choice's nearest alternative costs somewhere
constexpr std::uint32_t kPairedSeeds = 5;
constexpr std::size_t kClasses = 6, kShownCells = 10, kPairsInFull = 2;

struct Options {
  std::string policy;
  std::vector<std::string> machines;
  std::uint32_t seeds = 2, sample = 5;
  bool json = false;
};

struct Profile {
  std::string name;
  config::RequestSettings settings;
};
struct Choice {  // one target with one profile, for every request of an app
  std::string name;
  Placement placement;
  bool plain = false;  // its profile sets nothing
};

// The tree's own profiles, and those that this program always tries.
std::vector<Profile> profiles_of(const policy::Tree& tree) {
  using config::QueuePlace;
  std::vector<Profile> out{{"", {}}};
  const auto add = [&](const Profile& profile) {
    if (std::ranges::find(out, profile.settings, &Profile::settings) == out.end()) out.push_back(profile);
  };
  for (const policy::Profile& profile : tree.profiles) add({profile.id, profile.settings});
  add({"latency", {.place = QueuePlace::ahead}});
  add({"throughput", {.step_budget = std::chrono::milliseconds(300)}});
  add({"background", {.place = QueuePlace::behind}});
  return out;
}

struct Cost {
  double cost = 0;
  std::vector<AppCost> apps;
};
struct Chosen {  // by a tree, for most requests of an app
  std::string rule;
  std::size_t choice = 0;
  double share = 0;  // of the app's requests
};
struct Ran {
  Cost cost;
  std::vector<Chosen> chosen;  // by app
};

// A machine with the workloads that run on it.
class Machine {
 public:
  Machine(MachineSpec spec, const policy::Tree& tree) : spec_(std::move(spec)), tree_(tree) {
    for (std::size_t engine = 0; engine < spec_.engines.size(); ++engine) {
      spec_.engines[engine].load_seconds = 0;
      for (const Profile& profile : profiles_of(tree))
        choices_.push_back({spec_.engines[engine].target + (profile.name.empty() ? "" : ":" + profile.name),
                            {engine, profile.settings, {}},
                            profile.name.empty()});
    }
  }
  const MachineSpec& spec() const noexcept { return spec_; }
  const std::vector<Choice>& choices() const noexcept { return choices_; }

  // One app or two, each by its fixed choice. `cost_alone` is one number for each app.
  Cost fixed(std::span<const Workload> apps, std::span<const double> cost_alone,
             std::span<const std::size_t> choices, std::uint64_t seed) {
    std::vector<Placement> by_app;
    for (const std::size_t choice : choices) by_app.push_back(choices_[choice].placement);
    FixedByApp router(std::move(by_app));
    ClosedLoop loop(loop_of(apps, seed));
    World world(spec_, loop.manifests(), loop.first(), router, std::nullopt, &loop);
    world.run();
    return cost_of(world, apps, cost_alone);
  }
  Ran by_tree(std::span<const Workload> apps, std::span<const double> cost_alone, std::uint64_t seed) {
    ClosedLoop loop(loop_of(apps, seed));
    const std::unique_ptr<Router> router = make_flyball_router(spec_, tree_, loop.manifests());
    World world(spec_, loop.manifests(), loop.first(), *router, std::nullopt, &loop);
    world.run();
    Ran ran{cost_of(world, apps, cost_alone), {}};
    for (std::size_t app = 0; app < apps.size(); ++app) ran.chosen.push_back(chosen(world, app));
    return ran;
  }

 private:
  ClosedLoop loop_of(std::span<const Workload> apps, std::uint64_t seed) {
    std::vector<ClosedLoop::App> out;
    for (const Workload& app : apps) out.push_back({app, seconds_alone_of(app)});
    return {std::move(out), seed};
  }
  double seconds_alone_of(const Workload& app) {
    const std::pair key(app.prompt_tokens - app.shared_tokens, app.output_tokens);
    double& known = seconds_[key];
    if (known == 0) {
      known = std::numeric_limits<double>::infinity();
      for (const EngineSpec& engine : spec_.engines)
        known = std::min(known, seconds_alone(engine, ModelSpec{}, key.first, key.second));
    }
    return known;
  }
  static Cost cost_of(const World& world, std::span<const Workload> apps,
                      std::span<const double> cost_alone) {
    Cost out{0, costs_of(world, apps)};
    for (std::size_t i = 0; i < apps.size(); ++i)
      out.cost += out.apps[i].cost / cost_alone[i] / static_cast<double>(apps.size());
    return out;
  }
  Chosen chosen(const World& world, std::size_t app) const {
    std::map<std::pair<std::string, std::size_t>, std::size_t> times;
    std::size_t all = 0;
    for (std::size_t i = 0; i < world.requests().size(); ++i) {
      if (world.requests()[i].app != app || world.outcome(i).rule.empty()) continue;
      const Outcome& outcome = world.outcome(i);
      const auto choice = std::ranges::find_if(choices_, [&](const Choice& each) {
        return each.placement.engine == outcome.engine && each.placement.settings == outcome.settings;
      });
      ++times[{outcome.rule, static_cast<std::size_t>(choice - choices_.begin())}];
      ++all;
    }
    const auto most = std::ranges::max_element(times, {}, [](const auto& entry) { return entry.second; });
    return {most->first.first, most->first.second,
            static_cast<double>(most->second) / static_cast<double>(all)};
  }

  MachineSpec spec_;
  const policy::Tree& tree_;
  std::vector<Choice> choices_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> seconds_;
};

// One workload alone or two beside each other, with the costs of what was tried: means over seeds.
class Cell {
 public:
  using Choices = std::vector<std::size_t>;  // by app
  Cell(Machine& machine, std::vector<Workload> apps, std::vector<double> cost_alone, std::uint32_t seeds)
      : machine_(&machine), apps_(std::move(apps)), cost_alone_(std::move(cost_alone)), seeds_(seeds) {
    for (std::uint64_t seed = 1; seed <= seeds_; ++seed) {
      Ran ran = machine_->by_tree(apps_, cost_alone_, seed);
      tree_.cost += ran.cost.cost / seeds_;
      if (seed > 1) continue;
      tree_.apps = std::move(ran.cost.apps);  // for the report: of the first seed
      chosen_ = std::move(ran.chosen);
    }
  }

  const Cost& fixed(const Choices& choices) {
    const auto [at, added] = fixed_.try_emplace(choices);
    if (!added) return at->second;
    for (std::uint64_t seed = 1; seed <= seeds_; ++seed) {
      Cost cost = machine_->fixed(apps_, cost_alone_, choices, seed);
      at->second.cost += cost.cost / seeds_;
      if (seed == 1) at->second.apps = std::move(cost.apps);
    }
    return at->second;
  }
  // The best fixed choices: of one app all are tried. Of two apps all pairs of targets are tried without
  // profiles, then all profiles of the best pairs.
  void search() {
    const std::vector<Choice>& choices = machine_->choices();
    if (apps_.size() == 1) {
      for (std::size_t i = 0; i < choices.size(); ++i) fixed({i});
    } else {
      std::vector<std::pair<double, Choices>> pairs;
      for (std::size_t i = 0; i < choices.size(); ++i)
        for (std::size_t j = 0; j < choices.size(); ++j)
          if (choices[i].plain && choices[j].plain) pairs.push_back({fixed({i, j}).cost, {i, j}});
      std::ranges::sort(pairs);
      pairs.resize(std::min(pairs.size(), kPairsInFull));
      for (const auto& [cost, pair] : pairs)
        for (std::size_t i = 0; i < choices.size(); ++i)
          for (std::size_t j = 0; j < choices.size(); ++j)
            if (engine(i) == engine(pair[0]) && engine(j) == engine(pair[1])) fixed({i, j});
    }
    fixed(tree_choices());
    best_ = tree_choices();  // the best, where others are as good
    for (const auto& [tried, cost] : fixed_)
      if (cost.cost < fixed_.at(best_).cost) best_ = tried;
  }

  double regret() { return std::max(0.0, tree_.cost / fixed(best_).cost - 1); }
  const Cost& tree() const noexcept { return tree_; }
  const Choices& best() const noexcept { return best_; }
  const std::vector<Workload>& apps() const noexcept { return apps_; }
  const std::vector<Chosen>& chosen() const noexcept { return chosen_; }
  Choices tree_choices() const {
    Choices out;
    for (const Chosen& chosen : chosen_) out.push_back(chosen.choice);
    return out;
  }

  struct Alternative {
    double ratio = 0;  // its cost to that of the tree's choice
    std::size_t choice = 0;
  };
  // The best fixed choice for one app of some that are not the tree's, which the other app keeps.
  Alternative nearest_alternative(std::size_t app, const std::set<std::size_t>& among) {
    Alternative out{std::numeric_limits<double>::infinity(), tree_choices()[app]};
    for (const std::size_t choice : among) {
      Choices choices = tree_choices();
      if (std::exchange(choices[app], choice) == choice) continue;
      const double ratio = fixed(choices).cost / fixed(tree_choices()).cost;
      if (ratio < out.ratio) out = {ratio, choice};
    }
    return out;
  }
  Cell with_seeds(std::uint32_t seeds) const { return {*machine_, apps_, cost_alone_, seeds}; }

 private:
  std::size_t engine(std::size_t choice) const { return machine_->choices()[choice].placement.engine; }

  Machine* machine_;
  std::vector<Workload> apps_;
  std::vector<double> cost_alone_;
  std::uint32_t seeds_;
  Cost tree_;
  std::vector<Chosen> chosen_;
  std::map<Choices, Cost> fixed_;
  Choices best_;
};

struct Paired {  // a choice of the tree, in the cell where its nearest alternative costs most
  std::string rule;
  std::size_t choice = 0, cell = 0, app = 0;
  Cell::Alternative nearest;
  bool holds() const noexcept { return nearest.ratio >= 1 + kPairedCase; }
};

struct Summary {
  double mean = 0, worst = 0;
  bool holds() const noexcept { return mean <= kMeanRegret && worst <= kWorstRegret; }
};

struct Report {  // of one machine
  Machine machine;
  std::vector<Cell> cells;  // alone first, then in pairs
  std::vector<Paired> paired = {};

  Summary summary(std::size_t n_apps) {
    Summary out;
    std::size_t n = 0;
    for (Cell& cell : cells) {
      if (cell.apps().size() != n_apps) continue;
      out.mean += cell.regret();
      out.worst = std::max(out.worst, cell.regret());
      ++n;
    }
    out.mean /= static_cast<double>(std::max<std::size_t>(n, 1));
    return out;
  }
  std::string text(const Cell::Choices& choices) const {
    std::string out;
    for (const std::size_t choice : choices)
      out += (out.empty() ? "" : " + ") + machine.choices()[choice].name;
    return out;
  }
};

// For each rule and choice that the tree takes on a machine. Alternatives are its other choices there:
// profiles that change nothing for an app would be as near as can be.
std::vector<Paired> paired_cases(std::vector<Cell>& cells) {
  std::set<std::size_t> of_tree;
  for (const Cell& cell : cells)
    for (const Chosen& chosen : cell.chosen()) of_tree.insert(chosen.choice);
  std::map<std::pair<std::string, std::size_t>, Paired> most;
  for (std::size_t i = 0; i < cells.size(); ++i)
    for (std::size_t app = 0; app < cells[i].apps().size(); ++app) {
      const Chosen& chosen = cells[i].chosen()[app];
      const auto nearest = cells[i].nearest_alternative(app, of_tree);
      Paired& known = most[{chosen.rule, chosen.choice}];
      if (nearest.ratio > known.nearest.ratio) known = {chosen.rule, chosen.choice, i, app, nearest};
    }
  std::vector<Paired> out;
  if (of_tree.size() < 2) return out;  // a tree with one choice has no alternative
  for (auto& [key, paired] : most) {
    paired.nearest = cells[paired.cell].with_seeds(kPairedSeeds).nearest_alternative(paired.app, of_tree);
    out.push_back(paired);
  }
  return out;
}

// Each sampled workload alone, and beside one partner of the class whose turn it is.
void fill(Report& report, const std::vector<Workload>& all, const Options& options) {
  std::map<std::size_t, double> alone;
  const auto cost_alone = [&](std::size_t workload) {
    if (const auto known = alone.find(workload); known != alone.end()) return known->second;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t choice = 0; choice < report.machine.choices().size(); ++choice)
      least = std::min(
          least, report.machine.fixed({&all[workload], 1}, std::array{1.0}, std::array{choice}, 1).cost);
    return alone[workload] = least;
  };
  std::vector<Cell> pairs;
  std::size_t turn = 0;
  for (std::size_t i = 0; i < all.size(); i += options.sample, ++turn) {
    report.cells.emplace_back(report.machine, std::vector{all[i]}, std::vector{cost_alone(i)}, options.seeds);
    const std::size_t of_class = all.size() / kClasses;
    const std::size_t partner = turn % kClasses * of_class + mixed(i) % of_class;
    pairs.emplace_back(report.machine, std::vector{all[i], all[partner]},
                       std::vector{cost_alone(i), cost_alone(partner)}, options.seeds);
  }
  std::ranges::move(pairs, std::back_inserter(report.cells));
  for (Cell& cell : report.cells) cell.search();

  report.paired = paired_cases(report.cells);
}

std::string names_of(const Cell& cell) {
  std::string out;
  for (const Workload& app : cell.apps()) out += (out.empty() ? "" : " | ") + app.name();
  return out;
}
std::string rules_of(const Report& report, const Cell& cell) {
  std::string out;
  for (const Chosen& chosen : cell.chosen()) {
    char share[16] = "";
    if (chosen.share < 1) std::snprintf(share, sizeof share, " %.0f%%", 100 * chosen.share);
    out +=
        (out.empty() ? "" : " + ") + chosen.rule + " " + report.machine.choices()[chosen.choice].name + share;
  }
  return out;
}
std::string ttft_of(const Cost& cost, const Cell& cell) {
  std::string out;
  for (std::size_t app = 0; app < cell.apps().size(); ++app) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f s", cost.apps[app].ttft_p99);
    if (app > 0) out += " + ";
    out += cell.apps()[app].has_people() ? text : "nobody";
  }
  return out;
}
std::vector<std::size_t> worst_first(Report& report) {
  std::vector<std::size_t> order(report.cells.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return report.cells[i].regret(); });
  return order;
}

void print(Report& report) {
  std::printf("%s: %s\n", report.machine.spec().id.c_str(), report.machine.spec().what.c_str());
  for (const std::size_t n_apps : {1UL, 2UL}) {
    const Summary summary = report.summary(n_apps);
    std::printf("  %s: mean %.1f %%, worst %.1f %%: %s\n", n_apps == 1 ? "alone" : "two apps",
                100 * summary.mean, 100 * summary.worst, summary.holds() ? "holds" : "FAILS");
  }
  std::printf("  worst cells, the tree's cost to the best fixed choice's:\n");
  const std::vector<std::size_t> order = worst_first(report);
  for (std::size_t i = 0; i < std::min(kShownCells, order.size()); ++i) {
    Cell& cell = report.cells[order[i]];
    if (cell.regret() == 0) break;
    std::printf("    %.2f  %s\n          tree: %s; p99 TTFT %s\n          best: %s; p99 TTFT %s\n",
                1 + cell.regret(), names_of(cell).c_str(), rules_of(report, cell).c_str(),
                ttft_of(cell.tree(), cell).c_str(), report.text(cell.best()).c_str(),
                ttft_of(cell.fixed(cell.best()), cell).c_str());
  }
  if (report.paired.empty()) return;
  std::printf(
      "  choices by rule, in the case in which the nearest other choice of the tree costs most, five "
      "seeds:\n");
  for (const Paired& paired : report.paired)
    std::printf("    %s %s: %s costs %.2f times as much for app %zu of %s: %s\n", paired.rule.c_str(),
                report.text({paired.choice}).c_str(), report.text({paired.nearest.choice}).c_str(),
                paired.nearest.ratio, paired.app + 1, names_of(report.cells[paired.cell]).c_str(),
                paired.holds() ? "earned" : "NOT EARNED");
}

ordered_json json_of(Report& report) {
  ordered_json out{{"machine", report.machine.spec().id}};
  for (const std::size_t n_apps : {1UL, 2UL}) {
    const Summary summary = report.summary(n_apps);
    out[n_apps == 1 ? "alone" : "two_apps"] = {
        {"mean", summary.mean}, {"worst", summary.worst}, {"holds", summary.holds()}};
  }
  for (Cell& cell : report.cells) {
    ordered_json chosen = ordered_json::array();
    for (const Chosen& each : cell.chosen())
      chosen.push_back({{"rule", each.rule},
                        {"choice", report.machine.choices()[each.choice].name},
                        {"share", each.share}});
    out["cells"].push_back({{"workloads", names_of(cell)},
                            {"tree", chosen},
                            {"cost", cell.tree().cost},
                            {"cost_fixed", cell.fixed(cell.tree_choices()).cost},
                            {"best", report.text(cell.best())},
                            {"cost_best", cell.fixed(cell.best()).cost},
                            {"regret", cell.regret()}});
  }
  for (const Paired& paired : report.paired)
    out["choices"].push_back({{"rule", paired.rule},
                              {"choice", report.text({paired.choice})},
                              {"nearest", report.text({paired.nearest.choice})},
                              {"ratio", paired.nearest.ratio},
                              {"case", names_of(report.cells[paired.cell])},
                              {"holds", paired.holds()}});
  return out;
}

Options parse(int argc, char** argv) {
  Options o;
  CLI::App app{
      "Regret of a policy beside the best fixed choice of engine and profile, on simulated machines."};
  app.add_option("--policy", o.policy, "Policy file; none: the shipped one");
  app.add_option("--machine", o.machines, "Machines by id: cpu, apu, gpu, gpus; none: all");
  app.add_option("--seeds", o.seeds, "Runs of each cell, of which costs are the mean")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  app.add_option("--sample", o.sample, "Every Nth workload; 1: all 288. An even N leaves traits out")
      ->capture_default_str()
      ->check(CLI::Range(1, 288));
  app.add_flag("--json", o.json, "Every cell as JSON");
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
  std::vector<MachineSpec> all = machines();
  all.push_back(two_gpu_machine());
  for (const std::string& id : options.machines)
    if (std::ranges::find(all, id, &MachineSpec::id) == all.end())
      bench::die("there is no machine " + id + "; there are cpu, apu, gpu and gpus", 64);
  const policy::Tree tree = bench::expect(settings::policy_at(options.policy));
  const std::vector<Workload> loads = workloads();
  bool all_hold = true;
  ordered_json out{{"bench", "regret"}, {"machines", ordered_json::array()}};
  for (const MachineSpec& spec : all) {
    if (!options.machines.empty() && std::ranges::find(options.machines, spec.id) == options.machines.end())
      continue;
    Report report{{spec, tree}, {}};
    fill(report, loads, options);
    all_hold = all_hold && report.summary(1).holds() && report.summary(2).holds();
    if (options.json)
      out["machines"].push_back(json_of(report));
    else
      print(report);
    std::fflush(stdout);
  }
  if (options.json) std::printf("%s\n", out.dump(1).c_str());
  return all_hold ? 0 : 1;
}
