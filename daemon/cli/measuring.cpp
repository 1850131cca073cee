#include "daemon/cli/measuring.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
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
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/number_option.hpp"
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

// Asked before anything of the model is loaded.
std::uint64_t kv_within(std::uint64_t room, const MemoryNeed& need) {
  if (need.least_bytes() > room) {
    std::printf("%s\n", dump(error_json({ErrorCode::insufficient_memory,
                                         "The model needs " + std::to_string(need.least_bytes()) +
                                             " bytes; " + std::to_string(room) + " are free for engines.",
                                         "", ""}))
                            .c_str());
    std::fflush(stdout);
    _exit(kOk);
  }
  const std::uint64_t left = room - need.weight_bytes - need.scratch_bytes;
  return std::max(need.least_kv_bytes, std::min(need.kv_bytes, left / 4));
}

// As the daemon starts this engine.
engine::LocalBackendOptions options_for(const Measuring& m, const config::ModelEntry& model,
                                        const config::Config& config) {
  engine::LocalBackendOptions o;
  o.model_id = model.id;
  if (!model.embedded) o.path = model.path;
  o.backend = m.engine.backend;
  o.threads = model.threads;
  o.expert_bytes = model.expert_bytes;
  o.context = model.context;
  o.max_sequences = model.max_sequences;
  o.kv_type = model.kv_type;
  o.cache_dir = config.cache_dir.empty() ? default_cache_dir() : config.cache_dir;
  if (!m.engine.device_ids.empty()) {
    o.vulkan.id = m.engine.device_ids.front();
    o.opencl.assign(m.engine.device_ids.size(), {});
    for (std::size_t i = 0; i < o.opencl.size(); ++i) o.opencl[i].id = m.engine.device_ids[i];
  }
  o.own_memory = m.own_memory;
  if (m.room > 0) o.ask_memory = [room = m.room](const MemoryNeed& need) { return kv_within(room, need); };
  return o;
}

Result<std::vector<Figure>> measure_ceilings_of(const engine::LocalBackendOptions& options) {
  const auto ceilings = measure_ceilings(options);
  if (!ceilings) return std::unexpected(ceilings.error());
  return std::vector<Figure>{{Kind::read_gbps, 0, ceilings->read_gbps, ceilings->measured_at},
                             {Kind::float_gops, 0, ceilings->float_gops, ceilings->measured_at}};
}

