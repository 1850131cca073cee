// A case that advise and why-not are asked about: an app's request, words, a facts file and single facts over
// this machine or none, and the policy to ask.
#pragma once

#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "policy/facts.hpp"
#include "policy/scenario.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

struct CaseOptions {
  std::vector<std::string> words, settings;
  std::string app, model, facts, config, policy;
};
void add_case_options(CLI::App& command, CaseOptions& options);

struct Case {
  policy::Tree tree;
  policy::Facts facts;
  policy::Reading reading;  // of the words
};
// Probes this machine where nothing that is given speaks of hardware.
Result<Case> read_case(const CaseOptions& options);

}  // namespace flyball::cli
