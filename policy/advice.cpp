#include "policy/advice.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include <nlohmann/json.hpp>

#include "config/capabilities.hpp"
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
bool stands_for(const EngineEntry& engine, const Decision& decision, const Facts& facts) {
  const Target& target = *decision.target;
  const std::string& kind = decision.tree->targets->find(target.backend)->kind;
  const config::EngineKind* const found = config::find_engine_kind(kind);
  const Fact* const cards = facts.get("hardware.gpu.discrete_count");
  if (found != nullptr && found->memory == config::EngineKind::Memory::device && cards &&
      std::get<std::int64_t>(cards->value) > found->most_devices)
    return false;
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

const std::string* text_of(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  return fact ? &std::get<std::string>(fact->value) : nullptr;
}

template <class Range>
bool contains(const Range& all, std::string_view one) {
  return std::ranges::find(all, one) != std::ranges::end(all);
}

bool said(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  return fact && std::get<bool>(fact->value);
}

// By the documents; what they do not say is no obstacle.
bool runs_on(const EngineEntry& engine, const Facts& facts, const Reading& reading) {
  const std::string* os = text_of(facts, "hardware.os");
  const std::string* vendor = text_of(facts, "hardware.gpu.vendor");
  const bool here = !os || engine.platforms.empty() || contains(engine.platforms, *os);
  const bool computes =
      !vendor || *vendor == "none" || engine.devices.empty() || contains(engine.devices, *vendor);
  const bool generation = reading.generation.empty() || engine.generations.empty() ||
                          contains(engine.generations, reading.generation);
  return here && computes && generation;
}

// Whether the documents have the engine compute where there is no GPU.
bool computes_without_gpu(const EngineEntry& engine) {
  if (engine.devices.empty()) return true;  // not known
  return contains(engine.devices, config::kCpu.id) || contains(engine.devices, "webgpu") ||
         contains(engine.devices, "mobile");
}

// Work that no fact describes, what serves it by the documents, and the feature of an API that it is. Without
// a reason the documents decide by the other words.
struct Topic {
  std::string_view name, engine;
  std::optional<config::Feature> feature;
  std::string_view because;
};
constexpr std::array kTopics{
    Topic{"reranking", "", config::Feature::rerank, "The documents name no system for reranking."},
    Topic{"speech_output", "kokoro", config::Feature::speech_output,
          "the survey names it for speech output, beside the voices of the system"},
    Topic{"image_generation", "localai", config::Feature::image_generation,
          "the survey names its diffusers for images out"},
    Topic{"adapters", "", config::Feature::adapters, "The documents name no system for adapters."},
    Topic{"phone", "mlc_llm", std::nullopt, "the survey names it for phones, compiled for each"},
    Topic{"tools", "", config::Feature::tools, ""},
    Topic{"logprobs", "", config::Feature::logprobs, ""},
};

// Each feature that the case asks for.
std::vector<config::Feature> asked_features(const Facts& facts, const Reading& reading) {
  using config::Feature;
  std::vector<Feature> out;
  if (const Fact* modalities = facts.get("workload.modalities")) {
    const auto& all = std::get<std::vector<std::string>>(modalities->value);
    if (contains(all, "image")) out.push_back(Feature::vision);
    if (contains(all, "audio")) out.push_back(Feature::audio);
  }
  if (const std::string* work = text_of(facts, "workload.class")) {
    if (*work == "embedding") out.push_back(Feature::embeddings);
    if (*work == "fine_tuning") out.push_back(Feature::fine_tuning);
  }
  if (contains(reading.classes, "embedding")) out.push_back(Feature::embeddings);
  if (contains(reading.classes, "fine_tuning")) out.push_back(Feature::fine_tuning);
  if (said(facts, "workload.structured_output")) out.push_back(Feature::schema);
  if (said(facts, "workload.draft_model")) out.push_back(Feature::draft_model);
  if (const Fact* context = facts.get("model.context"); context && context->source == kScenarioWords)
    out.push_back(Feature::context);
  for (const Topic& topic : kTopics)
    if (topic.feature && contains(reading.topics, topic.name)) out.push_back(*topic.feature);
  return out;
}

std::string os_name(const std::string& os) {
  if (os == "macos") return "macOS";
  if (os == "windows") return "Windows";
  return os == "ios" ? "iOS" : os == "android" ? "Android" : os;
}

// Why Flyball does not serve the case, whatever the policy decides.
std::vector<std::string> not_served(const Facts& facts, const Reading& reading) {
  std::vector<std::string> out;
  std::string others;
  const auto elsewhere = [&](const std::string& os) {
    if (os != "linux" && !others.contains(os_name(os)))
      others += (others.empty() ? "" : " or ") + os_name(os);
  };
  for (const std::string& os : reading.oses) elsewhere(os);
  if (const std::string* os = text_of(facts, "hardware.os")) elsewhere(*os);
  const std::string* delivery = text_of(facts, "workload.delivery");
  if (delivery && *delivery == "browser") elsewhere("in a browser");
  if (contains(reading.topics, "phone") && others.empty()) elsewhere("a phone");
  if (!others.empty())
    out.push_back("itself runs on Linux, not " + std::string(others.starts_with("in ") ? "" : "on ") +
                  others);
  for (const config::Feature feature : asked_features(facts, reading)) {
    const config::Capability found = config::capability(feature);
    if (found.served == config::Served::no && !contains(out, found.reason)) out.emplace_back(found.reason);
  }
  if (const std::string* format = text_of(facts, "model.format"))
    if (const config::Capability found = config::reads_weights(config::kCpu.id, *format);
        found.served == config::Served::no)
      out.emplace_back(found.reason);
  if (const std::string* architecture = text_of(facts, "model.architecture"))
    if (const config::Capability found = config::runs_architecture(config::kCpu.id, *architecture);
        found.served == config::Served::no)
      out.push_back(std::string(found.reason) + " (" + *architecture + ")");
  return out;
}

// The limits within which Flyball serves features that are asked for.
std::vector<std::string> limits(const Facts& facts, const Reading& reading) {
  std::vector<std::string> out;
  for (const config::Feature feature : asked_features(facts, reading))
    if (const config::Capability found = config::capability(config::kCpu.id, {}, feature);
        found.served == config::Served::limit)
      out.emplace_back(found.reason);
  return out;
}

// The policy's answer to a description of nothing: what words that lead there, too, have not changed.
const Rule* advice_without_words(const Decision& decision, const Facts& facts) {
  Facts nothing(facts.targets());
  if (!complete_scenario(nothing)) return nullptr;
  return decide(*decision.tree, nothing).advice;
}

bool knows_hardware(const Facts& facts) {
  for (const char* name :
       {"hardware.gpu.count", "hardware.gpu.discrete_count", "hardware.gpu.integrated_count",
        "hardware.gpu.vendor", "hardware.memory.total", "hardware.os"})
    if (facts.get(name)) return true;
  return facts.get("hardware.cluster.nodes") && facts.get("hardware.cluster.nodes")->source != "default";
}

// Sets engine, because and by_policy.
void recommend(Advice& out, const Decision& decision, const Facts& facts, const Reading& reading) {
  const EngineCatalogue& catalogue = shipped_engines();
  if (reading.undecided) {
    out.because = "Nothing is advised: the words contradict each other about the GPU.";
    return;
  }
  if (reading.understood.empty() && !reading.words.empty()) {
    out.because =
        "Nothing was understood: name a machine, a model or a load, such as \"RTX 4090, chat, 8B\".";
    return;
  }
  for (const std::string& id : reading.systems) {
    const EngineEntry* named = catalogue.find(id);
    if (!named->denied.empty() || !runs_on(*named, facts, reading)) continue;
    if (!std::ranges::any_of(named->taken_for,
                             [&](const std::string& phrase) { return mentions(reading, phrase); }))
      continue;
    out.engine = named;
    out.because = "the documents take it for this";
    return;
  }
  for (const Topic& topic : kTopics) {
    if (!contains(reading.topics, topic.name) || topic.because.empty()) continue;
    out.engine = catalogue.find(topic.engine);
    out.because = topic.because;
    return;
  }
  const EngineEntry* engine = recommended(decision);
  if (!engine) {
    out.because = "No rule of this policy names a system for it.";
    return;
  }
  if (!knows_hardware(facts)) {
    const Rule* const otherwise = advice_without_words(decision, facts);
    if (otherwise && otherwise->id == decision.advice->id) {
      out.because = "No machine is named, and the documents decide by the machine.";
      return;
    }
  }
  const EngineEntry* portable = catalogue.find("llama_cpp");
  const std::string* format = text_of(facts, "model.format");
  if (format && *format == "gguf" && !reads(*engine, *format)) {
    out.engine = portable;
    out.because = engine->name + " does not read GGUF, which this model comes in";
    return;
  }
  if (!reading.generation.empty() && !engine->generations.empty() &&
      !contains(engine->generations, reading.generation)) {
    out.engine = portable;
    out.because = engine->name + " needs a GPU of the RTX generations, and this one is older";
    return;
  }
  const std::string* vendor = text_of(facts, "hardware.gpu.vendor");
  if (vendor && *vendor == "none" && !computes_without_gpu(*engine)) {
    out.engine = portable;
    out.because = engine->name + " needs a GPU, by the documents";
    return;
  }
  out.engine = engine;
  out.because = decision.advice->because;
  out.by_policy = true;
}

// A verdict as a sentence of its own.
std::string verdict_of(const EngineEntry& engine) {
  std::string out = engine.name + ", by the documents: " + engine.verdict;
  if (!out.ends_with('.')) out += ".";
  if (!engine.denied.empty()) out += " No rule may name it: " + engine.denied + ".";
  return out;
}

std::string listed(const std::vector<std::string>& all, const char* before, const char* after) {
  std::string out;
  for (const std::string& one : all) out += (out.empty() ? "" : ", ") + (before + one + after);
  return out;
}

std::string here_text(const Advice& advice, const Decision& decision) {
  if (!advice.not_served.empty()) return "nothing: Flyball " + advice.not_served.front();
  if (!decision.target) return "nothing: no target is available";
  std::string out = decision.target->backend + profile_of(*decision.target);
  if (advice.stands_for) return out + ", which stands for it";
  if (advice.fit.fits == Fits::no)
    return out + (advice.fit.knows_machine ? ", which has too little memory for it"
                                           : ", where the machine's memory, which is not known, holds it");
  return advice.engine ? out + ", which serves instead" : out;
}

void say(Advice& out, const Decision& decision, const Facts& facts, const Reading& reading) {
  std::vector<std::string>& to = out.sentences;
  to.push_back(out.engine ? out.engine->name + " suits this machine and load: " + out.because + "."
                          : out.because);
  for (const std::string& reason : out.not_served) to.push_back("Flyball " + reason + ".");
  const bool answered = out.engine || reading.words.empty();
  if (out.not_served.empty() && answered && out.fit.fits != Fits::no) {
    if (!decision.target)
      to.emplace_back("No engine of Flyball can serve it.");
    else if (out.stands_for)
      to.push_back("Flyball's " + decision.target->backend + " engine stands for it.");
    else
      to.push_back("Flyball would serve it with its " + decision.target->backend + " engine instead.");
    for (const std::string& limit : out.limits) to.push_back("Flyball " + limit + ".");
  }
  const Fact* memory = facts.get("hardware.memory.total");
  if (out.by_policy && !reading.words.empty() && memory && memory->source == "probe")
    to.emplace_back("No machine is named: the answer is for this one.");
  if (!out.fit.sentence.empty()) to.push_back(out.fit.sentence);
  for (const std::string& id : reading.systems) to.push_back(verdict_of(*shipped_engines().find(id)));
  for (const std::string& note : reading.notes) to.push_back(note + ".");
  if (reading.words.empty()) return;
  std::vector<std::string> understood;
  for (const Reading::Phrase& phrase : reading.understood) understood.push_back(phrase.words);
  std::string last;
  if (!understood.empty()) last = "Understood: " + listed(understood, "", "") + ".";
  if (!reading.skipped.empty())
    last += (last.empty() ? "" : " ") + ("Skipped: " + listed(reading.skipped, "\"", "\"")) + ".";
  if (!last.empty()) to.push_back(std::move(last));
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
    out.push_back("the documents say that " + engine->name +
                  " loads and computes all experts of a mixture, as a dense model of all its weights would");
  if (engine && engine->moe == MoeSupport::none)
    out.push_back(engine->name + " does not run mixtures of experts, by the documents");
  const config::EngineKind* kind =
      decision.target ? config::find_engine_kind(config::kind_of(decision.target->backend)) : nullptr;
  if (kind == nullptr) return out;
  std::string truth(config::mixture_of_experts(kind->id));
  if (kind->memory == config::EngineKind::Memory::device)
    truth += "; " + std::string(config::kCpu.id) + " reads experts that do not fit from disk";
  out.push_back("Flyball's " + std::string(kind->id) + " engine " + truth);
  return out;
}

std::vector<std::string> unserved_features(const Facts& facts) {
  std::vector<std::string> out;
  for (const config::Feature feature : asked_features(facts, {}))
    if (const config::Capability found = config::capability(feature); found.served == config::Served::no)
      out.push_back("Flyball " + std::string(found.reason));
  return out;
}

Advice advise(const Decision& decision, const Facts& facts, const Reading& reading) {
  Advice out;
  recommend(out, decision, facts, reading);
  out.not_served = not_served(facts, reading);
  out.fit = fit_of(reading, facts);
  if (!out.fit.one_machine)
    out.not_served.emplace_back("runs a model on one machine, and one of these does not hold it");
  if (out.not_served.empty() && decision.target) out.limits = limits(facts, reading);
  out.stands_for = out.engine && decision.target && stands_for(*out.engine, decision, facts) &&
                   out.not_served.empty() && out.fit.fits != Fits::no;
  say(out, decision, facts, reading);
  return out;
}

Json to_json(const Advice& advice, const Decision& decision, const Facts& facts, const Reading& reading) {
  Json out = {{"schema", "flyball.advice/v1"},
              {"engine", nullptr},
              {"target", nullptr},
              {"profile", nullptr},
              {"rule", nullptr},
              {"because", nullptr},
              {"source", nullptr},
              {"named_by", nullptr},
              {"stands_for", advice.stands_for},
              {"not_served", advice.not_served},
              {"limits", advice.limits},
              {"path", path(decision)},
              {"warnings", warnings(decision, facts)},
              {"sentences", advice.sentences},
              {"understood", Json::array()},
              {"skipped", reading.skipped},
              {"fits", to_string(advice.fit.fits)}};
  for (const Reading::Phrase& phrase : reading.understood)
    out["understood"].push_back({{"words", phrase.words}, {"facts", phrase.facts}});
  if (advice.engine) out["engine"] = advice.engine->id;
  if (advice.by_policy)
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
  }
  Json& unavailable = out["not_available"] = Json::array();
  for (const TargetTrace* trace : ruled_out(decision))
    unavailable.push_back({{"target", to_string(*trace->target)}, {"reason", reason(*trace, facts)}});
  return out;
}

std::string advice_text(const Advice& advice, const Decision& decision, const Facts& facts) {
  std::string out;
  for (const std::string& sentence : advice.sentences) out += sentence + "\n";
  if (!advice.engine && advice.because.starts_with("Nothing")) return out;
  out += "\n";
  const auto line = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) out += key + std::string(key.size() < 9 ? 9 - key.size() : 1, ' ') + value + "\n";
  };
  const auto rule = [&](const Rule& r) {
    line("rule", r.id);
    line("because", r.because);
    line("source", r.source);
  };
  if (advice.engine) line("engine", advice.engine->name + " (" + advice.engine->id + ")");
  if (advice.by_policy && decision.advice != decision.rule) rule(*decision.advice);
  line("here", here_text(advice, decision));
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