Result<std::vector<Figure>> measure_model(const engine::LocalBackendOptions& options, const Effort& effort) {
  const auto began = std::chrono::steady_clock::now();
  auto backend = load_with_progress(options, true);
  if (!backend) return std::unexpected(std::move(backend.error()));
  const std::chrono::duration<double, std::milli> loaded = std::chrono::steady_clock::now() - began;
  const BackendInfo& info = (*backend)->info();
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

Result<Json> measured(const Measuring& m) {
  const auto config = config_at(m.config);
  if (!config) return std::unexpected(config.error());
  config::ModelEntry model;
  measure::Subject subject = measure::subject_of(m.engine);
  if (!m.model.empty()) {
    const auto found = std::ranges::find(config->models, m.model, &config::ModelEntry::id);
    if (found == config->models.end())
      return fail(ErrorCode::model_not_found, "no model is called \"" + m.model + "\"");
    model = *found;
    if (!m.kv_type.empty()) model.kv_type = m.kv_type;
    subject = measure::subject_of(m.engine, measure::model_digest(model), model);
  }
  const auto options = options_for(m, model, *config);
  const auto figures =
      m.model.empty() ? measure_ceilings_of(options) : measure_model(options, m.quick ? kQuick : kThorough);
  if (!figures) return std::unexpected(figures.error());
  Json out{{"digest", subject.model}, {"setup", subject.setup}, {"figures", Json::array()}};
  for (const Figure& f : *figures) out["figures"].push_back({to_string(f.kind), f.at, f.value});
  return out;
}

// ---- who asked it

// Of another process's words: all of it, or nothing.
std::optional<std::vector<Figure>> figures_in(const Json& said, const measure::Subject& subject,
                                              std::int64_t now) {
  if (!said.is_object() || !said.contains("figures") || !said["figures"].is_array() ||
      said.value("digest", Json()) != subject.model || said.value("setup", Json()) != subject.setup)
    return std::nullopt;
  std::vector<Figure> out;
  for (const Json& row : said["figures"]) {
    if (!row.is_array() || row.size() != 3 || !row[0].is_string() || !row[1].is_number_unsigned() ||
        row[1].get<std::uint64_t>() > UINT32_MAX || !row[2].is_number())
      return std::nullopt;
    const auto kind = measure::kind_named(row[0].get_ref<const std::string&>());
    const auto value = row[2].get<double>();
    if (!kind || !std::isfinite(value) || value < 0) return std::nullopt;
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

}  // namespace

Result<std::vector<measure::Figure>> measure_in_child(const Measuring& m, const measure::Subject& subject,
                                                      const std::stop_token& stop) {
  std::vector<std::string> words{"measure",        "--config", m.config.string(),     "--backend",
                                 m.engine.backend, "--room",   std::to_string(m.room)};
  if (!m.model.empty()) words.insert(words.end(), {"--model", m.model});
  if (!m.kv_type.empty()) words.insert(words.end(), {"--kv-type", m.kv_type});
  for (const std::string& id : m.engine.device_ids) words.insert(words.end(), {"--device", id});
  if (m.quick) words.emplace_back("--quick");
  if (m.own_memory) words.emplace_back("--own-memory");
  const auto answers = route::ask_children("/proc/self/exe", {words}, kLongest, stop);
  const route::ChildAnswer& answer = answers.front();
  if (stop.stop_requested()) return fail(ErrorCode::cancelled, "Something else was to be done.");
  const Json said = Json::parse(answer.text, nullptr, false);
  if (said.is_object() && said.contains("error") && said["error"].is_object())
    return std::unexpected(refusal_in(said));
  if (!answer.ended_well())
    return fail(ErrorCode::model_unavailable,
                answer.end == route::ChildAnswer::End::timed_out
                    ? "Measuring took longer than an hour."
                    : "The process that measures it ended, and did not say why.");
  auto figures = figures_in(said, subject, std::time(nullptr));
  if (!figures) return fail(ErrorCode::model_unavailable, "Its file or its settings are others by now.");
  return std::move(*figures);
}

void add_measure_command(CLI::App& app, int& exit_code) {
  auto m = std::make_shared<Measuring>();
  CLI::App* c = app.add_subcommand("measure", "How calibrate runs itself: prints figures as JSON")->group("");
  c->add_option("--config", m->config, "config.yaml; \"\": the shipped one");
  c->add_option("--model", m->model, "An id in it; without one, the engine's devices");
  c->add_option("--kv-type", m->kv_type, "Instead of the configuration's");
  c->add_option("--backend", m->engine.backend, "The engine")
      ->required()
      ->check(CLI::IsMember({"cpu", "vulkan", "opencl"}));
  c->add_option("--device", m->engine.device_ids, "Ids of its devices")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  c->add_option("--room", m->room, "Bytes that it may take; 0: as many as it finds")
      ->check(whole_number(0, UINT64_MAX));
  c->add_flag("--own-memory", m->own_memory, "Those are its devices' own");
  c->add_flag("--quick", m->quick, "Fewer lengths and streams, each once");
  c->callback([m, &exit_code] {
    const auto out = m->model.empty() && m->engine.backend == "cpu"
                         ? fail(ErrorCode::invalid_value, "The processor's rates are the probe's.", "backend")
                         : measured(*m);
    std::printf("%s\n", dump(out ? *out : error_json(out.error())).c_str());
    exit_code = kOk;
  });
}

}  // namespace flyball::cli
