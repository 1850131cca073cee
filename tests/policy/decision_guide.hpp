// The rows of decision_guide.yaml.
#pragma once

#include <string>
#include <vector>

#include "policy/facts.hpp"

namespace flyball::testing {

struct GuideRow {
  std::string id, source, words, reading;
  std::string engine, target, warning;  // expected; warning: how one begins, "" for none
  policy::Facts facts;                  // what the row gives, nothing completed; source "row"
};

// Adds a failure for every mistake in the file.
std::vector<GuideRow> guide_rows();

}  // namespace flyball::testing
