#include "policy/advice.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "config/engine_kinds.hpp"

namespace flyball::policy {
namespace {

using Json = nlohmann::json;

const EngineEntry* recommended(const Decision& decision) {
  return decision.advice ? shipped_engines().find(decision.advice->engine) : nullptr;
}

bool reads(const EngineEntry& engine, const std::string& format) {
  if (engine.formats.empty()) return true;  // not known
  return std::ranges::find(engine.formats, format) != engine.formats.end() ||
         std::ranges::find(engine.formats_partly, format) != engine.formats_partly.end();
}

// A target without a profile covers both, and an upstream stands for what its kind stands for.
bool stands_for(const EngineEntry& engine, const Decision& decision) {
  const Target& target = *decision.target;
  const std::string& kind = decision.tree->targets->find(target.backend)->kind;
  return std::ranges::any_of(engine.here, [&](const Target& here) {
    return here.backend == kind && (here.profile.empty() || here.profile == target.profile);
  });
}

std::vector<std::string> path(const Decision& decision) {
  std::vector<std::string> out;
  for (const RuleTrace& trace : decision.rules)
    if (trace.outcome == Truth::yes) out.push_back(trace.rule->id);
  if (decision.rule == &decision.tree->fallback) out.push_back(decision.rule->id);
  return out;
}

// The targets that stood before the chosen one and could not be used.
std::vector<const TargetTrace*> ruled_out(const Decision& decision) {
  std::vector<const TargetTrace*> out;
  for (const TargetTrace& trace : decision.targets) {
    if (trace.verdict == Verdict::chosen) break;
    if (trace.verdict != Verdict::available) out.push_back(&trace);
  }
  return out;
}

std::string profile_of(const Target& target) {
  return target.profile.empty() ? "" : ", profile " + target.profile;
}

}  // namespace

std::vector<std::string> warnings(const Decision& decision, const Facts& facts) {
  std::vector<std::string> out;
  const EngineEntry* engine = recommended(decision);
  const Fact* format = facts.get("model.format");
  // GGUF is read here, whatever is advised.
  if (engine && format && std::get<std::string>(format->value) != "gguf" &&
      !reads(*engine, std::get<std::string>(format->value)))
    out.push_back(engine->name + " does not read weights in the format " +
                  std::get<std::string>(format->value));
  const Fact* moe = facts.get("model.moe");
  if (!moe || !std::get<bool>(moe->value)) return out;
  if (engine && engine->moe == MoeSupport::all_experts)
    out.push_back(engine->name +
                  " loads and computes all experts of a mixture: expect the speed and the memory of a dense "
                  "model of all its weights");
  if (engine && engine->moe == MoeSupport::none)
    out.push_back(engine->name + " does not run mixtures of experts");
  const config::EngineKind* kind =
      decision.target ? config::find_engine_kind(decision.target->backend) : nullptr;
  if (kind != nullptr && kind->memory == config::EngineKind::Memory::device)
    out.push_back(std::string(kind->id) +
                  " keeps all experts of a mixture in the GPU's memory, and computes the routed ones; " +
                  std::string(config::kCpu.id) + " reads experts that do not fit from disk");
  return out;
}

Json advice(const Decision& decision, const Facts& facts) {
  Json out = {{"schema", "flyball.advice/v1"},
              {"engine", nullptr},
              {"target", nullptr},
              {"profile", nullptr},
              {"rule", nullptr},
              {"because", nullptr},
              {"source", nullptr},
              {"named_by", nullptr},
              {"stands_for", false},
              {"path", path(decision)},
              {"warnings", warnings(decision, facts)}};
  const EngineEntry* engine = recommended(decision);
  if (engine) out["engine"] = engine->id;
  if (decision.advice)
    out["named_by"] = {{"rule", decision.advice->id},
                       {"because", decision.advice->because},
                       {"source", decision.advice->source}};
  if (decision.rule) {
    out["rule"] = decision.rule->id;
    out["because"] = decision.rule->because;
    out["source"] = decision.rule->source;
  }
  if (decision.target) {
    out["target"] = decision.target->backend;
    out["profile"] = decision.target->profile;
    out["stands_for"] = engine && stands_for(*engine, decision);
  }
  Json& skipped = out["not_available"] = Json::array();
  for (const TargetTrace* trace : ruled_out(decision))
    skipped.push_back({{"target", to_string(*trace->target)}, {"reason", reason(*trace, facts)}});
  return out;
}

std::string advice_text(const Decision& decision, const Facts& facts) {
  std::string out;
  const auto line = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) out += key + std::string(key.size() < 9 ? 9 - key.size() : 1, ' ') + value + "\n";
  };
  const auto rule = [&](const Rule& r) {
    line("rule", r.id);
    line("because", r.because);
    line("source", r.source);
  };
  const EngineEntry* engine = recommended(decision);
  if (engine) line("engine", engine->name + " (" + engine->id + ")");
  const bool apart = decision.advice && decision.advice != decision.rule;
  if (apart) rule(*decision.advice);
  if (decision.target) {
    line("here", decision.target->backend + profile_of(*decision.target) +
                     (!engine                         ? ""
                      : stands_for(*engine, decision) ? ", which stands for it"
                                                      : ", which serves instead"));
  } else {
    line("here", "nothing: no target is available");
  }
  if (decision.rule) rule(*decision.rule);
  for (const TargetTrace* trace : ruled_out(decision))
    line("not", to_string(*trace->target) + ": " + reason(*trace, facts));
  std::string way;
  for (const std::string& id : path(decision)) way += (way.empty() ? "" : " > ") + id;
  line("path", way);
  for (const std::string& warning : warnings(decision, facts)) line("mind", warning);
  return out;
}

}  // namespace flyball::policy
