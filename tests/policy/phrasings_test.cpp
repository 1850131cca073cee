// 120 plain phrasings (phrasings.yaml), 100 of them written without sight of the code: what `flyball advise`
// makes of each. A row is right, wrong (something untrue is said), or not answered, where the words that were
// not understood have to be named.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "config/yaml.hpp"
#include "policy/advice.hpp"
#include "policy/fact_text.hpp"
#include "policy/scenario.hpp"

namespace flyball::policy {
namespace {

struct Judged {
  std::vector<std::string> wrong, missing;  // untrue; true and not said
  bool names_skipped = false;
};

std::string small(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string> texts(const config::Node& row, const char* key) {
  std::vector<std::string> out;
  if (const config::Node* list = row.find(key))
    for (const config::Node& item : list->items) out.push_back(item.text);
  return out;
}

bool near(std::string_view name, const FactValue& said, const FactValue& found) {
  if (name != "model.parameters") return said == found;
  const auto a = static_cast<double>(std::get<std::int64_t>(said)),
             b = static_cast<double>(std::get<std::int64_t>(found));
  return std::abs(a - b) <= a / 10;
}

void judge_facts(const config::Node& row, const Facts& facts, Judged& out) {
  if (const config::Node* expected = row.find("facts"))
    for (const config::Entry& entry : expected->entries) {
      std::string text = entry.value.text;
      for (const config::Node& item : entry.value.items) text += (text.empty() ? "" : ",") + item.text;
      Facts one;
      const auto set = set_fact(entry.key + "=" + text, "row", one);
      ASSERT_TRUE(set) << entry.key << ": " << set.error().message;
      const Fact* found = facts.get(entry.key);
      if (!found)
        out.missing.push_back(entry.key);
      else if (!near(entry.key, one.get(entry.key)->value, found->value))
        out.wrong.push_back(entry.key + " is not " + text);
    }
  for (const std::string& name : texts(row, "not_facts"))
    if (const Fact* found = facts.get(name); found && (found->source == "words" || found->source == "guess"))
      out.wrong.push_back(name + " is set");
}

Judged judge(const config::Node& row, const Tree& tree) {
  Judged out;
  Facts facts(tree.targets);
  const auto reading = read_scenario(row.find("say")->text, facts);
  if (!reading || !complete_scenario(facts)) {
    out.wrong.emplace_back("refused");
    return out;
  }
  const Decision decision = decide(tree, facts);
  const Advice advice = advise(decision, facts, *reading);
  const std::string text = small(advice_text(advice, decision, facts));
  judge_facts(row, facts, out);
  const std::vector<std::string> systems = texts(row, "systems");
  const std::string engine = advice.engine ? advice.engine->id : "";
  if (!engine.empty() && std::ranges::find(systems, engine) == systems.end())
    out.wrong.push_back(engine + " is advised");
  if (engine.empty() && !systems.empty()) out.missing.push_back("a system");
  const std::string fits(to_string(advice.fit.fits)), expected = row.find("fits")->text;
  if (fits != expected)
    (fits == "unknown" ? out.missing : out.wrong).push_back("fits " + fits + ", not " + expected);
  for (const std::string& word : texts(row, "skipped"))
    if (std::ranges::find(reading->skipped, word) == reading->skipped.end())
      out.missing.push_back("skipped " + word);
  for (const std::string& words : texts(row, "must_say"))
    if (!text.contains(small(words))) out.missing.push_back("\"" + words + "\"");
  for (const std::string& words : texts(row, "must_not_say"))
    if (text.contains(small(words))) out.wrong.push_back("\"" + words + "\" is said");
  out.names_skipped = !reading->skipped.empty() && text.contains("skipped:");
  return out;
}

TEST(Phrasings, AreAnsweredRightlyOrSayWhatWasNotUnderstood) {
  const std::string path = std::string(FLYBALL_SOURCE_DIR) + "/tests/policy/phrasings.yaml";
  const auto file = config::read_text_file(path);
  ASSERT_TRUE(file) << file.error().message;
  const auto root = config::parse_yaml(*file, path);
  ASSERT_TRUE(root) << root.error().where << ": " << root.error().message;
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  std::map<std::string, int> kinds;
  std::set<std::string> phrasings;
  int right = 0;
  for (const config::Node& row : root->items) {
    const std::string& say = row.find("say")->text;
    EXPECT_TRUE(phrasings.insert(say).second) << say << " stands there twice";
    ++kinds[row.find("kind")->text];
    const Judged judged = judge(row, *tree);
    std::string faults;
    for (const std::string& one : judged.wrong) faults += "\n  wrong: " + one;
    for (const std::string& one : judged.missing) faults += "\n  missing: " + one;
    right += faults.empty();
    if (!faults.empty()) std::printf("\"%s\"%s\n", say.c_str(), faults.c_str());
    EXPECT_TRUE(judged.wrong.empty()) << say;
    EXPECT_TRUE(faults.empty() || judged.names_skipped)
        << say << ": not answered, and nothing named as skipped";
  }
  EXPECT_EQ(root->items.size(), 120U);
  EXPECT_EQ(kinds.size(), 12U);
  EXPECT_GE(right, 115);
}

}  // namespace
}  // namespace flyball::policy
