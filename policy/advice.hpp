// What `flyball advise` answers: the system that the policy's sources would take for a case, what serves it
// here, and what to mind.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "policy/decide.hpp"
#include "policy/engines.hpp"
#include "policy/fit.hpp"
#include "policy/scenario.hpp"

namespace flyball::policy {

// Sentences about the decision that no rule says: how a mixture's experts run, weights that are not read.
std::vector<std::string> warnings(const Decision& decision, const Facts& facts);

// Features that the app's workload asks for and nothing here serves: "Flyball does not serve embeddings".
std::vector<std::string> unserved_features(const Facts& facts);

struct Advice {
  const EngineEntry* engine = nullptr;  // the system to take; nullptr: none is named
  std::string because;                  // of the engine, or why none is named
  bool by_policy = false;               // a rule names the engine
  bool stands_for = false;              // the decision's target serves this in the engine's place
  std::vector<std::string> not_served;  // clauses behind "Flyball": "does not serve speech"
  std::vector<std::string> limits;      // such clauses on features that the words ask for and Flyball limits
  Fit fit;
  std::vector<std::string> sentences;  // the answer
};
// `reading`: the words that were asked with; those of no words are empty.
Advice advise(const Decision& decision, const Facts& facts, const Reading& reading);

// flyball.advice/v1: engine (catalogue id, or null), target, profile, rule, because, source, path (ids of the
// rules that were true, in order), `named_by` (the rule that names the engine, or null), stands_for (whether
// this target serves the case in that engine's place), not_served, limits, not_available, warnings,
// sentences, understood, skipped and fits.
nlohmann::json to_json(const Advice& advice, const Decision& decision, const Facts& facts,
                       const Reading& reading);
// The same for a terminal.
std::string advice_text(const Advice& advice, const Decision& decision, const Facts& facts);

}  // namespace flyball::policy
