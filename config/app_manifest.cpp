// apps.d/*.yaml: the table of a manifest, where its keys come from, and what only all manifests together
// show.
#include "config/app_manifest.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "config/api_key.hpp"
#include "config/app_models.hpp"
#include "config/file_error.hpp"
#include "config/path.hpp"
#include "config/table.hpp"
#include "config/utf8.hpp"
#include "config/yaml.hpp"
#include "config/yaml_folder.hpp"

namespace flyball::config {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kSchema = "flyball.app/v1";
constexpr std::size_t kMaxApps = 1000;
constexpr std::int64_t kMaxTokens = 1 << 24;
// Of a rate: the state multiplies by 60,000 and stays far from the end of 64 bits.
constexpr std::int64_t kMaxPerMinute = 1'000'000'000, kMaxPerDay = 1'000'000'000'000;

constexpr std::array<std::string_view, 10> kClasses{
    "chat",           "agent",         "rag",        "batch",     "completion",
    "classification", "summarization", "extraction", "embedding", "fine_tuning"};
constexpr std::array<std::string_view, 2> kPrivacies{"local_only", "any"};
constexpr std::array<std::string_view, 3> kKeptRoles{"system", "user", "prompt"};
constexpr std::array<std::string_view, 2> kKeptComputes{"load", "first_use"};

template <class E, std::size_t N>
E chosen(const std::array<std::string_view, N>& names, std::string_view name) {
  return static_cast<E>(std::ranges::find(names, name) - names.begin());
}

const std::vector<Bound<Workload>>& workload_table() {
  static const std::vector<Bound<Workload>> table = {
      {{"class", choice({kClasses.begin(), kClasses.end()}), "what kind of work it is"},
       [](Workload& w, const Node& n) { w.kind = chosen<WorkloadClass>(kClasses, n.text); }},
      {{"modalities", list(choice({"text", "image", "audio"}), 1, 3), "what its prompts hold"},
       [](Workload& w, const Node& n) { w.modalities = as_texts(n); }},
      {{"prompt_tokens", integer(1, kMaxTokens), "tokens of a typical prompt"},
       [](Workload& w, const Node& n) { w.prompt_tokens = as<std::uint32_t>(n); }},
      {{"output_tokens", integer(1, kMaxTokens), "tokens of a typical answer"},
       [](Workload& w, const Node& n) { w.output_tokens = as<std::uint32_t>(n); }},
      {{"shared_prefix_tokens", integer(0, kMaxTokens), "tokens that its prompts begin with in common"},
       [](Workload& w, const Node& n) { w.shared_prefix_tokens = as<std::uint32_t>(n); }},
      {{"concurrency", integer(1, 100'000), "requests it has open at once when busy"},
       [](Workload& w, const Node& n) { w.concurrency = as<std::uint32_t>(n); }},
      {{"fixed_critical", boolean(), "one model, always, and it matters"},
       [](Workload& w, const Node& n) { w.fixed_critical = as_bool(n); }},
      {{"batch_size", integer(1, 100'000), "prompts that it hands in to be answered together"},
       [](Workload& w, const Node& n) { w.batch_size = as<std::uint32_t>(n); }},
      {{"phase", choice({"prefill", "decode"}), "where its time goes: reading prompts or writing answers"},
       [](Workload& w, const Node& n) { w.phase = n.text; }},
      {{"objective", choice({"latency", "throughput", "peak", "convenience"}), "what counts most"},
       [](Workload& w, const Node& n) { w.objective = n.text; }},
      {{"structured_output", boolean(), "its answers follow a schema or a grammar"},
       [](Workload& w, const Node& n) { w.structured_output = as_bool(n); }},
      {{"draft_model", boolean(), "a small model may draft for it (speculative decoding)"},
       [](Workload& w, const Node& n) { w.draft_model = as_bool(n); }},
      {{"delivery",
        choice({"service", "desktop_app", "in_process", "single_file", "cross_platform", "browser"}),
        "where the engine runs that the app needs; service: here"},
       [](Workload& w, const Node& n) { w.delivery = n.text; }},
  };
  return table;
}

const std::vector<Bound<Slo>>& slo_table() {
  static const std::vector<Bound<Slo>> table = {
      {{"ttft", duration(1ms, 1h), "time to first token it wants"},
       [](Slo& s, const Node& n) { s.ttft = as_duration(n); }},
      {{"tpot", duration(1ms, 1h), "time per output token it wants"},
       [](Slo& s, const Node& n) { s.tpot = as_duration(n); }},
      {{"deadline", duration(1ms, 24h), "after which an answer is of no use"},
       [](Slo& s, const Node& n) { s.deadline = as_duration(n); }},
      {{"hard", boolean(),
        "whether a request that no engine is predicted to hold them for is refused at once"},
       [](Slo& s, const Node& n) { s.hard = as_bool(n); }},
  };
  return table;
}

const std::vector<Bound<AppLimits>>& limits_table() {
  static const std::vector<Bound<AppLimits>> table = {
      {{"in_flight", integer(1, 100'000),
        "its answers that may be open at once: a request with `n: 4` counts as four"},
       [](AppLimits& l, const Node& n) { l.in_flight = as<std::uint32_t>(n); }},
      {{"max_tokens", integer(0, kMaxTokens), "tokens of one answer; 0: as many as the context leaves"},
       [](AppLimits& l, const Node& n) { l.max_tokens = as<std::uint32_t>(n); }},
      {{"queue", integer(0, 100'000),
        "its answers that may wait; an empty queue takes any request; 0: no limit"},
       [](AppLimits& l, const Node& n) { l.queue = as<std::uint32_t>(n); }},
      {{"requests_per_minute", integer(0, kMaxPerMinute),
        "evenly, and a minute's worth at once; 0: no limit"},
       [](AppLimits& l, const Node& n) { l.requests_per_minute = as<std::uint64_t>(n); }},
      {{"bytes_per_minute", size(0, 1ULL << 40), "of its request bodies, as requests; 0B: no limit"},
       [](AppLimits& l, const Node& n) { l.bytes_per_minute = as_bytes(n); }},
      {{"tokens_per_minute", integer(0, kMaxPerMinute), "of prompts and answers, as requests; 0: no limit"},
       [](AppLimits& l, const Node& n) { l.tokens_per_minute = as<std::uint64_t>(n); }},
      {{"tokens_per_day", integer(0, kMaxPerDay), "of prompts and answers, from midnight UTC; 0: no limit"},
       [](AppLimits& l, const Node& n) { l.tokens_per_day = as<std::uint64_t>(n); }},
      {{"kv_tokens", integer(0, kMaxPerMinute),
        "tokens that its open requests may come to together; 0: no limit"},
       [](AppLimits& l, const Node& n) { l.kv_tokens = as<std::uint64_t>(n); }},
      {{"weight", integer(1, 1000), "its share of an engine that several apps want, beside apps of 100"},
       [](AppLimits& l, const Node& n) { l.weight = as<std::uint32_t>(n); }},
      {{"may_evict", boolean(),
        "whether other models' engines end so that the model it asks for finds memory"},
       [](AppLimits& l, const Node& n) { l.may_evict = as_bool(n); }},
      {{"resident", size(0, 1ULL << 50),
        "memory that engines loaded for its requests may hold together; 0B: no limit"},
       [](AppLimits& l, const Node& n) { l.resident = as_bytes(n); }},
      {{"held_bytes", size(1ULL << 20, 1ULL << 40),
        "bytes that the daemon holds for it: request bodies, and answers that its clients have not read"},
       [](AppLimits& l, const Node& n) { l.held_bytes = as_bytes(n); }},
  };
  return table;
}

const std::vector<Bound<AppChat>>& chat_table() {
  static const std::vector<Bound<AppChat>> table = {
      {{"control_tokens_in_content", boolean(),
        "whether text in its messages that spells a control token of the model becomes that token"},
       [](AppChat& c, const Node& n) { c.control_tokens_in_content = as_bool(n); }},
  };
  return table;
}

// `text` and `file` go to add_kept_prefix, which may fail.
const std::vector<Bound<KeptPrefix>>& kept_prefix_table() {
  static const std::vector<Bound<KeptPrefix>> table = {
      {{"text", text(1, static_cast<std::int64_t>(kMaxYamlScalarBytes)), "the prefix itself"},
       [](KeptPrefix&, const Node&) {}},
      {{"file", path(), "a file that holds the prefix, byte for byte; read at the start and at a reload"},
       [](KeptPrefix&, const Node&) {}},
      {{"role", choice({kKeptRoles.begin(), kKeptRoles.end()}),
        "system: the text is the app's system message; user: its first user message begins with the text; "
        "prompt: its prompts of /v1/completions do"},
       [](KeptPrefix& k, const Node& n) { k.role = chosen<KeptPrefix::Role>(kKeptRoles, n.text); }},
      {{"model", id(), "id or alias of the model that keeps it; without it that of requests that name none"},
       [](KeptPrefix& k, const Node& n) { k.model = n.text; }},
      {{"compute", choice({kKeptComputes.begin(), kKeptComputes.end()}),
        "load: as soon as an engine has loaded the model; first_use: after the app's first request there"},
       [](KeptPrefix& k, const Node& n) { k.compute = chosen<KeptPrefix::Compute>(kKeptComputes, n.text); }},
  };
  return table;
}

const std::vector<Bound<AppManifest>>& app_table() {
  static const std::vector<Bound<AppManifest>> table = {
      {{"schema", choice({kSchema}), "which version of this file's rules it is written to; the first line",
        true},
       [](AppManifest&, const Node&) {}},
      {{"app", id(), "the app's id", true},
       [](AppManifest& a, const Node& n) {
         a.id = n.text;
         a.id_at = n.at.where();
       }},
      {{"description", text(0, 1000), "for people"},
       [](AppManifest& a, const Node& n) { a.description = n.text; }},
      {{"key", key_source(), "where the app's API key is read from; one of file, env and credential"},
       [](AppManifest&, const Node&) {}},  // add_key: it may fail
      {{"key_sha256", key_digests(), "SHA-256 of the app's API key, or of several"},
       [](AppManifest& a, const Node& n) { a.keys = as_digests(n); }},
      {{"unix_uid", integer(0, 4'294'967'294), "the user whose processes are this app on the unix socket"},
       [](AppManifest& a, const Node& n) { a.unix_uid = as<std::uint32_t>(n); }},
      {{"workload", object_of(workload_table()), "what the app's requests are like"},
       [](AppManifest& a, const Node& n) { read_into(a.workload, n, workload_table()); }},
      {{"slo", object_of(slo_table()), "how fast the app needs its answers"},
       [](AppManifest& a, const Node& n) { read_into(a.slo, n, slo_table()); }},
      {{"models", list(id(), 1, 1000), "ids or aliases of models it may use; without it all"},
       [](AppManifest& a, const Node& n) {
         a.models = as_texts(n);
         for (const Node& item : n.items) a.models_at.push_back(item.at.where());
       }},
      {{"privacy", choice({kPrivacies.begin(), kPrivacies.end()}),
        "local_only: its prompts never leave this machine"},
       [](AppManifest& a, const Node& n) { a.privacy = chosen<Privacy>(kPrivacies, n.text); }},
      {{"limits", object_of(limits_table()), "what it may use; the operator's config.yaml caps it"},
       [](AppManifest& a, const Node& n) { read_into(a.limits, n, limits_table()); }},
      {{"unknown_fields", choice({"refuse", "accept"}),
        "whether a request with fields that the API does not know is refused, or served without them"},
       [](AppManifest& a, const Node& n) { a.accepts_unknown_fields = n.text == "accept"; }},
      {{"chat", object_of(chat_table()), "how its chats become prompts"},
       [](AppManifest& a, const Node& n) { read_into(a.chat, n, chat_table()); }},
      {{"keep", map(object_of(kept_prefix_table()), 0, kMaxKeptPrefixes),
        "long beginnings that its prompts share, by name: engines compute their KV once and keep it"},
       [](AppManifest&, const Node&) {}},  // add_kept_prefix: it may fail
  };
  return table;
}

const Shape& app_shape() {
  static const Shape shape = object_of(app_table());
  return shape;
}

void check_hard_slo(const Node& root, const Slo& slo, Findings& findings) {
  if (!slo.hard || slo.ttft || slo.tpot || slo.deadline) return;
  findings.push_back(Error{ErrorCode::config_invalid,
                           "slo.hard holds no figure: declare slo.ttft, slo.tpot or slo.deadline beside it",
                           "slo.hard", root.find("slo")->find("hard")->at.where()});
}

// The bytes that `text` or `file` give. The finding stands at `at`.
Result<std::string> kept_text(const Node& node, const std::filesystem::path& base, KeptPrefix& kept,
                              Mark& at) {
  const Node *const written = node.find("text"), *const file = node.find("file");
  if ((written == nullptr) == (file == nullptr))
    return fail(ErrorCode::config_invalid, "expected exactly one of text and file");
  at = (written != nullptr ? written : file)->at;
  if (written != nullptr) return written->text;
  auto path = resolve_path(file->text, base);
  if (!path) return pass(path);
  kept.file = std::move(*path);
  auto text = read_text_file(kept.file, kMaxKeptPrefixBytes);
  if (!text)
    return fail(ErrorCode::config_invalid,
                (text.error().where.empty() ? "" : text.error().where + ": ") + text.error().message);
  if (text->empty()) return fail(ErrorCode::config_invalid, kept.file.string() + ": the file is empty");
  return text;
}

void add_kept_prefix(AppManifest& app, const Entry& entry, const std::filesystem::path& base,
                     Findings& findings) {
  const std::string path = "keep." + entry.key;
  KeptPrefix kept;
  kept.name = entry.key;
  kept.at = entry.at.where();
  read_into(kept, entry.value, kept_prefix_table());
  Mark at = entry.value.at;
  auto text = kept_text(entry.value, base, kept, at);
  if (text && !is_utf8(*text))
    text = fail(ErrorCode::config_invalid, (kept.file.empty() ? "the text" : kept.file.string()) +
                                               " is not UTF-8: models read nothing else");
  if (!text) {
    findings.push_back(finding(at, path + ": " + text.error().message, path));
    return;
  }
  kept.text = std::make_shared<const std::string>(std::move(*text));
  app.keep.push_back(std::move(kept));
}

std::expected<AppManifest, Findings> parse_app_all(std::string_view yaml, std::string_view file_name) {
  Result<Node> root = parse_yaml(yaml, file_name);
  if (!root) return std::unexpected(Findings{std::move(root.error())});
  Findings findings;
  check_schema_line(*root, kSchema, findings);
  if (findings.empty()) check_shape(*root, app_shape(), "", findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));

  AppManifest app;
  app.source = file_name;
  read_into(app, *root, app_table());
  for (const char* const part : {"workload", "slo"})
    if (const Node* declared = root->find(part))
      for (const Entry& entry : declared->entries)
        app.places[std::string(part) + "." + entry.key] = entry.value.at.where();
  check_hard_slo(*root, app.slo, findings);
  if (const Node* source = root->find("key"))
    add_key(app.keys, *source, "key", std::filesystem::path(file_name).parent_path(), findings);
  if (const Node* keep = root->find("keep"))
    for (const Entry& entry : keep->entries)
      add_kept_prefix(app, entry, std::filesystem::path(file_name).parent_path(), findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  return app;
}

// Two apps of one id, key or uid: whoever asks could be either. Both files are named; keys are not shown.
void check_between_apps(const std::vector<AppManifest>& apps, Findings& findings) {
  const auto clash = [&](const AppManifest& first, const AppManifest& second, const std::string& what,
                         const std::string& at) {
    findings.push_back(
        Error{ErrorCode::config_invalid, first.source + " and " + second.source + " " + what, {}, at});
  };
  std::map<std::string, const AppManifest*> ids;
  std::map<Sha256, const AppManifest*> keys;
  std::map<std::uint32_t, const AppManifest*> uids;
  for (const AppManifest& app : apps) {
    if (const auto [it, fresh] = ids.emplace(app.id, &app); !fresh)
      clash(*it->second, app, "declare the same app \"" + app.id + "\"",
            app.id_at.empty() ? app.source : app.id_at);
    for (const Sha256& key : app.keys)
      if (const auto [it, fresh] = keys.emplace(key, &app); !fresh && it->second != &app)
        clash(*it->second, app, "have the same key", app.source);
    if (app.unix_uid)
      if (const auto [it, fresh] = uids.emplace(*app.unix_uid, &app); !fresh)
        clash(*it->second, app, "have the same unix_uid " + std::to_string(*app.unix_uid), app.source);
  }
}

}  // namespace

Result<AppManifest> parse_app(std::string_view yaml, std::string_view file_name) {
  auto app = parse_app_all(yaml, file_name);
  if (!app) return std::unexpected(first_of(app.error()));
  return std::move(*app);
}

std::expected<std::vector<AppManifest>, std::vector<Error>> load_apps_all(const std::filesystem::path& dir) {
  const auto one = [](Error error) { return std::unexpected(Findings{std::move(error)}); };
  auto folder = read_yaml_folder(dir);
  if (!folder) return one(std::move(folder.error()));
  const std::vector<std::filesystem::path>& files = folder->files;
  if (files.size() > kMaxApps)
    return one(Error{ErrorCode::config_invalid,
                     std::to_string(files.size()) + " manifests, the limit is " + std::to_string(kMaxApps),
                     {},
                     dir.string()});

  std::vector<AppManifest> apps;
  Findings findings;
  std::uint64_t kept_bytes = 0;
  for (const auto& file : files) {
    auto text = read_operators_file(file);
    if (!text) {
      findings.push_back(std::move(text.error()));
      continue;
    }
    auto app = parse_app_all(*text, file.string());
    if (!app) {
      std::ranges::move(app.error(), std::back_inserter(findings));
      continue;
    }
    for (const KeptPrefix& kept : app->keep) kept_bytes += kept.text->size();
    if (kept_bytes > kMaxKeptBytes) {  // no further manifest is read: each may have as much again
      findings.push_back(Error{ErrorCode::config_invalid,
                               "keep: the prefixes of the manifests up to this one have " +
                                   std::to_string(kept_bytes) + " bytes together, the limit is " +
                                   std::to_string(kMaxKeptBytes) + ": shorten or remove some",
                               "keep", app->keep.back().at});
      break;
    }
    apps.push_back(std::move(*app));
  }
  check_between_apps(apps, findings);
  if (!findings.empty()) return std::unexpected(std::move(findings));
  return apps;
}

Result<std::vector<AppManifest>> load_apps(const std::filesystem::path& dir) {
  auto apps = load_apps_all(dir);
  if (!apps) return std::unexpected(first_of(apps.error()));
  return std::move(*apps);
}

std::expected<std::vector<AppManifest>, std::vector<Error>> apps_of_all(const Config& config) {
  if (!config.apps_dir.empty()) {
    std::error_code ec;
    if (std::filesystem::is_directory(config.apps_dir, ec)) return load_apps_all(config.apps_dir);
    return std::unexpected(Findings{Error{ErrorCode::config_invalid,
                                          "apps_dir: " + config.apps_dir.string() + " " +
                                              (ec ? unreadable(config.apps_dir, ec.value())
                                                  : "is no directory: name the directory with the manifests"),
                                          "apps_dir", config.place("apps_dir")}});
  }
  auto app = parse_app_all(default_app_yaml(), "<shipped example app>");
  if (!app) return pass(app);
  std::vector<AppManifest> apps;
  apps.push_back(std::move(*app));
  return apps;
}

Result<std::vector<AppManifest>> apps_of(const Config& config) {
  auto apps = apps_of_all(config);
  if (!apps) return std::unexpected(first_of(apps.error()));
  return std::move(*apps);
}

namespace {

// The models that keep prefixes must be there and open to the app.
void check_kept_prefixes(const Config& config, const AppManifest& app,
                         const std::set<std::string_view>& models, Findings& findings) {
  for (const KeptPrefix& kept : app.keep) {
    if (kept_model(config, app, kept) != nullptr) continue;
    const std::string path = "keep." + kept.name;
    std::string why = "app \"" + app.id + "\": " + path;
    if (kept.model.empty())
      why += " names no model, and default_model is not open to the app, which may use several: write " +
             path + ".model";
    else if (models.contains(kept.model))
      why += " names the model \"" + kept.model + "\", which is not open to the app: add it to `models`";
    else
      why += " names the model \"" + kept.model + "\", which config.yaml does not have" +
             did_you_mean(kept.model, {models.begin(), models.end()});
    findings.push_back(Error{ErrorCode::config_invalid, std::move(why), path, kept.at});
  }
}

}  // namespace

std::vector<Error> cross_check(const Config& config, const std::vector<AppManifest>& apps) {
  Findings findings;
  std::set<std::string_view> models;
  for (const ModelEntry& model : config.models) {
    models.insert(model.id);
    models.insert(model.aliases.begin(), model.aliases.end());
  }
  std::vector<std::string_view> app_ids;
  for (const AppManifest& app : apps) {
    app_ids.push_back(app.id);
    for (std::size_t i = 0; i < app.models.size(); ++i)
      if (const std::string& model = app.models[i]; !models.contains(model))
        findings.push_back(Error{ErrorCode::config_invalid,
                                 "app \"" + app.id + "\" names the model \"" + model +
                                     "\", which config.yaml does not have" +
                                     did_you_mean(model, {models.begin(), models.end()}),
                                 "models", i < app.models_at.size() ? app.models_at[i] : app.source});
    check_kept_prefixes(config, app, models, findings);
  }
  if (!config.default_app.empty() && std::ranges::find(app_ids, config.default_app) == app_ids.end())
    findings.push_back(Error{ErrorCode::config_invalid,
                             "default_app: no manifest declares the app \"" + config.default_app + "\"" +
                                 did_you_mean(config.default_app, app_ids),
                             "default_app", config.place("default_app")});
  for (const AppManifest& app : apps)
    if (std::ranges::any_of(config.operator_access.keys, [&](const Sha256& key) {
          return std::ranges::find(app.keys, key) != app.keys.end();
        }))
      findings.push_back(Error{ErrorCode::config_invalid,
                               config.place("operator") + " and " + app.source +
                                   " have the same key; the operator's key must be no app's",
                               "operator", config.place("operator")});
  return findings;
}

std::string app_schema() {
  return json_schema(app_shape(), "Flyball app manifest");
}

std::string_view to_string(WorkloadClass kind) noexcept {
  return kClasses[static_cast<std::size_t>(kind)];
}
std::span<const std::string_view> workload_classes() noexcept {
  return kClasses;
}
std::string_view to_string(Privacy privacy) noexcept {
  return kPrivacies[static_cast<std::size_t>(privacy)];
}
std::string_view to_string(KeptPrefix::Role role) noexcept {
  return kKeptRoles[static_cast<std::size_t>(role)];
}

}  // namespace flyball::config
