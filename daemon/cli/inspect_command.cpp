// `flyball inspect`: what a model file holds and what it would need, without running it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/device/memory.hpp"
#include "backends/graph/layer_split.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/model/gguf_outline.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/model/model_file.hpp"
#include "backends/opencl/found_device.hpp"
#include "backends/text/answer_form.hpp"
#include "config/json_reader.hpp"
#include "config/yaml.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/kept_tokens.hpp"
#include "daemon/cli/machine_pools.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/probe/model_files.hpp"

namespace flyball::cli {
namespace {

struct InspectOptions {
  std::string file;
  bool json = false;
  std::uint32_t context = 0, sequences = 1;
  std::string kv_type = "f16";
  std::vector<std::string> devices;
  std::vector<std::string> pools;  // as pool_argument() writes them
  bool prefixes = false;  // answer_kept_tokens()
};

// What one OpenCL device would hold.
struct DevicePlan {
  graph::DeviceRoom device;
  graph::PlannedPart planned;
};

struct Report {
  const model::ModelFile& file;
  const model::ModelConfig& config;
  graph::PlanShape shape;
  graph::MemoryPlan plan;
  std::uint64_t kv_bytes_per_token;
  std::string kv_type;
  std::map<std::string, std::uint64_t> bytes_by_type;
  std::string tokenizer, pre_tokenizer;
  std::size_t chat_template_bytes;
  std::vector<DevicePlan> devices;
  std::vector<graph::PoolPlan> pools;
};

// A string of the metadata, "" where it is absent or no string.
std::string text_of(const model::Gguf& gguf, std::string_view key) {
  const auto value = gguf.get_string(key);
  return value && *value ? model::printable(**value) : std::string();
}

// Over the devices of these names, of which none is opened: as if nothing else were in their own memory.
Result<std::vector<DevicePlan>> plan_devices(const model::ModelFile& file, const graph::PlanShape& shape,
                                             std::uint64_t kv_bytes, const std::vector<std::string>& names) {
  std::vector<DevicePlan> plans;
  if (names.empty()) return plans;
  auto api = opencl::load_api();
  if (!api) return pass(api);
  std::vector<opencl::DeviceOptions> wanted(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) wanted[i].name = names[i];
  const auto found = opencl::choose_found(opencl::find_devices(**api), wanted);
  if (!found) return pass(found);
  std::vector<graph::DeviceRoom> rooms;
  for (const opencl::FoundDevice& device : *found)
    rooms.push_back({device.facts.id, device.facts.memory_bytes, device.facts.unified});
  graph::share_machine_memory(rooms, device::available_memory());
  const auto parts =
      graph::split_layers(graph::part_sizes(file, kv_bytes, shape.step_tokens, shape.sequences), rooms);
  if (!parts) return pass(parts);
  for (std::size_t i = 0; i < rooms.size(); ++i) plans.push_back({rooms[i], (*parts)[i]});
  return plans;
}

Result<Report> make_report(const model::ModelFile& file, const InspectOptions& options) {
  const auto& config = file.config();
  const auto context = graph::serving_context(options.context, config);
  if (!context) return pass(context);
  graph::PlanShape shape;
  shape.context = *context;
  shape.sequences = options.sequences;
  const auto kv_type = graph::kv_type(options.kv_type, config);
  if (!kv_type) return pass(kv_type);
  shape.kv_type = *kv_type;
  const auto layout = graph::kv_layout(config, *kv_type);
  Report report{file,
                config,
                shape,
                graph::plan_memory(config, file.weight_bytes(), shape),
                layout.block_bytes() / layout.block_size,
                options.kv_type,
                {},
                text_of(file.gguf(), "tokenizer.ggml.model"),
                text_of(file.gguf(), "tokenizer.ggml.pre"),
                0,
                {},
                {}};
  auto devices = plan_devices(file, shape, report.plan.kv_bytes, options.devices);
  if (!devices) return pass(devices);
  report.devices = std::move(*devices);
  for (const std::string& text : options.pools)
    if (const auto pool = pool_from_argument(text))
      report.pools.push_back(graph::plan_pool(config, report.plan, shape, *pool));
  for (const auto& tensor : file.gguf().tensors()) {
    report.bytes_by_type[std::string(to_string(tensor.type))] += tensor.bytes();
  }
  if (const auto chat = file.gguf().get_string("tokenizer.chat_template"); chat && *chat) {
    report.chat_template_bytes = (*chat)->size();
  }
  return report;
}

const char* to_text(model::RopeScaling scaling) {
  switch (scaling) {
    case model::RopeScaling::none:
      return "none";
    case model::RopeScaling::linear:
      return "linear";
    case model::RopeScaling::yarn:
      return "yarn";
    case model::RopeScaling::llama3:
      return "llama3";
    case model::RopeScaling::longrope:
      return "longrope";
  }
  return "?";
}

void print_json(const Report& r) {
  const auto& c = r.config;
  std::map<std::string, std::uint64_t> types;  // tensors of each
  for (const auto& tensor : r.file.gguf().tensors()) ++types[std::string(to_string(tensor.type))];
  nlohmann::ordered_json out = {{"architecture", c.architecture},
                                {"name", model::printable(c.name)},
                                {"format", r.file.format()},
                                {"parameters", r.file.parameter_count()},
                                {"active_parameters", r.file.active_parameter_count()},
                                {"quantization", std::string(r.file.main_quantization())},
                                {"bytes_by_type", r.bytes_by_type},
                                {"types", types},
                                {"tensors", r.file.gguf().tensors().size()},
                                {"context_length", c.context_length},
                                {"vocab_size", c.vocab_size},
                                {"tokenizer", {{"model", r.tokenizer}, {"pre", r.pre_tokenizer}}},
                                {"chat_template", r.chat_template_bytes > 0},
                                {"infill", nullptr},
                                {"tool_template", nullptr},
                                {"call_format", nullptr},
                                {"reasoning_format", nullptr},
                                {"shape",
                                 {{"layers", c.n_layers},
                                  {"dim", c.dim},
                                  {"ffn_dim", c.ffn_dim},
                                  {"experts", c.n_experts},
                                  {"experts_used", c.n_experts_used},
                                  {"expert_ffn_dim", c.expert_ffn_dim},
                                  {"heads", c.n_heads},
                                  {"kv_heads", c.n_kv_heads},
                                  {"head_dim", c.head_dim},
                                  {"tied_embeddings", c.tied_embeddings}}},
                                {"rope",
                                 {{"dim", c.ropes[0].dim},
                                  {"base", c.ropes[0].base},
                                  {"scaling", to_text(c.ropes[0].scaling)},
                                  {"factor", c.ropes[0].factor}}},
                                {"memory",
                                 {{"context", r.shape.context},
                                  {"sequences", r.shape.sequences},
                                  {"weight_bytes", r.plan.weight_bytes},
                                  {"token_weight_bytes", r.file.token_weight_bytes()},
                                  {"kv_type", r.kv_type},
                                  {"kv_bytes_per_token", r.kv_bytes_per_token},
                                  {"kv_bytes", r.plan.kv_bytes},
                                  {"scratch_bytes", r.plan.scratch_bytes},
                                  {"total_bytes", r.plan.total()}}}};
  if (const auto known = probe::template_traits(r.file)) {
    out["tool_template"] = known->reads_tools;
    out["call_format"] = text::to_string(known->form.calls);
    out["reasoning_format"] = text::to_string(known->form.reasoning);
  }
  if (const auto infills = probe::has_infill_tokens(r.file)) out["infill"] = *infills;
  for (const DevicePlan& d : r.devices)
    out["devices"].push_back({{"device", d.device.name},
                              {"memory_bytes", d.device.free_bytes},
                              {"first_layer", d.planned.part.begin},
                              {"layers", d.planned.part.n_layers()},
                              {"weight_bytes", d.planned.memory.weight_bytes},
                              {"kv_bytes", d.planned.memory.kv_bytes},
                              {"scratch_bytes", d.planned.memory.scratch_bytes}});
  for (const graph::PoolPlan& pool : r.pools) out["where"].push_back(pool_json(pool));
  std::printf("%s\n", out.dump(2).c_str());
}

// The family and the tensor types of a file or directory that this build does not read; null: even they are
// not to be had.
nlohmann::json outline_json(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const auto text = config::read_text_file(path / "config.json");
    const auto config = text ? read_json(*text) : Result<nlohmann::json>(pass(text));
    if (!config || !config->is_object()) return nullptr;
    const auto type = config->find("model_type");
    if (type == config->end() || !type->is_string()) return nullptr;
    return {{"architecture", model::printable(type->get<std::string>())}};
  }
  const auto file = model::MappedFile::open(path);
  if (!file) return nullptr;
  const auto outline = model::outline_gguf(file->bytes());
  if (!outline) return nullptr;
  nlohmann::json out{{"architecture", outline->architecture}, {"types", nlohmann::json::object()}};
  std::uint64_t most = 0;
  for (const auto& [type, tensors] : outline->types) {
    out["types"][type] = tensors.count;
    if (tensors.values <= most) continue;
    most = tensors.values;
    out["quantization"] = type;
  }
  return out;
}

void line(const char* label, const std::string& text) {
  std::printf("%-15s %s\n", label, text.c_str());
}

std::string feed_forward_text(const model::ModelConfig& c) {
  if (c.n_experts == 0) return "feed-forward " + std::to_string(c.ffn_dim);
  return std::to_string(c.n_experts_used) + " of " + std::to_string(c.n_experts) +
         " experts of feed-forward " + std::to_string(c.expert_ffn_dim);
}

void print_text(const Report& r) {
  const auto& c = r.config;
  const auto n = [](std::uint64_t value) { return std::to_string(value); };
  std::string types;
  for (const auto& [type, bytes] : r.bytes_by_type) {
    types += (types.empty() ? "" : ", ") + type + " " + size_text(bytes);
  }
  line("model", c.name.empty() ? "(unnamed)" : model::printable(c.name));
  line("architecture", c.architecture + ", " + r.file.format());
  const bool mixture = c.n_experts > 0;
  line("parameters", n(r.file.parameter_count()) + " in " + n(r.file.gguf().tensors().size()) + " tensors" +
                         (mixture ? ", " + n(r.file.active_parameter_count()) + " active for a token" : ""));
  line("quantization", std::string(r.file.main_quantization()) + " (" + types + ")");
  line("shape", n(c.n_layers) + " layers, dim " + n(c.dim) + ", " + feed_forward_text(c) + ", " +
                    n(c.n_heads) + " heads over " + n(c.n_kv_heads) + " KV heads of " + n(c.head_dim) +
                    (c.tied_embeddings ? ", tied embeddings" : ""));
  line("context", n(c.context_length) + " tokens, RoPE scaling " + to_text(c.ropes[0].scaling));
  line("vocabulary", n(c.vocab_size) + " tokens, tokenizer " +
                         (r.tokenizer.empty() ? "(none)" : r.tokenizer) +
                         (r.pre_tokenizer.empty() ? "" : " with pre-tokenizer " + r.pre_tokenizer) +
                         (probe::has_infill_tokens(r.file) == true ? ", with infill tokens" : ""));
  std::string chat_template = r.chat_template_bytes > 0 ? "yes, " + size_text(r.chat_template_bytes) : "no";
  if (const auto known = probe::template_traits(r.file)) {
    if (known->reads_tools)
      chat_template +=
          ", with a place for tools, calls as " + std::string(text::to_string(known->form.calls));
    if (known->form.reasoning != ReasoningFormat::none) chat_template += ", with reasoning";
  }
  line("chat template", chat_template);
  line("memory plan", n(r.shape.sequences) + (r.shape.sequences == 1 ? " sequence" : " sequences") + " of " +
                          n(r.shape.context) + " tokens");
  line("  weights", size_text(r.plan.weight_bytes));
  line("  KV cache",
       size_text(r.plan.kv_bytes) + ", " + size_text(r.kv_bytes_per_token) + " a token as " + r.kv_type);
  line("  scratch", size_text(r.plan.scratch_bytes));
  line("  total", size_text(r.plan.total()));
  for (const auto& [device, planned] : r.devices)
    line("  device", device.name + ": layers " + n(planned.part.begin + 1) + " to " + n(planned.part.end) +
                         ", " + size_text(planned.memory.total()) + " of " + size_text(device.free_bytes) +
                         " (weights " + size_text(planned.memory.weight_bytes) + ", KV cache " +
                         size_text(planned.memory.kv_bytes) + ", scratch " +
                         size_text(planned.memory.scratch_bytes) + ")");
}

int inspect(const InspectOptions& options) {
  auto file = options.file.empty() ? model::ModelFile::from_bytes(model::embedded_demo_model())
                                   : model::ModelFile::open(options.file);
  const auto refuse = [&](const Error& error) {
    const std::string name = options.file.empty() ? "the embedded demo model" : options.file;
    const bool more = !error.where.empty() && error.where != name;
    std::fprintf(stderr, "flyball inspect: %s: %s%s%s%s\n", name.c_str(), error.message.c_str(),
                 more ? " (" : "", more ? error.where.c_str() : "", more ? ")" : "");
    if (options.json) {
      nlohmann::json out{{"error", {{"code", to_string(error.code)}, {"message", error.message}}}};
      if (auto outline = outline_json(options.file); !outline.is_null()) out["outline"] = std::move(outline);
      std::printf("%s\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    }
    return exit_code_for(error);
  };
  if (!file) return refuse(file.error());
  if (options.prefixes) {
    const auto context = graph::serving_context(options.context, (*file)->config());
    return context ? answer_kept_tokens(**file, *context) : refuse(context.error());
  }
  const auto report = make_report(**file, options);
  if (!report) return refuse(report.error());
  if (options.json) {
    print_json(*report);
  } else {
    print_text(*report);
  }
  return kOk;
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  constexpr std::uint32_t kMaxPlannedSequences = 4096;
  auto options = std::make_shared<InspectOptions>();
  auto* command = app.add_subcommand("inspect", "Show what a model file holds and the memory it needs");
  command->add_option("file", options->file,
                      "GGUF file or MLX directory; without it, the embedded demo model");
  command->add_flag("--json", options->json, "Print JSON");
  command
      ->add_option("--context", options->context,
                   "Tokens of a sequence to plan for (default: the model's, at most 4096)")
      ->check(whole_number(1, model::kMaxContext));
  command->add_option("--sequences", options->sequences, "Sequences at once to plan for")
      ->check(whole_number(1, kMaxPlannedSequences))
      ->capture_default_str();
  command->add_option("--kv", options->kv_type, "What the KV cache is to be kept as: f16 or q8_0")
      ->check(CLI::IsMember({"f16", "q8_0"}))
      ->capture_default_str();
  command
      ->add_option(
          "--device", options->devices,
          "Plan for this OpenCL device: part of its id (probe). Given again: one more, over which the "
          "layers are split")
      ->allow_extra_args(false);
  command->add_option("--pool", options->pools)->allow_extra_args(false)->group("");  // `models find` asks so
  command->add_flag("--prefixes", options->prefixes)->group("");                    // `check` asks so
  command->footer(
      "Examples:\n"
      "  flyball inspect model.gguf\n"
      "  flyball inspect model.gguf --context 8192 --sequences 4\n"
      "  flyball inspect model.gguf --json");
  command->callback([options, &exit_code] { exit_code = inspect(*options); });
}

}  // namespace flyball::cli
