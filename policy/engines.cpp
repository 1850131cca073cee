// engines.yaml: its table, and what only the whole file shows.
#include "policy/engines.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "config/table.hpp"
#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

using config::as_texts;
using config::Bound;
using config::Entry;
using config::Findings;
using config::Node;
using config::Shape;
using Json = nlohmann::json;

constexpr std::string_view kEnginesSchema = "flyball.engines/v1";
constexpr const char* kShippedFile = "<shipped engines.yaml>";
constexpr std::string_view kAdvice = "advice";

constexpr std::array<std::string_view, 8> kKinds{"engine",    "server", "orchestrator", "app",
                                                 "framework", "system", "library",      "kernels"};
constexpr std::array<std::string_view, 4> kMoe{"gated", "partial", "all_experts", "none"};
constexpr std::array<std::string_view, 3> kStreaming{"streamed", "batched", "none"};
constexpr std::array<std::string_view, 5> kMaturity{"production", "stable", "beta", "active", "archived"};

// Classes of hardware, with bars between: one of them is called as an engine of ours is.
constexpr std::string_view kDevices = "cpu|apple|nvidia|amd|intel|tpu|mobile|webgpu";

template <class E, std::size_t N>
E chosen(const std::array<std::string_view, N>& names, const Node& node) {
  return static_cast<E>(std::ranges::find(names, std::string_view(node.text)) - names.begin());
}
template <std::size_t N>
Shape one_of(const std::array<std::string_view, N>& names) {
  return config::choice({names.begin(), names.end()});
}
Shape some_of(std::vector<std::string_view> names) {
  const auto n = static_cast<std::int64_t>(names.size());
  return config::list(config::choice(std::move(names)), 1, n);
}
Shape formats() {
  return some_of({"gguf", "mlx", "mlc", "awq", "gptq", "exl2", "exl3", "bitsandbytes", "fp8", "coreml"});
}

// The catalogue of systems is shipped: it names targets that are known without a configuration.
const TargetForm& target_form() {
  static const TargetForm form(*default_targets());
  return form;
}

const std::vector<Bound<EngineEntry>>& engine_table() {
  using E = EngineEntry;
  static const std::vector<Bound<E>> table = {
      {{"name", config::text(1, 100), "as its makers write it", true},
       [](E& e, const Node& n) { e.name = n.text; }},
      {{"kind", one_of(kKinds), "what it is", true},
       [](E& e, const Node& n) { e.kind = chosen<EngineKind>(kKinds, n); }},
      {{"platforms", some_of({"macos", "linux", "windows", "bsd", "ios", "android", "browser"}),
        "where it runs"},
       [](E& e, const Node& n) { e.platforms = as_texts(n); }},
      {{"devices", some_of(split_at_bars(kDevices)), "what it computes on"},
       [](E& e, const Node& n) { e.devices = as_texts(n); }},
      {{"moe", one_of(kMoe), "how it runs a mixture of experts"},
       [](E& e, const Node& n) { e.moe = chosen<MoeSupport>(kMoe, n); }},
      {{"kv_quant", config::list(config::text(1, 40), 1, 8), "what its KV cache may be kept as"},
       [](E& e, const Node& n) { e.kv_quant = as_texts(n); }},
      {{"paged_attention", config::boolean(), "its KV cache lies in blocks"},
       [](E& e, const Node& n) { e.paged_attention = config::as_bool(n); }},
      {{"streaming", one_of(kStreaming), "how its answers come"},
       [](E& e, const Node& n) { e.streaming = chosen<Streaming>(kStreaming, n); }},
      {{"formats", formats(), "weights that it loads"}, [](E& e, const Node& n) { e.formats = as_texts(n); }},
      {{"formats_partly", formats(), "weights that it loads by a detour, or not on every device"},
       [](E& e, const Node& n) { e.formats_partly = as_texts(n); }},
      {{"licence", config::text(1, 60), "SPDX id, or proprietary"},
       [](E& e, const Node& n) { e.licence = n.text; }},
      {{"maturity", one_of(kMaturity), "how far it has come"},
       [](E& e, const Node& n) { e.maturity = chosen<Maturity>(kMaturity, n); }},
      {{"verdict", config::text(1, 400), "what the documents think of it", true},
       [](E& e, const Node& n) { e.verdict = n.text; }},
      {{"denied", config::text(1, 400), "why no rule may name it"},
       [](E& e, const Node& n) { e.denied = n.text; }},
      {{"aliases", config::list(config::text(1, 60), 1, 8), "other names that people write"},
       [](E& e, const Node& n) { e.aliases = as_texts(n); }},
      {{"taken_for", config::list(config::text(1, 40), 1, 12),
        "words of a question that names it, for which the documents take it"},
       [](E& e, const Node& n) { e.taken_for = as_texts(n); }},
      {{"generations", some_of({"pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell"}),
        "generations of NVIDIA's GPUs that it runs on"},
       [](E& e, const Node& n) { e.generations = as_texts(n); }},
      {{"model_source", config::boolean(), "models may be taken from its store"},
       [](E& e, const Node& n) { e.model_source = config::as_bool(n); }},
      {{"here", config::list_or_single(target_form().shape(), 1, 8),
        "targets that stand for it, the best first; or advice: none does", true},
       [](E&, const Node&) {}},  // read_targets: it finds mistakes
      {{"source", config::list(config::text(1, 40), 1, 8), "ids of documents", true},
       [](E& e, const Node& n) { e.source = as_texts(n); }},
  };
  return table;
}

