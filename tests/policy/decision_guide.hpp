// The rows of decision_guide.yaml.
#pragma once

#include <string>
#include <vector>

#include "policy/facts.hpp"
#include "policy/tree.hpp"

namespace flyball::testing {

struct GuideRow {
  std::string id, source, words, reading;
  std::string engine, target, warning;  // expected; warning: how one begins, "" for none
  std::string stand_in;                 // a system that the target stands for, "": `engine` or none
  bool elsewhere = false;               // the engine runs on another machine than the row's
  policy::Facts facts;                  // what the row gives, nothing completed; source "row"
};

// Its engines of their own have facts in a row's catalogue.
policy::Tree shipped_policy();
// Adds a failure for every mistake in the file.
std::vector<GuideRow> guide_rows();

}  // namespace flyball::testing
