// `flyball explain`: which target a request would get on this machine or on one described by facts, and why;
// or why a request that a running daemon served got its own.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <memory>

#include <nlohmann/json.hpp>

#include "config/name_list.hpp"
#include "config/units.hpp"
#include "config/yaml.hpp"
#include "daemon/cli/app_request.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/facts_file.hpp"
#include "daemon/cli/past.hpp"
#include "daemon/cli/running_daemon.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/route/records.hpp"
#include "daemon/route/slo.hpp"
#include "daemon/settings/config_files.hpp"
#include "policy/decide.hpp"

namespace flyball::cli {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds kDaemonTimeout{10};
constexpr std::size_t kShownDigest = 12;  // hex digits that tell the constraints of an app apart

struct ExplainOptions {
  std::string request_id;
  RunningDaemon daemon;
  std::string config, policy, app, model, facts, store;
  bool json = false;
};

// A time in milliseconds, for people.
std::string time(const Json& value, const char* before, const char* behind) {
  if (!value.is_number() || std::abs(value.get<double>()) > 1e12) return "";
  return before + config::time_text(std::llround(value.get<double>() * 1000)) + behind;
}
std::string number(const Json& value, const char* before = "", const char* behind = "") {
  return value.is_number() ? before + std::to_string(std::llround(value.get<double>())) + behind : "";
}

// Decisions that were taken again while the request waited, the engine that loads in the background, and what
// the request's hard SLO did with it. "" for none of them.
std::string slo_text(const Json& receipt) {
  std::string out;
  if (const Json& again = member(receipt, "redecisions"); again.is_array() && !again.empty()) {
    out += "\ndecided again while it waited\n";
    for (const Json& one : again)
      out += "  " + time(member(one, "after_ms"), "after ", ": ") + json_text(member(one, "from")) + " to " +
             json_text(member(one, "to")) + ", because " + json_text(member(one, "why")) + "\n";
  }
  if (const Json& let_through = member(receipt, "let_through"); let_through.is_string())
    out += "\nlet through " + json_text(let_through) + "\n";
  if (const Json& load = member(receipt, "background_load"); load.is_string())
    out += "\n" + json_text(load) + "\n";
  if (const Json& start = member(receipt, "head_start"); start.is_string())
    out += "\nhead start " + json_text(start) + "\n";
  if (const Json& refused = member(receipt, "refused"); refused.is_object())
    out += "\nrefused at once with " + json_text(member(refused, "code")) + "\n  " +
           json_text(member(refused, "message")) + "\n";
  return out;
}

// The unknown fields that the app's manifest let pass. "" for none.
std::string ignored_fields_text(const Json& receipt) {
  const Json& fields = member(receipt, "ignored_fields");
  if (!fields.is_array() || fields.empty()) return "";
  std::string out;
  for (const Json& field : fields)
    out += (out.empty() ? "\nignored, as unknown fields: " : ", ") + json_text(field);
  return out + "\n";
}

// "  engine cpu: Q8_0, KV as f16, a context of 4096 tokens" and what it ran on, for whoever looks for a
// fault.
std::string engine_text(const Json& engine) {
  const auto text = [&](const char* key) {
    const Json& value = member(engine, key);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const auto behind = [](const char* before, const std::string& value) {
    return value.empty() ? "" : before + value;
  };
  return "  engine " + text("backend") + ": " + text("quantization") + behind(", KV as ", text("kv_type")) +
         number(member(engine, "context"), ", a context of ", " tokens") +
         behind("\n    on     ", text("device")) + behind(", ", text("driver")) +
         behind("\n    model  ", text("model_path")) + behind("\n    digest ", text("digest")) + "\n";
}

// What became of a request: the engines that tried, the tokens, the time. "" for a mere decision.
std::string outcome_text(const Json& receipt) {
  const Json& attempts = member(receipt, "attempts");
  if (!attempts.is_array()) return "";
  std::string out = "\nwhat happened: " + json_text(member(receipt, "state")) + "\n";
  for (const Json& attempt : attempts) {
    const Json& resumed = member(attempt, "resumed_tokens");
    const Json& profile = member(attempt, "profile");
    const Json& settings = member(attempt, "settings");
    out += "  " + json_text(member(attempt, "backend")) +
           (profile.is_string() ? ":" + profile.get<std::string>() : "") + ": " +
           json_text(member(attempt, "outcome")) +
           (resumed == 0 ? "" : number(resumed, ", continued behind token ")) +
           (settings.is_string() ? " (" + settings.get<std::string>() + ")" : "") + "\n";
  }
  if (const Json& engines = member(receipt, "engines"); engines.is_array())
    for (const Json& engine : engines) out += engine_text(engine);
  if (const Json& constraint = member(receipt, "constraint"); constraint.is_object())
    out += "  constraint " + json_text(member(constraint, "kind")) + " " +
           json_text(member(constraint, "digest")).substr(0, kShownDigest) +
           number(member(constraint, "compile_us"), ": compiled in ", " us") +
           number(member(constraint, "engine_compile_us"), ", in engines ", " us") +
           number(member(constraint, "mask_us"), "; masks ", " us") + "\n";
  const Json& usage = member(receipt, "usage");
  const Json& timings = member(receipt, "timings");
  out += "  " + number(member(usage, "prompt_tokens"), "", " prompt tokens, ") +
         number(member(usage, "completion_tokens"), "", " tokens answered") +
         time(member(timings, "ttft_ms"), "; first after ", "") +
         time(member(timings, "total_ms"), "; ", " in all");
  return out + "\n";
}

// The kept prefixes of the app, and the one that the prompt began with. "" for an app without any.
std::string kept_prefixes_text(const Json& receipt) {
  const Json& prefixes = member(receipt, "kept_prefixes");
  if (!prefixes.is_array() || prefixes.empty()) return "";
  std::string out = "\nkept prefixes\n";
  for (const Json& prefix : prefixes) {
    out += "  " + json_text(member(prefix, "name")) + ": " + json_text(member(prefix, "state"));
    if (const Json& why = member(prefix, "reason"); why.is_string()) out += ", " + json_text(why);
    if (const Json& tokens = member(prefix, "tokens"); tokens.is_number() && tokens != 0)
      out += number(tokens, ", ", " tokens") +
             number(member(prefix, "tokens_in_memory"), ", ", " in memory") +
             number(member(prefix, "tokens_on_disk"), ", ", " on the disk");
    out += "\n";
    if (const Json& uses = member(prefix, "uses"); uses.is_number() && uses != 0)
      out += number(uses, "    requests that began with it before: ") +
             number(member(prefix, "saved_tokens"), "; they did not compute ", " tokens") +
             time(member(prefix, "saved_ms"), ", which take ", "") + "\n";
  }
  if (const Json& used = member(receipt, "kept_prefix"); used.is_object())
    out += "  the prompt began with " + json_text(member(used, "name")) +
           number(member(used, "tokens"), ": ", " of its tokens came from there") + "\n";
  return out;
}

int print(const Json& receipt, bool json) {
  const std::string out = json ? receipt.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                               : policy::explain_text(receipt) + ignored_fields_text(receipt) +
                                     slo_text(receipt) + outcome_text(receipt) + kept_prefixes_text(receipt);
  std::fputs(out.c_str(), stdout);
  return kOk;
}

// ---- a request that a daemon served -----------------------------------------------------------------------

int explain_served(const ExplainOptions& options) {
  const bool plain = std::ranges::all_of(options.request_id, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
  if (!plain || options.request_id.size() > 200)
    return report(
        Error{ErrorCode::unsupported_value,
              config::quoted(options.request_id) +
                  " is no request id: expected up to 200 letters, digits, -, _ and ., such as an answer "
                  "carries in its x-request-id header",
              {},
              {}});
  const auto answer =
      ask_daemon(options.daemon, "/v1/route/receipts/" + options.request_id, {}, kDaemonTimeout);
  if (!answer) {
    Error error = answer.error();
    if (error.code == ErrorCode::upstream_refused || error.code == ErrorCode::upstream_timeout ||
        error.code == ErrorCode::upstream_invalid)
      error.message +=
          "; --store FILE or --config FILE reads the receipt from the daemon's database, without a running "
          "daemon";
    return report(error);
  }
  const Json& body = answer->body;
  if (answer->status == 200 && body.is_object())
    return print(body.contains("receipt") && body["receipt"].is_object() ? body["receipt"] : body,
                 options.json);
  return report_refusal(
      *answer,
      answer->status == 404 ? " If another app made the request, give that app's key with --key-file." : "");
}

// The same from a daemon's database, whether it runs or not.
int explain_recorded(const ExplainOptions& options, bool in_store) {
  std::filesystem::path file = options.store;
  if (!in_store) {
    const auto config = config::load_config(options.config);
    if (!config) return report(config.error());
    auto in_state = records_file(*config);
    if (!in_state) return report(in_state.error());
    file = std::move(*in_state);
  }
  auto database = store::Database::open(file, store::Database::Access::read_only);
  if (!database) return report(database.error());
  const auto found = route::find_record(*database, options.request_id, options.app);
  if (!found) return report(found.error());
  if (*found) return print(route::to_json(**found), options.json);
  std::fprintf(stderr, "flyball: %s holds no request %s\n", file.c_str(), options.request_id.c_str());
  return kFailed;
}

// ---- a request that might come ----------------------------------------------------------------------------

Result<Json> explain(const ExplainOptions& options) {
  auto files = settings::config_and_policy(options.config, options.policy);
  if (!files) return pass(files);
  const auto request = app_request(files->config, options.app, options.model);
  if (!request) return pass(request);
  ThisMachine machine{policy::Facts(files->tree.targets), {}};
  if (options.facts.empty()) {
    auto found = this_machine(files->config, *request, files->tree.targets);
    if (!found) return pass(found);
    machine = std::move(*found);
  } else {
    probe::set_engine_facts({}, {}, machine.hardware);  // another machine, this release
  }
  auto with_app = facts_of(*request, machine.hardware, machine.measured);
  if (!with_app) return pass(with_app);
  policy::Facts& facts = *with_app;
  if (!options.facts.empty()) {
    policy::forget_derived(facts);
    if (auto ok = read_facts_file(options.facts, facts); !ok) return pass(ok);
  }
  derive(facts);
  const policy::Decision decision = policy::decide(files->tree, facts);
  Json receipt = policy::receipt(decision, facts);
  if (request->app.slo.hard)
    if (const auto refused = route::slo_refusal(decision, facts))
      receipt["refused"] = route::refusal_json(*refused);
  return receipt;
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain", "Which engine a request gets, and why");
  command->add_option("request_id", options->request_id,
                      "a request that a running daemon served (header x-request-id)");
  const auto [url, key_file] = add_daemon_options(*command, options->daemon, "the app's key");
  CLI::Option* const store =
      command->add_option("--store", options->store, "a daemon's database (flyball.db), to ask it instead")
          ->excludes(url)
          ->excludes(key_file);
  CLI::Option* const config =
      command
          ->add_option(
              "--config", options->config,
              "config.yaml (default: the one `serve` would take); with request_id, that of the database to "
              "ask instead of a daemon")
          ->excludes(url)
          ->excludes(store)
          ->excludes(key_file);
  command->add_option("--policy", options->policy,
                      "policy.yaml (default: the one config.yaml names, or the shipped one)");
  command->add_option("--app", options->app, "the app that asks (default: config.yaml's default_app)");
  command->add_option("--model", options->model,
                      "the model asked for (default: the one that a request gets which names none)");
  command->add_option(
      "--facts", options->facts,
      "JSON object of fact names and values: another machine or load instead of this machine's probe");
  command->add_flag("--json", options->json, "the receipt as JSON");
  for (const char* const of_a_future : {"--policy", "--model", "--facts"})
    command->get_option(of_a_future)->excludes("request_id");
  command->footer(
      "Examples:\n"
      "  flyball explain                          a request of the default app on this machine\n"
      "  flyball explain --app indexer --policy new-policy.yaml\n"
      "  echo '{\"hardware.gpu.count\": 1, \"hardware.gpu.discrete_count\": 1, \"hardware.memory.unified\": "
      "false,\n"
      "         \"hardware.cluster.nodes\": 1, \"backend.opencl.available\": true}' > rtx.json\n"
      "  flyball explain --facts rtx.json         the same on a machine with one discrete GPU\n"
      "  flyball explain req-0011223344556677     what a running daemon did\n"
      "  flyball explain req-0011223344556677 --config /etc/flyball/config.yaml\n"
      "\n"
      "docs/policy-language.md lists every fact. Exit code 69: no target, a refusal by slo.hard, or no "
      "daemon; 1: the daemon or the database knows no such request.");
  command->callback([options, url = url, store, key_file = key_file, config, &exit_code] {
    const char* const of_a_past = url->count() > 0        ? "--url"
                                  : store->count() > 0    ? "--store"
                                  : key_file->count() > 0 ? "--key-file"
                                                          : nullptr;
    if (options->request_id.empty() && of_a_past) {
      std::fprintf(stderr,
                   "flyball: explain %s: which request? It asks about one that was served: give the id that "
                   "its answer carried as x-request-id, or leave %s out to ask about one that might come\n",
                   of_a_past, of_a_past);
      exit_code = kUsage;
      return;
    }
    const bool recorded = store->count() > 0 || config->count() > 0;
    if (!options->request_id.empty() && !options->app.empty() && !recorded) {
      std::fputs(
          "flyball: explain --app: a daemon tells an app of its own requests, and --key-file alone says "
          "which app asks: leave --app out, or ask the database instead, with --store or --config\n",
          stderr);
      exit_code = kUsage;
      return;
    }
    if (!options->request_id.empty()) {
      exit_code = recorded ? explain_recorded(*options, store->count() > 0) : explain_served(*options);
      return;
    }
    const auto receipt = explain(*options);
    if (!receipt) {
      exit_code = report(receipt.error());
      return;
    }
    exit_code = print(*receipt, options->json);
    if ((*receipt)["outcome"] == to_string(policy::Outcome::no_target) || receipt->contains("refused"))
      exit_code = kUnavailable;
  });
}

}  // namespace flyball::cli