const Shape& engines_shape() {
  static const Shape shape = config::object({
      {"schema", config::choice({kEnginesSchema}), "which version of this file's rules; the first line",
       true},
      {"documents", config::map(config::text(1, 200), 1, 40), "where the facts come from, by id", true},
      {"engines", config::map(config::object_of(engine_table()), 1, 1000), "the systems, by id", true},
  });
  return shape;
}

EngineEntry engine_of(const Entry& entry, const EngineCatalogue& catalogue, Findings& findings) {
  EngineEntry out;
  out.id = entry.key;
  out.line = entry.at.line;
  out.column = entry.at.column;
  config::read_into(out, entry.value, engine_table());
  const Node& here = *entry.value.find("here");
  if (here.kind == Node::Kind::list || here.text != kAdvice)
    out.here = read_targets(here, *default_targets(), profile_names({}), nullptr, findings);
  if (!out.denied.empty() && !out.here.empty())
    findings.push_back(config::finding(here.at, "\"" + out.id + "\" is denied: nothing can stand for it"));
  std::vector<std::string_view> documents;
  for (const auto& document : catalogue.documents) documents.push_back(document.id);
  for (const Node& source : entry.value.find("source")->items)
    if (std::ranges::find(documents, std::string_view(source.text)) == documents.end())
      findings.push_back(config::finding(source.at, "unknown document \"" + source.text + "\"" +
                                                        config::did_you_mean(source.text, documents)));
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}
std::vector<std::string> texts(const std::vector<Target>& targets) {
  std::vector<std::string> out;
  for (const Target& target : targets) out.push_back(to_string(target));
  return out;
}

}  // namespace

std::string_view to_string(EngineKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)];
}
std::string_view to_string(MoeSupport moe) noexcept {
  return kMoe[static_cast<std::size_t>(moe)];
}
std::string_view to_string(Streaming streaming) noexcept {
  return kStreaming[static_cast<std::size_t>(streaming)];
}
std::string_view to_string(Maturity maturity) noexcept {
  return kMaturity[static_cast<std::size_t>(maturity)];
}

const EngineEntry* EngineCatalogue::find(std::string_view id) const noexcept {
  const auto it = std::ranges::find(engines, id, &EngineEntry::id);
  return it == engines.end() ? nullptr : &*it;
}
std::vector<std::string_view> EngineCatalogue::ids() const {
  std::vector<std::string_view> out;
  for (const EngineEntry& engine : engines) out.push_back(engine.id);
  return out;
}

