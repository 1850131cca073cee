#include "daemon/route/receipts.hpp"

#include <nlohmann/json.hpp>

#include "daemon/route/slo.hpp"

namespace flyball::route {

std::string Receipt::summary() const {
  std::string backend = decision.target && !refused ? decision.target->backend : "none";
  if (!attempts.empty()) backend = attempts.back().backend;
  return "backend=" + backend + "; rule=" + (decision.rule ? decision.rule->id : "none") + "; model=" + model;
}

nlohmann::json to_json(const EngineRecord& engine) {
  return {{"backend", engine.backend}, {"model_path", engine.model_path},
          {"digest", engine.digest},   {"quantization", engine.quantization},
          {"kv_type", engine.kv_type}, {"context", engine.context},
          {"device", engine.device},   {"driver", engine.driver}};
}

nlohmann::json to_json(const ConstraintRecord& constraint) {
  return {{"kind", constraint.kind},
          {"digest", constraint.digest},
          {"compile_us", constraint.compile_us},
          {"engine_compile_us", constraint.engine_compile_us},
          {"mask_us", constraint.mask_us}};
}

nlohmann::json to_json(const KeptPrefixRecord& kept) {
  nlohmann::json out{{"name", kept.name},
                     {"model", kept.model},
                     {"state", to_string(kept.state)},
                     {"tokens", kept.tokens},
                     {"tokens_in_memory", kept.tokens_in_memory},
                     {"tokens_on_disk", kept.tokens_on_disk},
                     {"uses", kept.uses},
                     {"saved_tokens", kept.saved_tokens}};
  if (!kept.backend.empty()) out["engine"] = kept.backend;
  if (!kept.why.empty()) out["reason"] = kept.why;
  if (kept.saved_ms >= 0) out["saved_ms"] = kept.saved_ms;
  return out;
}

nlohmann::json to_json(const Receipt& r) {
  nlohmann::json out = policy::receipt(r.decision, r.facts);
  out["request_id"] = r.request_id;
  out["app"] = r.app;
  out["model"] = r.model;
  out["operation"] = r.operation;
  out["created"] = r.created;
  out["state"] = r.state.text();
  if (!r.ignored_fields.empty()) out["ignored_fields"] = r.ignored_fields;
  if (r.tools_in_system_message) out["tools_in_system_message"] = true;
  if (r.constraint) out["constraint"] = to_json(*r.constraint);
  auto& attempts = out["attempts"] = nlohmann::json::array();
  for (const AttemptRecord& a : r.attempts) {
    attempts.push_back({{"backend", a.backend},
                        {"outcome", a.outcome.text()},
                        {"choice", a.choice},
                        {"resumed_tokens", a.resumed_tokens}});
    if (!a.devices.empty()) attempts.back()["devices"] = a.devices;
    if (!a.profile.empty()) attempts.back()["profile"] = a.profile;
    if (!a.settings.empty()) attempts.back()["settings"] = a.settings;
  }
  for (const EngineRecord& engine : r.engines) out["engines"].push_back(to_json(engine));
  for (const Redecision& again : r.redecisions)
    out["redecisions"].push_back(
        {{"after_ms", again.after_ms}, {"from", again.from}, {"to", again.to}, {"why", again.why}});
  if (const std::string let_through = let_through_text(r.facts); !let_through.empty())
    out["let_through"] = let_through;
  for (const KeptPrefixRecord& kept : r.kept_prefixes) out["kept_prefixes"].push_back(to_json(kept));
  if (!r.kept_prefix.empty())
    out["kept_prefix"] = {{"name", r.kept_prefix}, {"tokens", r.kept_prefix_tokens}};
  if (!r.background_load.empty()) out["background_load"] = r.background_load;
  if (!r.head_start.empty()) out["head_start"] = r.head_start;
  if (r.refused) out["refused"] = refusal_json(*r.refused);
  auto& timings = out["timings"] = nlohmann::json::object();
  timings["policy_us"] = r.policy_us;
  if (r.router_us >= 0) timings["router_us"] = r.router_us;
  if (r.queue_ms >= 0) timings["queue_ms"] = r.queue_ms;
  if (r.ttft_ms >= 0) timings["ttft_ms"] = r.ttft_ms;
  if (r.total_ms >= 0) timings["total_ms"] = r.total_ms;
  if (const auto place = r.in_line ? r.in_line() : std::nullopt) {
    out["queue"] = {{"ahead", place->ahead}};
    if (place->eta_ms >= 0) out["queue"]["eta_ms"] = place->eta_ms;
  }
  out["usage"] = {{"prompt_tokens", r.usage.prompt_tokens},
                  {"completion_tokens", r.usage.completion_tokens},
                  {"cached_tokens", r.usage.cached_tokens}};
  return out;
}

nlohmann::json refusal_json(const Error& refused) {
  return {{"code", to_string(refused.code)}, {"message", refused.message}};
}

std::shared_ptr<Receipt> Receipts::add(Receipt receipt) {
  if (ring_.size() == kKept) {
    by_id_.erase(ring_.front()->request_id);
    ring_.pop_front();
  }
  auto kept = std::make_shared<Receipt>(std::move(receipt));
  ring_.push_back(kept);
  by_id_[kept->request_id] = kept;
  return kept;
}

std::shared_ptr<const Receipt> Receipts::find(std::string_view request_id, std::string_view app) const {
  const auto it = by_id_.find(request_id);
  return it != by_id_.end() && it->second->app == app ? it->second : nullptr;
}

}  // namespace flyball::route
