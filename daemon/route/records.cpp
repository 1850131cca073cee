#include "daemon/route/records.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "config/digest.hpp"
#include "daemon/route/kept_facts.hpp"
#include "daemon/route/slo.hpp"

namespace flyball::route {
namespace {

using nlohmann::json;

constexpr std::string_view kPutPolicy =
    "INSERT OR IGNORE INTO decision_policies (digest, file, text) VALUES (?, ?, ?)";
constexpr std::string_view kPutFrame = "INSERT OR IGNORE INTO decision_frames (digest, facts) VALUES (?, ?)";
constexpr std::string_view kPutEngines =
    "INSERT OR IGNORE INTO decision_engines (digest, engines) VALUES (?, ?)";
constexpr std::string_view kPutRecord =
    "INSERT INTO decisions (request, at, app, model, operation, rule, target, state, attempts, policy_us, "
    "router_us, queue_ms, ttft_ms, total_ms, prompt_tokens, cached_tokens, completion_tokens, facts, frame, "
    "policy, redecisions, background_load, ignored_fields, engines, answer_constraint, "
    "tools_in_system_message, head_start, kept_prefixes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
    "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
// Both begin with what read_row() takes.
const std::string kSelectRow =
    "SELECT request, at, app, model, operation, rule, target, state, attempts, policy_us, router_us, "
    "queue_ms, ttft_ms, total_ms, prompt_tokens, cached_tokens, completion_tokens, redecisions, "
    "background_load, ignored_fields, e.engines, answer_constraint, tools_in_system_message, "
    "head_start, kept_prefixes, d.facts, f.facts, ";
constexpr std::string_view kFromRecords =
    "FROM decisions d JOIN decision_frames f ON f.digest = frame "
    "LEFT JOIN decision_engines e ON e.digest = d.engines ";
const std::string kEachSince =
    kSelectRow + "frame " + std::string(kFromRecords) + "WHERE at >= ? ORDER BY id";
const std::string kOne = kSelectRow + "p.file, p.text " + std::string(kFromRecords) +
                         "JOIN decision_policies p ON p.digest = policy "
                         "WHERE request = ? AND (? = '' OR app = ?) ORDER BY id DESC LIMIT 1";
constexpr std::size_t kDelta = 25, kFrameFacts = 26, kFrame = 27, kPolicyFile = 27, kPolicyText = 28;

// What the writer's thread puts down. Shares with the daemon's what neither changes.
struct Row {
  RequestRecord request;
  std::string rule, target, facts;
  std::shared_ptr<const std::string> frame;
  std::int64_t frame_key;
  std::shared_ptr<const void> keep;  // holds the tree
  const policy::Tree* tree;
  bool prunes;
};

std::int64_t key_of(std::uint64_t digest) {
  return static_cast<std::int64_t>(digest);
}

std::string attempts_text(const std::vector<AttemptRecord>& attempts) {
  json out = json::array();
  for (const AttemptRecord& a : attempts) {
    out.push_back(json::array({a.backend, a.outcome.text(), a.choice, a.resumed_tokens, a.devices}));
    if (!a.profile.empty() || !a.settings.empty())
      out.back().insert(out.back().end(), {a.profile, a.settings});
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<AttemptRecord> read_attempts(const std::string& kept) {
  std::vector<AttemptRecord> out;
  for (const json& row : json::parse(kept, nullptr, false)) {
    if (!row.is_array() || (row.size() != 5 && row.size() != 7) || !row[0].is_string() ||
        !row[1].is_string() || !row[2].is_number_unsigned() || !row[3].is_number_unsigned() ||
        !row[4].is_array())
      continue;
    AttemptRecord attempt{row[0].get<std::string>(), RunState::read(row[1].get<std::string>()),
                          row[2].get<std::uint32_t>(), row[3].get<std::uint32_t>()};
    for (const json& device : row[4])
      if (device.is_string()) attempt.devices.push_back(device.get<std::string>());
    if (row.size() == 7 && row[5].is_string() && row[6].is_string()) {
      attempt.profile = row[5].get<std::string>();
      attempt.settings = row[6].get<std::string>();
    }
    out.push_back(std::move(attempt));
  }
  return out;
}

// "" where there is none, as in nearly every record.
std::string redecisions_text(const std::vector<Redecision>& redecisions) {
  if (redecisions.empty()) return "";
  json out = json::array();
  for (const Redecision& again : redecisions)
    out.push_back(json::array({again.after_ms, again.from, again.to, again.why}));
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Redecision> read_redecisions(const std::string& kept) {
  std::vector<Redecision> out;
  if (kept.empty()) return out;
  for (const json& row : json::parse(kept, nullptr, false))
    if (row.is_array() && row.size() == 4 && row[0].is_number() && row[1].is_string() && row[2].is_string() &&
        row[3].is_string())
      out.push_back({row[0].get<double>(), row[1].get<std::string>(), row[2].get<std::string>(),
                     row[3].get<std::string>()});
  return out;
}

// "" where there is none, as in nearly every record.
std::string ignored_fields_text(const std::vector<std::string>& fields) {
  return fields.empty() ? "" : json(fields).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<std::string> read_ignored_fields(const std::string& kept) {
  std::vector<std::string> out;
  if (kept.empty()) return out;
  for (const json& field : json::parse(kept, nullptr, false))
    if (field.is_string()) out.push_back(field.get<std::string>());
  return out;
}

// "" where no engine began, as where a request was refused.
std::string engines_text(const std::vector<EngineRecord>& engines) {
  if (engines.empty()) return "";
  json out = json::array();
  for (const EngineRecord& one : engines)
    out.push_back(json::array({one.backend, one.model_path, one.digest, one.quantization, one.kv_type,
                               one.context, one.device, one.driver}));
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<EngineRecord> read_engines(const std::string& kept) {
  std::vector<EngineRecord> out;
  if (kept.empty()) return out;
  for (const json& row : json::parse(kept, nullptr, false)) {
    const auto is_text = [&](std::size_t i) { return row[i].is_string(); };
    if (!row.is_array() || row.size() != 8 || !row[5].is_number_unsigned()) continue;
    if (!is_text(0) || !is_text(1) || !is_text(2) || !is_text(3) || !is_text(4) || !is_text(6) || !is_text(7))
      continue;
    out.push_back({row[0], row[1], row[2], row[3], row[4], row[5].get<std::uint32_t>(), row[6], row[7]});
  }
  return out;
}

// "" where there is none, as in most records.
std::string constraint_text(const std::optional<ConstraintRecord>& constraint) {
  return constraint ? to_json(*constraint).dump(-1, ' ', false, json::error_handler_t::replace) : "";
}

std::optional<ConstraintRecord> read_constraint(const std::string& kept) {
  if (kept.empty()) return std::nullopt;
  const json object = json::parse(kept, nullptr, false);
  const auto member = [&](const char* name) {
    return object.is_object() ? object.value(name, json()) : json();
  };
  const auto text = [&](const char* name) {
    const json value = member(name);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const auto taken = [&](const char* name) {
    const json value = member(name);
    return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
  };
  ConstraintRecord out{text("kind"), text("digest"), taken("compile_us"), taken("engine_compile_us"),
                       taken("mask_us")};
  if (out.digest.empty()) return std::nullopt;
  return out;
}

// "" where there is none, as of apps that keep none.
std::string kept_prefixes_text(const RequestRecord& request) {
  if (request.kept_prefixes.empty()) return "";
  json out{{"used", request.kept_prefix}, {"tokens", request.kept_prefix_tokens}};
  for (const KeptPrefixRecord& kept : request.kept_prefixes) out["prefixes"].push_back(to_json(kept));
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

void read_kept_prefixes(const std::string& kept, RequestRecord& request) {
  if (kept.empty()) return;
  const json object = json::parse(kept, nullptr, false);
  const auto text = [](const json& of, const char* name) {
    const auto it = of.find(name);
    return it != of.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto count = [](const json& of, const char* name) {
    const auto it = of.find(name);
    return it != of.end() && it->is_number_unsigned() ? it->get<std::uint64_t>() : 0;
  };
  if (!object.is_object() || !object.contains("prefixes") || !object["prefixes"].is_array()) return;
  request.kept_prefix = text(object, "used");
  request.kept_prefix_tokens = static_cast<std::uint32_t>(count(object, "tokens"));
  for (const json& one : object["prefixes"]) {
    const auto state = one.is_object() ? kept_state_from(text(one, "state")) : std::nullopt;
    if (!state) continue;
    request.kept_prefixes.push_back(
        {.app = request.app,
         .name = text(one, "name"),
         .model = text(one, "model"),
         .backend = text(one, "engine"),
         .state = *state,
         .why = text(one, "reason"),
         .tokens = static_cast<std::uint32_t>(count(one, "tokens")),
         .tokens_in_memory = static_cast<std::uint32_t>(count(one, "tokens_in_memory")),
         .tokens_on_disk = static_cast<std::uint32_t>(count(one, "tokens_on_disk")),
         .uses = count(one, "uses"),
         .saved_tokens = count(one, "saved_tokens")});
    if (const auto ms = one.find("saved_ms"); ms != one.end() && ms->is_number())
      request.kept_prefixes.back().saved_ms = ms->get<double>();
  }
}

std::uint32_t tokens(const store::Value& value) {
  return static_cast<std::uint32_t>(store::integer(value));
}

// All but the facts.
Record read_row(store::Row row) {
  Record out;
  RequestRecord& r = out.request;
  r.request_id = store::text(row[0]);
  r.created = store::integer(row[1]);
  r.app = store::text(row[2]);
  r.model = store::text(row[3]);
  r.operation = store::text(row[4]);
  out.rule = store::text(row[5]);
  out.target = store::text(row[6]);
  r.state = RunState::read(store::text(row[7]));
  r.attempts = read_attempts(store::text(row[8]));
  r.policy_us = store::number(row[9]);
  r.router_us = store::number(row[10]);
  r.queue_ms = store::number(row[11]);
  r.ttft_ms = store::number(row[12]);
  r.total_ms = store::number(row[13]);
  r.usage.prompt_tokens = tokens(row[14]);
  r.usage.cached_tokens = tokens(row[15]);
  r.usage.completion_tokens = tokens(row[16]);
  r.redecisions = read_redecisions(store::text(row[17]));
  r.background_load = store::text(row[18]);
  r.ignored_fields = read_ignored_fields(store::text(row[19]));
  r.engines = read_engines(store::text(row[20]));
  r.constraint = read_constraint(store::text(row[21]));
  r.tools_in_system_message = store::integer(row[22]) != 0;
  r.head_start = store::text(row[23]);
  read_kept_prefixes(store::text(row[24]), r);
  return out;
}

Result<void> prune(store::Database& database, std::int64_t now) {
  // A clock that is ahead for a while takes no past along: the row before this one must be as far ahead, too.
  auto done = database.run(
      "DELETE FROM decisions WHERE at < MIN(?, (SELECT at FROM decisions ORDER BY id DESC LIMIT 1 OFFSET 1)) "
      "- ?",
      {now, kMaxRecordAge});
  if (done)
    done =
        database.run("DELETE FROM decisions WHERE id <= (SELECT MAX(id) FROM decisions) - ?", {kMaxRecords});
  // One that is still in use here comes back with the next record that names it.
  if (done)
    done = database.run("DELETE FROM decision_frames WHERE digest NOT IN (SELECT frame FROM decisions)");
  if (done)
    done = database.run("DELETE FROM decision_policies WHERE digest NOT IN (SELECT policy FROM decisions)");
  if (done)
    done = database.run("DELETE FROM decision_engines WHERE digest NOT IN (SELECT engines FROM decisions)");
  return done;
}

Result<void> put(store::Database& database, const Row& row) {
  const RequestRecord& r = row.request;
  const std::int64_t policy = key_of(row.tree->digest);
  auto done = database.run(kPutPolicy, {policy, row.tree->file, row.tree->text});
  if (done) done = database.run(kPutFrame, {row.frame_key, *row.frame});
  const std::string engines = engines_text(r.engines);
  const std::int64_t engines_key = engines.empty() ? 0 : key_of(config::digest(engines));
  if (done && !engines.empty()) done = database.run(kPutEngines, {engines_key, engines});
  if (done)
    done = database.run(kPutRecord, {r.request_id,
                                     r.created,
                                     r.app,
                                     r.model,
                                     r.operation,
                                     row.rule,
                                     row.target,
                                     std::string(r.state.text()),
                                     attempts_text(r.attempts),
                                     r.policy_us,
                                     r.router_us,
                                     r.queue_ms,
                                     r.ttft_ms,
                                     r.total_ms,
                                     std::int64_t{r.usage.prompt_tokens},
                                     std::int64_t{r.usage.cached_tokens},
                                     std::int64_t{r.usage.completion_tokens},
                                     row.facts,
                                     row.frame_key,
                                     policy,
                                     redecisions_text(r.redecisions),
                                     r.background_load,
                                     ignored_fields_text(r.ignored_fields),
                                     engines_key,
                                     constraint_text(r.constraint),
                                     std::int64_t{r.tools_in_system_message},
                                     r.head_start,
                                     kept_prefixes_text(r)});
  if (done && row.prunes) done = prune(database, r.created);
  return done;
}

std::string target_of(const policy::Decision& decision) {
  return decision.target ? to_string(*decision.target) : "";
}

// kept: nullptr: its policy cannot be read any more.
Result<Receipt> replay(Record record, const std::string& file,
                       const std::shared_ptr<const policy::Tree>& kept) {
  if (kept != nullptr) {
    Receipt out;
    static_cast<RequestRecord&>(out) = std::move(record.request);
    out.facts = std::move(record.facts);
    out.keep = kept;
    policy::decide(*kept, out.facts, out.decision);
    if (out.state == RunState::failed(ErrorCode::slo_unattainable))
      out.refused = slo_refusal(out.decision, out.facts);
    if (out.decision.rule->id == record.rule && target_of(out.decision) == record.target) return out;
  }
  return fail(ErrorCode::receipt_outdated, "Rule " + record.rule + " of " + file + " decided it" +
                                               (record.target.empty() ? "" : " (" + record.target + ")") +
                                               "; this version of flyball reads that policy in another way.");
}

std::unexpected<Error> damaged(const store::Database& database, const std::string& request_id) {
  return fail(ErrorCode::io_error, "The record of " + request_id + " is damaged.", {},
              database.file().string());
}

}  // namespace

void ReceiptStore::keep(const Receipt& receipt) {
  const policy::Decision& decision = receipt.decision;
  if (!writer_ || !decision.tree) return;
  const std::string pair = receipt.app + '\n' + receipt.model;
  auto frame = frames_.find(pair);
  if (frame != frames_.end() && !frame->second.facts.targets()->same_as(*receipt.facts.targets())) {
    frames_.erase(frame);  // of targets that were configured otherwise
    frame = frames_.end();
  }
  std::string facts = frame == frames_.end() ? "" : write_facts(receipt.facts, frame->second.facts);
  if (facts.empty() || (facts.size() > kMaxDelta && frame->second.uses >= kFrameUses)) {
    if (frame == frames_.end() && frames_.size() >= kMaxFrames)
      frames_.erase(
          std::ranges::min_element(frames_, {}, [](const auto& entry) { return entry.second.last_used; }));
    const policy::Facts nothing(receipt.facts.targets());
    auto whole = std::make_shared<const std::string>(write_facts(receipt.facts, nothing));
    const std::int64_t key = key_of(config::digest(*whole));
    frame = frames_.insert_or_assign(pair, Frame{receipt.facts, std::move(whole), key}).first;
    facts = write_facts(receipt.facts, receipt.facts);
  }
  ++frame->second.uses;
  frame->second.last_used = kept_;
  const auto row = std::make_shared<const Row>(Row{receipt, decision.rule->id, target_of(decision),
                                                   std::move(facts), frame->second.text, frame->second.key,
                                                   receipt.keep, decision.tree, kept_++ % kPruneEvery == 0});
  writer_->post([row](store::Database& database) { return put(database, *row); });
}

bool ReceiptStore::find(std::string request_id, std::string app,
                        std::function<void(Result<std::optional<Receipt>>)> found) const {
  if (!writer_) return false;
  return writer_->look([request_id = std::move(request_id), app = std::move(app), found = std::move(found)](
                           store::Database& database) { found(find_record(database, request_id, app)); });
}

Result<std::optional<Receipt>> find_record(store::Database& database, std::string_view request_id,
                                           std::string_view app) {
  std::optional<Record> record;
  std::string delta, frame, file, policy;
  const std::string id(request_id), of(app);
  auto asked = database.query(kOne, {id, of, of}, [&](store::Row row) {
    record = read_row(row);
    delta = store::text(row[kDelta]);
    frame = store::text(row[kFrameFacts]);
    file = store::text(row[kPolicyFile]);
    policy = store::text(row[kPolicyText]);
    return false;
  });
  if (!asked) return pass(asked);
  if (!record) return std::nullopt;
  auto tree = policy::parse_policy(policy, file);
  const auto kept = tree ? std::make_shared<const policy::Tree>(std::move(*tree)) : nullptr;
  if (kept != nullptr) record->facts = policy::Facts(kept->targets);
  if (!read_facts(frame, record->facts) || !read_facts(delta, record->facts)) return damaged(database, id);
  auto receipt = replay(std::move(*record), file, kept);
  if (!receipt) return pass(receipt);
  return std::move(*receipt);
}

Result<void> each_record(store::Database& database, std::int64_t since,
                         const std::function<void(const Record&)>& each, const policy::Targets& targets) {
  std::unordered_map<std::int64_t, policy::Facts> frames;
  std::string broken;
  auto asked = database.query(kEachSince, {since}, [&](store::Row row) {
    Record record = read_row(row);
    const auto [frame, first] = frames.try_emplace(store::integer(row[kFrame]), targets);
    bool whole = !first || read_facts(store::text(row[kFrameFacts]), frame->second);
    record.facts = frame->second;
    whole = whole && read_facts(store::text(row[kDelta]), record.facts);
    if (whole)
      each(record);
    else
      broken = record.request.request_id;
    return whole;
  });
  if (asked && !broken.empty()) return damaged(database, broken);
  return asked;
}

Result<policy::RuleCounts> count_by_rule(store::Database& database, std::int64_t since) {
  policy::RuleCounts out;
  auto asked = database.query("SELECT rule, COUNT(*) FROM decisions WHERE at >= ? GROUP BY rule", {since},
                              [&](store::Row row) {
                                out[store::text(row[0])] = static_cast<std::uint64_t>(store::integer(row[1]));
                                return true;
                              });
  if (!asked) return pass(asked);
  return out;
}

}  // namespace flyball::route
