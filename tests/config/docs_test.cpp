// docs/manifest.md, docs/policy-language.md, docs/advise.md and docs/security.md against the code: every YAML example
// loads, every key, fact and passed variable is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "config/app_manifest.hpp"
#include "config/child_environment.hpp"
#include "config/config.hpp"
#include "config/yaml.hpp"
#include "policy/facts.hpp"
#include "policy/scenario.hpp"
#include "policy/tree.hpp"

namespace flyball {
namespace {

std::string doc(const std::string& name) {
  const auto text = config::read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/docs/" + name);
  EXPECT_TRUE(text) << text.error().message;
  return text.value_or("");
}

std::vector<std::string> yaml_blocks(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = line == "```yaml";
      if (inside) out.emplace_back();
    } else if (inside) {
      out.back() += line + "\n";
    }
  }
  return out;
}

// Every example is a whole file and says by its schema line which.
void expect_loads(const std::string& block) {
  Error error;
  if (block.starts_with("schema: flyball.config/v1")) {
    if (auto config = config::parse_config(block, "example"))
      return;
    else
      error = config.error();
  } else if (block.starts_with("schema: flyball.app/v1")) {
    if (auto app = config::parse_app(block, "example"))
      return;
    else
      error = app.error();
  } else if (block.starts_with("schema: flyball.policy/v1")) {
    if (auto tree = policy::parse_policy(block, "example"))
      return;
    else
      error = tree.error();
  } else {
    error.message = "the example does not begin with a schema line";
  }
  ADD_FAILURE() << error.where << ": " << error.message << "\n" << block;
}

void collect_keys(const nlohmann::json& schema, std::vector<std::string>& out) {
  if (!schema.is_structured()) return;
  if (schema.is_object() && schema.contains("properties"))
    for (const auto& [key, value] : schema["properties"].items()) out.push_back(key);
  for (const auto& child : schema) collect_keys(child, out);
}

void expect_every_key(const std::string& schema, const std::string& text) {
  std::vector<std::string> keys;
  collect_keys(nlohmann::json::parse(schema), keys);
  EXPECT_GT(keys.size(), 5U);
  for (const std::string& key : keys) EXPECT_THAT(text, testing::HasSubstr("`" + key + "`"));
}

TEST(Docs, ManifestExamplesLoad) {
  setenv("INDEXER_KEY", "an-example-key", 1);
  const auto blocks = yaml_blocks(doc("manifest.md"));
  EXPECT_GE(blocks.size(), 3U);
  for (const std::string& block : blocks) expect_loads(block);
}

TEST(Docs, PolicyExamplesLoad) {
  const auto blocks = yaml_blocks(doc("policy-language.md"));
  EXPECT_GE(blocks.size(), 1U);
  for (const std::string& block : blocks) expect_loads(block);
}

TEST(Docs, EveryVariableThatReachesChildrenIsListed) {
  const std::string text = doc("security.md");
  for (const std::string_view name : config::child_variables())
    EXPECT_NE(text.find("`" + std::string(name) + "`"), std::string::npos) << name;
  for (const std::string_view family : config::child_variable_families())
    EXPECT_NE(text.find("`" + std::string(family) + "*`"), std::string::npos) << family;
}

TEST(Docs, EveryKeyIsDescribed) {
  expect_every_key(config::config_schema(), doc("manifest.md"));
  expect_every_key(config::app_schema(), doc("manifest.md"));
  expect_every_key(policy::policy_schema(), doc("policy-language.md"));
}

// One table row a fact, as the catalogue has it; `backend.<id>.x` once for all engines.
TEST(Docs, TheFactTableIsTheCatalogue) {
  std::vector<std::string> expected;
  for (const policy::FactInfo& fact : policy::default_targets()->facts()) {
    std::string name(fact.name);
    if (name.starts_with("backend.")) {
      if (!name.starts_with("backend.cpu.")) continue;
      name = "backend.<id>." + name.substr(12);
    }
    std::string values(fact.values);
    for (std::size_t at = 0; (at = values.find('|', at)) != std::string::npos; at += 2)
      values.replace(at, 1, ", ");
    expected.push_back("| `" + name + "` | " + std::string(to_string(fact.type)) + " | " +
                       std::string(fact.unit) + " | " + std::string(fact.meaning) +
                       (values.empty() ? "" : ": " + values) + " |");
  }
  std::vector<std::string> found;
  std::istringstream in(doc("policy-language.md"));
  for (std::string line; std::getline(in, line);) {
    const bool fact = line.starts_with("| `app.") || line.starts_with("| `backend.") ||
                      line.starts_with("| `engines.") || line.starts_with("| `hardware.") ||
                      line.starts_with("| `model.") || line.starts_with("| `request.") ||
                      line.starts_with("| `workload.");
    if (fact) found.push_back(line);
  }
  EXPECT_EQ(found, expected);
}

// One table row for each row of the vocabulary of `flyball advise`.
TEST(Docs, TheWordsOfAdviseAreItsVocabulary) {
  const auto replaced = [](std::string_view text, char what, std::string_view by) {
    std::string out;
    for (const char c : text) c == what ? out += by : out += c;
    return out;
  };
  std::vector<std::string> expected, found;
  for (const policy::ScenarioWord& row : policy::scenario_vocabulary())
    expected.push_back("| " + replaced(row.words, '|', ", ") + " | " +
                       (row.facts.empty() ? "" : "`" + replaced(row.facts, ' ', "` `") + "`") + " | " +
                       std::string(row.remark) + " |");
  std::istringstream in(doc("advise.md"));
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (inside && line.starts_with("| ")) found.push_back(line);
    inside |= line == "|---|---|---|";
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace flyball
