// `flyball plan`: what a model needs for a context, and where on this machine, or on one that exists only in
// words, it fits. Nothing is loaded.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "backends/graph/planner.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/model/model_file.hpp"
#include "backends/model/synthetic_outline.hpp"
#include "config/name_list.hpp"
#include "config/units.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/machine_pools.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/plan_together.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

using graph::PlanPool;
using graph::PoolPlan;
using model::ModelConfig;
using model::ModelFile;
using nlohmann::ordered_json;

struct PlanOptions {
  std::string path, shape, format = "Q4_0", kv_type = "f16", backend = "all";
  std::vector<std::string> memories;  // "24GiB"
  std::uint32_t context = 0, sequences = 1;
  bool json = false, together = false;
  std::string config;
};

struct Plan {
  std::string name;
  const ModelFile& file;
  graph::PlanShape shape;
  graph::MemoryPlan bytes;
  std::uint64_t kv_bytes_per_token = 0;
  std::vector<PoolPlan> pools;
};

// The model, however it was named.
struct Model {
  std::unique_ptr<ModelFile> read;
  std::optional<model::SyntheticOutline> outlined;
  const ModelFile& file() const { return outlined ? outlined->file() : *read; }
};

Result<Model> open_model(const PlanOptions& o) {
  Model out;
  if (!o.shape.empty()) {
    auto spec = model::parse_synthetic_shape(o.shape);
    if (!spec) return pass(spec);
    spec->type = *kernels::dtype_named(o.format);  // CLI11 has checked the spelling
    auto outline = model::SyntheticOutline::make(*spec);
    if (!outline) return pass(outline);
    out.outlined = std::move(*outline);
    return out;
  }
  auto file = o.path.empty() ? ModelFile::from_bytes(model::embedded_demo_model()) : ModelFile::open(o.path);
  if (!file) return pass(file);
  out.read = std::move(*file);
  return out;
}

// nullopt: no size that a memory can have.
std::optional<std::uint64_t> memory_size(const std::string& text) {
  const auto size = config::parse_size(text);
  return size && size->percent == 0 && size->bytes > 0 ? std::optional(size->bytes) : std::nullopt;
}
std::string check_memory_size(const std::string& text) {
  if (memory_size(text)) return "";
  return config::quoted(text) + " is no whole number from 1 and B, KiB, MiB, GiB or TiB, such as 24GiB";
}

std::vector<PlanPool> pools_of(const PlanOptions& o) {
  std::vector<PlanPool> pools;
  if (o.memories.empty()) {
    Hardware hardware;
    // A configuration that does not load is `check`'s matter.
    const auto config = settings::config_at(settings::find_config());
    for (MachinePool& one : machine_pools(hardware, config ? *config : config::Config(), o.backend))
      pools.push_back(std::move(one.pool));
    return pools;
  }
  for (const std::string& text : o.memories) pools.push_back({text, *memory_size(text)});
  return pools;
}

Result<Plan> make_plan(const ModelFile& file, const PlanOptions& o) {
  const ModelConfig& config = file.config();
  const auto context = graph::serving_context(o.context, config);
  if (!context) return pass(context);
  const auto kv_type = graph::kv_type(o.kv_type, config);
  if (!kv_type) return pass(kv_type);
  graph::PlanShape shape;
  shape.context = *context;
  shape.sequences = o.sequences;
  shape.step_tokens = std::max(shape.step_tokens, o.sequences);
  shape.kv_type = *kv_type;
  Plan plan{config.name.empty() ? "(unnamed)" : config.name, file, shape, {}, 0, {}};
  plan.bytes = graph::plan_memory(config, file.weight_bytes(), plan.shape);
  const auto layout = graph::kv_layout(config, *kv_type);
  plan.kv_bytes_per_token = layout.block_bytes() / layout.block_size;
  for (const PlanPool& pool : pools_of(o))
    plan.pools.push_back(graph::plan_pool(config, plan.bytes, plan.shape, pool));
  return plan;
}

