#include "daemon/cli/measuring.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "daemon/cli/bench_runs.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/config_files.hpp"
#include "daemon/cli/device_ceilings.hpp"
#include "daemon/cli/engine_options.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/fleet/slot.hpp"
#include "daemon/measure/power.hpp"
#include "daemon/route/children.hpp"

namespace flyball::cli {
namespace {

using measure::Figure;
using measure::Kind;
using Json = nlohmann::json;

constexpr std::chrono::hours kLongest{1};

struct Effort {
  std::vector<std::uint32_t> prompts, streams;
  std::uint32_t generate, repeat;
};
const Effort kThorough{{128, 512, 2048}, {1, 8, 32}, 64, 3};
const Effort kQuick{{128, 512}, {1, 8}, 16, 1};

// ---- the child

std::string dump(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json error_json(const Error& error) {
  return {{"error", {{"code", to_string(error.code)}, {"message", error.message}, {"where", error.where}}}};
}

void say(const Json& line) {
  std::printf("%s\n", dump(line).c_str());
  std::fflush(stdout);
}

// Before anything of the model is loaded. Who does not get it is killed, or reads the end.
std::uint64_t ask_for_memory(const MemoryNeed& need) {
  say({{"needs",
        {{"weight_bytes", need.weight_bytes},
         {"scratch_bytes", need.scratch_bytes},
         {"kv_bytes", need.kv_bytes},
         {"least_kv_bytes", need.least_kv_bytes}}}});
  std::string answer;
  std::getline(std::cin, answer);
  const Json said = Json::parse(answer, nullptr, false);
  if (!said.is_object() || !said.value("kv_bytes", Json()).is_number_unsigned()) _exit(kOk);
  return said["kv_bytes"].get<std::uint64_t>();
}

Result<std::vector<Figure>> measure_ceilings_of(const engine::LocalBackendOptions& options) {
  const auto ceilings = measure_ceilings(options);
  if (!ceilings) return std::unexpected(ceilings.error());
  return std::vector<Figure>{{Kind::read_gbps, 0, ceilings->read_gbps, ceilings->measured_at},
                             {Kind::float_gops, 0, ceilings->float_gops, ceilings->measured_at}};
}

Result<std::vector<Figure>> measure_model(const engine::LocalBackendOptions& options, const Effort& effort,
                                          bool tell) {
  const auto began = std::chrono::steady_clock::now();
  auto backend = load_with_progress(options, true);
  if (!backend) return std::unexpected(std::move(backend.error()));
  const std::chrono::duration<double, std::milli> loaded = std::chrono::steady_clock::now() - began;
  const BackendInfo& info = (*backend)->info();
  if (tell) say({{"holds", info.weight_bytes + info.kv_bytes + info.scratch_bytes}});
  std::vector<Figure> figures;
  const auto add = [&](Kind kind, std::uint32_t at, double value) {
    figures.push_back({kind, at, value, 0});
  };
  add(Kind::load_ms, 0, loaded.count());
  add(Kind::weight_bytes, 0, static_cast<double>(info.weight_bytes));
  add(Kind::kv_bytes, 0, static_cast<double>(info.kv_bytes));
  add(Kind::scratch_bytes, 0, static_cast<double>(info.scratch_bytes));
  // A short context is measured by as long a prompt as it takes.
  std::vector<std::uint32_t> prompts;
  for (const std::uint32_t tokens : effort.prompts)
    if (const std::uint32_t n = std::min(tokens, info.context_length - std::min(info.context_length, 4U));
        n > 0 && std::ranges::find(prompts, n) == prompts.end())
      prompts.push_back(n);
  for (const std::uint32_t tokens : prompts) {
    const auto got = bench_rounds(**backend, {tokens, 2, 1}, effort.repeat);
    if (!got) return std::unexpected(got.error());
    add(Kind::prefill_tps, tokens, got->median.prefill);
    add(Kind::ttft_ms, tokens, got->median.ttft_ms);
  }
  const std::uint32_t generate = std::clamp(info.context_length / 2, 2U, effort.generate);
  std::optional<double> watts;
  for (const std::uint32_t streams : effort.streams) {
    if (streams > info.max_sequences) continue;
    const auto energy = measure::read_energy();
    const auto got = bench_rounds(**backend, {std::min(16U, generate), generate, streams}, effort.repeat);
    if (!got) return std::unexpected(got.error());
    add(Kind::decode_tps, streams, got->median.decode);
    watts = measure::watts_since(energy);
  }
  if (watts) add(Kind::watts, 0, *watts);
  return figures;
}

config::ModelEntry entry_of(const engine::LocalBackendOptions& options) {
  config::ModelEntry entry;
  entry.path = options.path;
  entry.embedded = options.path.empty();
  return entry;
}

// Who asked holds the other end of its stdin: gone before a signal could tell, it does not any more.
bool nobody_asks() {
  pollfd in{STDIN_FILENO, POLLRDHUP, 0};
  return poll(&in, 1, 0) == 1 && (in.revents & POLLRDHUP) != 0;
}

struct MeasureOptions {
  EngineOptions engine;
  bool quick = false, beside_others = false;
};

Result<Json> measured(const MeasureOptions& m) {
  engine::LocalBackendOptions options = settled(m.engine);
  Json out{{"digest", ""}, {"figures", Json::array()}};
  Result<std::vector<Figure>> figures;
  if (options.model_id.empty()) {
    if (options.backend == "cpu")
      return fail(ErrorCode::invalid_value, "The processor's rates are the probe's.", "backend");
    figures = measure_ceilings_of(options);
  } else {
    out["digest"] = measure::model_digest(entry_of(options));
    if (m.beside_others) options.ask_memory = ask_for_memory;
    figures = measure_model(options, m.quick ? kQuick : kThorough, m.beside_others);
  }
  if (!figures) return std::unexpected(figures.error());
  for (const Figure& f : *figures) out["figures"].push_back({to_string(f.kind), f.at, f.value});
  return out;
}

// ---- who asked it

// Of another process's words: all of it, or nothing.
Result<std::vector<Figure>> figures_in(const Json& said, const measure::Subject& subject, std::int64_t now) {
  const auto none =
      fail(ErrorCode::model_unavailable, "The process that measures it ended, and gave no figures.");
  if (!said.is_object() || !said.contains("figures") || !said["figures"].is_array()) return none;
  if (said.value("digest", Json()) != subject.model)
    return fail(ErrorCode::model_unavailable, "Its file is another by now.");
  std::vector<Figure> out;
  for (const Json& row : said["figures"]) {
    if (!row.is_array() || row.size() != 3 || !row[0].is_string() || !row[1].is_number_unsigned() ||
        row[1].get<std::uint64_t>() > UINT32_MAX || !row[2].is_number())
      return none;
    const auto kind = measure::kind_named(row[0].get_ref<const std::string&>());
    const auto value = row[2].get<double>();
    if (!kind || !std::isfinite(value) || value < 0) return none;
    out.push_back({*kind, row[1].get<std::uint32_t>(), value, now});
  }
  return out;
}

Error refusal_in(const Json& said) {
  const Json& error = said["error"];
  const auto text = [&](const char* key) {
    return error.contains(key) && error[key].is_string() ? error[key].get<std::string>() : std::string();
  };
  return {error_code_from(text("code")), text("message"), "", text("where")};
}

constexpr std::uint64_t kMostBytes = 1ULL << 50U;  // of another process's words: sums stay far from any limit

std::optional<MemoryNeed> need_in(const Json& said) {
  const Json& need = said["needs"];
  const auto bytes = [&](const char* key) {
    return need.is_object() && need.value(key, Json()).is_number_unsigned()
               ? std::optional(need[key].get<std::uint64_t>())
               : std::nullopt;
  };
  const auto weights = bytes("weight_bytes"), scratch = bytes("scratch_bytes"), kv = bytes("kv_bytes"),
             least = bytes("least_kv_bytes");
  if (!weights || !scratch || !kv || !least) return std::nullopt;
  if (std::max({*weights, *scratch, *kv, *least}) > kMostBytes) return std::nullopt;
  return MemoryNeed{*weights, *scratch, *kv, *least};
}

// What the process asks, answered by who lends it memory. `refused`: by him.
class Dialogue {
 public:
  explicit Dialogue(const Measuring& measuring) : memory_(measuring.memory) {}
  std::optional<std::string> reply(std::string_view line) {
    last_ = line;
    if (!memory_) return "";
    const Json said = Json::parse(line, nullptr, false);
    if (!said.is_object()) return "";
    if (said.contains("holds")) {
      if (told_ != Told::needs || !said["holds"].is_number_unsigned() ||
          said["holds"].get<std::uint64_t>() > kMostBytes)
        return std::nullopt;
      told_ = Told::holds;
      memory_->holds(said["holds"].get<std::uint64_t>());
      return "";
    }
    if (!said.contains("needs")) return "";
    const auto need = need_in(said);
    if (!need || told_ != Told::nothing) return std::nullopt;
    told_ = Told::needs;
    const auto kv_bytes = memory_->ask(*need);
    if (!kv_bytes) {
      refused_ = kv_bytes.error();
      return std::nullopt;
    }
    return dump({{"kv_bytes", *kv_bytes}}) + "\n";
  }
  const std::optional<Error>& refused() const { return refused_; }
  const std::string& last() const { return last_; }

 private:
  enum class Told : std::uint8_t { nothing, needs, holds };  // each once, in this order
  const std::optional<MeasuringMemory>& memory_;
  Told told_ = Told::nothing;
  std::optional<Error> refused_;
  std::string last_;  // line
};

}  // namespace

Measuring measuring_of(const config::Config& config, const config::ModelEntry* model,
                       const measure::Engine& engine, bool own_memory) {
  Measuring m;
  if (model) m.engine = fleet::engine_options(*model);
  m.engine.backend = engine.backend;
  m.engine.device_ids = engine.device_ids;
  m.engine.own_memory = own_memory;
  m.engine.cache_dir = (config.cache_dir.empty() ? default_cache_dir() : config.cache_dir).string();
  m.engine.sha256.clear();  // figures are kept by what the file is found to be
  return m;
}

Result<std::vector<measure::Figure>> measure_in_child(const Measuring& m, const measure::Subject& subject,
                                                      const std::stop_token& stop) {
  std::vector<std::string> words{"measure"};
  const std::vector<std::string> engine = worker::engine_words(m.engine);
  words.insert(words.end(), engine.begin(), engine.end());
  if (m.quick) words.emplace_back("--quick");
  if (m.memory) words.emplace_back("--beside-others");
  Dialogue dialogue(m);
  const auto reply = [&](std::string_view line) { return dialogue.reply(line); };
  const route::ChildAnswer answer = route::talk_to_child(m.engine.executable, words, reply, kLongest, stop);
  if (stop.stop_requested()) return fail(ErrorCode::cancelled, "Something else was to be done.");
  if (dialogue.refused()) return std::unexpected(*dialogue.refused());
  const Json said = Json::parse(dialogue.last(), nullptr, false);
  if (said.is_object() && said.contains("error") && said["error"].is_object())
    return std::unexpected(refusal_in(said));
  if (!answer.ended_well())
    return fail(ErrorCode::model_unavailable,
                answer.end == route::ChildAnswer::End::timed_out
                    ? "Measuring took longer than an hour."
                    : "The process that measures it ended, and did not say why.");
  return figures_in(said, subject, std::time(nullptr));
}

void add_measure_command(CLI::App& app, int& exit_code) {
  auto m = std::make_shared<MeasureOptions>();
  CLI::App* c = app.add_subcommand("measure", "How calibrate runs itself: prints figures as JSON")->group("");
  add_engine_options(*c, m->engine);
  c->add_flag("--quick", m->quick, "Fewer lengths and streams, each once");
  c->add_flag("--beside-others", m->beside_others, "Asks for memory, as JSON; the answer is read from stdin");
  c->callback([m, &exit_code] {
    exit_code = kOk;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would read what it measures
    if (nobody_asks()) return;
    const auto out = measured(*m);
    say(out ? *out : error_json(out.error()));
  });
}

}  // namespace flyball::cli