std::expected<EngineCatalogue, std::vector<Error>> parse_engines_all(std::string_view yaml,
                                                                     std::string_view file_name) {
  Result<Node> root = config::parse_yaml(yaml, file_name);
  if (!root) return std::unexpected(Findings{std::move(root.error())});
  Findings findings;
  config::check_schema_line(*root, kEnginesSchema, findings);
  if (findings.empty()) config::check_shape(*root, engines_shape(), "", findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  EngineCatalogue out;
  out.file = file_name;
  for (const Entry& document : root->find("documents")->entries)
    out.documents.push_back({document.key, document.value.text});
  for (const Entry& engine : root->find("engines")->entries)
    out.engines.push_back(engine_of(engine, out, findings));
  if (!findings.empty()) return std::unexpected(std::move(findings));
  return out;
}

Result<EngineCatalogue> parse_engines(std::string_view yaml, std::string_view file_name) {
  auto catalogue = parse_engines_all(yaml, file_name);
  if (!catalogue) return std::unexpected(config::first_of(catalogue.error()));
  return std::move(*catalogue);
}

std::string engines_schema() {
  return config::json_schema(engines_shape(), "Flyball engines.yaml");
}

const EngineCatalogue& shipped_engines() {
  static const EngineCatalogue catalogue = [] {
    auto parsed = parse_engines(config::default_engines_yaml(), kShippedFile);
    if (parsed) return std::move(*parsed);
    std::fprintf(stderr, "%s: %s\n", parsed.error().where.c_str(), parsed.error().message.c_str());
    std::abort();  // it is part of the program, and a test reads it
  }();
  return catalogue;
}

Json to_json(const EngineEntry& e) {
  Json out = {{"id", e.id},           {"name", e.name},        {"kind", to_string(e.kind)},
              {"verdict", e.verdict}, {"here", texts(e.here)}, {"source", e.source}};
  const auto put = [&](const char* key, const auto& value) {
    if (!value.empty()) out[key] = value;
  };
  put("platforms", e.platforms);
  put("devices", e.devices);
  put("kv_quant", e.kv_quant);
  put("formats", e.formats);
  put("formats_partly", e.formats_partly);
  put("licence", e.licence);
  put("denied", e.denied);
  put("aliases", e.aliases);
  put("taken_for", e.taken_for);
  put("generations", e.generations);
  if (e.moe) out["moe"] = to_string(*e.moe);
  if (e.paged_attention) out["paged_attention"] = *e.paged_attention;
  if (e.streaming) out["streaming"] = to_string(*e.streaming);
  if (e.maturity) out["maturity"] = to_string(*e.maturity);
  if (e.model_source) out["model_source"] = true;
  return out;
}

std::string describe(const EngineEntry& e) {
  std::string out = e.name + " (" + e.id + "), " + std::string(to_string(e.kind)) + "\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    out += "  " + std::string(key) + std::string(key.size() < 17 ? 17 - key.size() : 1, ' ') + value + "\n";
  };
  line("verdict", e.verdict);
  line("denied", e.denied.empty() ? "" : e.denied);
  line("here", e.here.empty() ? "nothing: advice only" : joined(texts(e.here)));
  line("aliases", joined(e.aliases));
  line("taken_for", joined(e.taken_for));
  line("generations", joined(e.generations));
  line("platforms", joined(e.platforms));
  line("devices", joined(e.devices));
  line("moe", e.moe ? std::string(to_string(*e.moe)) : "");
  line("kv_quant", joined(e.kv_quant));
  line("paged_attention", e.paged_attention ? *e.paged_attention ? "yes" : "no" : "");
  line("streaming", e.streaming ? std::string(to_string(*e.streaming)) : "");
  line("formats", joined(e.formats));
  line("formats_partly", joined(e.formats_partly));
  line("licence", e.licence);
  line("maturity", e.maturity ? std::string(to_string(*e.maturity)) : "");
  line("model_source", e.model_source ? "yes" : "");
  line("source", joined(e.source));
  return out;
}

}  // namespace flyball::policy