void print_json(const Plan& p, const PlanOptions& o) {
  const ModelConfig& c = p.file.config();
  ordered_json out{{"model", p.name},
                   {"architecture", c.architecture},
                   {"quantization", p.file.main_quantization()},
                   {"parameters", p.file.parameter_count()},
                   {"active_parameters", p.file.active_parameter_count()},
                   {"attention",
                    {{"kind", graph::attention_kind(c)},
                     {"heads", c.n_heads},
                     {"kv_heads", c.n_kv_heads},
                     {"head_dim", c.head_dim},
                     {"layers", c.n_layers},
                     {"windowed_layers", graph::windowed_layers(c)}}},
                   {"experts", c.n_experts},
                   {"experts_used", c.n_experts_used},
                   {"context", p.shape.context},
                   {"context_length", c.context_length},
                   {"sequences", p.shape.sequences},
                   {"kv_type", o.kv_type},
                   {"weight_bytes", p.bytes.weight_bytes},
                   {"token_weight_bytes", p.file.token_weight_bytes()},
                   {"kv_bytes_per_token", p.kv_bytes_per_token},
                   {"kv_bytes", p.bytes.kv_bytes},
                   {"scratch_bytes", p.bytes.scratch_bytes},
                   {"total_bytes", p.bytes.total()},
                   {"where", ordered_json::array()}};
  for (const PoolPlan& pool : p.pools) out["where"].push_back(pool_json(pool));
  std::printf("%s\n", out.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
}

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

std::string sequences_text(std::uint64_t n) {
  return number(n) + (n == 1 ? " sequence" : " sequences");
}

std::string attention_text(const ModelConfig& c) {
  std::string out = std::string(graph::attention_kind(c)) + ": " + number(c.n_heads) + " heads over " +
                    number(c.n_kv_heads) + (c.n_kv_heads == 1 ? " KV head of " : " KV heads of ") +
                    number(c.head_dim) + " in " + number(c.n_layers) + " layers";
  if (const std::uint32_t windowed = graph::windowed_layers(c); windowed > 0)
    out += "; " + number(windowed) + " look back over a window alone, and keep their KV all the same";
  return out;
}

// "fits; the longest context for 4 sequences is 8192 tokens, all that the model was made for"
std::string verdict(const PoolPlan& p, const graph::PlanShape& shape, const ModelConfig& c) {
  if (p.missing > 0) return "does not fit: weights and scratch need " + size_text(p.missing) + " more";
  std::string out = p.fits ? "fits" : "does not fit: the KV cache may have " + size_text(p.kv_room);
  if (!p.fits && p.sequences > 0) out += ", room for " + sequences_text(p.sequences);
  out += "; the longest context for " + sequences_text(shape.sequences) + " is " + number(p.longest_context) +
         " tokens";
  return out + (p.longest_context == c.context_length ? ", all that the model was made for" : "");
}

void print_text(const Plan& p, const PlanOptions& o) {
  const ModelConfig& c = p.file.config();
  const auto line = [](const char* label, const std::string& text) {
    std::printf("%-11s %s\n", label, text.c_str());
  };
  const std::uint64_t active = p.file.active_parameter_count();
  line("model", p.name + ": " + c.architecture + ", " + std::string(p.file.main_quantization()) + ", " +
                    short_count(p.file.parameter_count()) + " parameters" +
                    (c.n_experts > 0
                         ? ", " + short_count(active) + " active for a token: " + number(c.n_experts_used) +
                               " of " + number(c.n_experts) + " experts"
                         : ""));
  line("attention", attention_text(c));
  line("load", sequences_text(p.shape.sequences) + " of " + number(p.shape.context) + " tokens");
  line("  weights", size_text(p.bytes.weight_bytes) + ", of which a token reads " +
                        size_text(p.file.token_weight_bytes()));
  line("  KV cache",
       size_text(p.bytes.kv_bytes) + ", " + size_text(p.kv_bytes_per_token) + " a token as " + o.kv_type);
  line("  scratch", size_text(p.bytes.scratch_bytes));
  line("  total", size_text(p.bytes.total()));
  for (const PoolPlan& pool : p.pools)
    line("in", pool.pool.name + " (" + size_text(pool.pool.bytes) + "): " + verdict(pool, p.shape, c));
  if (p.pools.empty()) line("in", "no device of " + o.backend + " is here that the probe approves");
}

int plan(const PlanOptions& o) {
  const auto refused = [&](Error error) {
    // What could not be read at all is named already, and so is a file of a directory.
    const std::string& where = error.where;
    const bool named = where == o.path || where.starts_with(o.path + "/") ||
                       where.starts_with(o.path + ":") ||
                       (o.path.ends_with('/') && where.starts_with(o.path));
    if (!o.path.empty() && !named) error.where = where.empty() ? o.path : o.path + ": " + where;
    return report(error);
  };
  const auto model = open_model(o);
  if (!model) return refused(model.error());
  const auto planned = make_plan(model->file(), o);
  if (!planned) return refused(planned.error());
  if (o.json)
    print_json(*planned, o);
  else
    print_text(*planned, o);
  const bool fits = std::ranges::any_of(planned->pools, &PoolPlan::fits);
  return fits ? kOk : kFailed;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  constexpr std::uint32_t kMaxPlannedSequences = 4096;
  auto o = std::make_shared<PlanOptions>();
  CLI::App* c = app.add_subcommand("plan", "What a model needs for a context, and where it fits");
  auto* path = c->add_option("model,-m,--model", o->path,
                             "GGUF file or MLX directory; without it and --shape, the embedded demo model");
  c->add_option("--shape", o->shape,
                "A shape instead of a file, as make-model takes it: " + model::synthetic_shape_names())
      ->excludes(path);
  std::vector<std::string> types;
  for (const auto type : kernels::kAllDTypes) types.emplace_back(to_string(type));
  c->add_option("--format", o->format, "Of the shape's matrices")
      ->check(CLI::IsMember(types))
      ->capture_default_str();
  c->add_option("--context", o->context, "Tokens of a sequence (default: the model's, at most 4096)")
      ->check(whole_number(1, model::kMaxContext));
  c->add_option("--sequences", o->sequences, "Sequences at once")
      ->check(whole_number(1, kMaxPlannedSequences))
      ->capture_default_str();
  c->add_option("--kv", o->kv_type, "What the KV cache is kept as: f16 or q8_0")
      ->check(CLI::IsMember({"f16", "q8_0"}))
      ->capture_default_str();
  c->add_option("--backend", o->backend, "In the memory of this engine on this machine")
      ->check(engine_or_all())
      ->capture_default_str();
  c->add_option("--memory", o->memories,
                "A memory of this size that the model has for itself, instead of this machine's. Given "
                "again: one more")
      ->check(check_memory_size)
      ->allow_extra_args(false);
  c->add_option_function<std::string>(
       "--config",
       [o](const std::string& file) {
         o->together = true;
         o->config = file;
       },
       "All models of this config.yaml instead (default: the one `serve` would take): whether they fit "
       "together, and which ends for which")
      ->expected(0, 1)
      ->default_str("")
      ->excludes(path)
      ->excludes("--shape")
      ->excludes("--format")
      ->excludes("--context")
      ->excludes("--sequences")
      ->excludes("--kv")
      ->excludes("--backend")
      ->excludes("--memory");
  c->add_flag("--json", o->json, "As JSON");
  c->footer(
      "Examples:\n"
      "  flyball plan --config\n"
      "  flyball plan model.gguf --context 8192 --sequences 4\n"
      "  flyball plan --shape 8b --format Q4_K --memory 24GiB\n"
      "\n"
      "Exit code 1: it fits nowhere.");
  c->callback([o, &exit_code] { exit_code = o->together ? plan_together(o->config, o->json) : plan(*o); });
}

}  // namespace flyball::cli
