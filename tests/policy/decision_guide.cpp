#include "tests/policy/decision_guide.hpp"

#include <gtest/gtest.h>

#include "config/config.hpp"
#include "config/yaml.hpp"
#include "policy/fact_text.hpp"

namespace flyball::testing {
namespace {

void set_facts(const config::Node* from, const std::string& row, policy::Facts& facts) {
  if (!from) return;
  for (const config::Entry& entry : from->entries) {
    const auto ok = policy::set_fact(entry.key + "=" + entry.value.text, "row", facts);
    EXPECT_TRUE(ok) << row << ": " << ok.error().message;
  }
}

}  // namespace

policy::Tree shipped_policy() {
  auto tree = policy::parse_policy(config::default_policy_yaml(), "policy.yaml");
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}

std::vector<GuideRow> guide_rows() {
  static const policy::Targets targets = shipped_policy().targets;
  const std::string path = std::string(FLYBALL_SOURCE_DIR) + "/tests/policy/decision_guide.yaml";
  std::vector<GuideRow> out;
  const auto text = config::read_text_file(path);
  const auto root =
      text ? config::parse_yaml(*text, path) : Result<config::Node>(std::unexpected(text.error()));
  EXPECT_TRUE(root) << root.error().where << ": " << root.error().message;
  if (!root) return out;
  for (const config::Node& node : root->find("rows")->items) {
    const auto field = [&](const char* key) {
      const config::Node* value = node.find(key);
      return value ? value->text : std::string();
    };
    GuideRow row{field("id"),
                 field("source"),
                 field("words"),
                 field("reading"),
                 field("engine"),
                 field("target"),
                 field("warning"),
                 field("stand_in"),
                 field("elsewhere") == "true",
                 policy::Facts(targets)};
    const config::Node* machine = root->find("machines")->find(field("machine"));
    EXPECT_TRUE(machine) << row.id << ": no machine \"" << field("machine") << "\"";
    set_facts(machine, row.id, row.facts);
    set_facts(node.find("facts"), row.id, row.facts);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace flyball::testing
