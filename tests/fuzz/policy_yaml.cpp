// policy.yaml as untrusted bytes: parse, lint, decide on a few sets of facts, and print the receipts.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "policy/decide.hpp"

namespace {

flyball::policy::Facts some_facts(bool many) {
  flyball::policy::Facts facts;
  facts.set("backend.cpu.available", true, "fuzz");
  if (!many) return facts;
  const auto catalogue = flyball::policy::default_targets()->facts();
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    const auto id = static_cast<flyball::policy::FactId>(i);
    switch (catalogue[i].type) {
      case flyball::policy::FactType::boolean:
        facts.set(id, i % 2 == 0, "fuzz");
        break;
      case flyball::policy::FactType::integer:
        facts.set(id, static_cast<std::int64_t>(i), "fuzz");
        break;
      case flyball::policy::FactType::number:
        facts.set(id, 1.5, "fuzz");
        break;
      case flyball::policy::FactType::text:
        facts.set(id, std::string("chat"), "fuzz");
        break;
      case flyball::policy::FactType::text_list:
        facts.set(id, std::vector<std::string>{"text"}, "fuzz");
        break;
    }
  }
  return facts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tree = flyball::policy::parse_policy(text, "fuzz.yaml");
  if (!tree) {
    if (tree.error().code != flyball::ErrorCode::config_invalid || tree.error().where.empty()) std::abort();
    return 0;
  }
  for (const auto& finding : flyball::policy::lint(*tree))
    if (finding.level == flyball::policy::LintFinding::Level::error)
      std::abort();  // parse_policy refuses these
  for (const bool many : {false, true}) {
    static const flyball::policy::Facts kFacts[] = {some_facts(false), some_facts(true)};
    const auto facts = flyball::policy::in_catalogue(kFacts[many ? 1 : 0], tree->targets);
    const auto decision = flyball::policy::decide(*tree, facts);
    if (!decision.rule || (decision.target && decision.queue)) std::abort();
    const auto receipt = flyball::policy::receipt(decision, facts);
    if (flyball::policy::explain_text(receipt).empty()) std::abort();
    if (receipt.dump() != flyball::policy::receipt(flyball::policy::decide(*tree, facts), facts).dump())
      std::abort();
  }
  return 0;
}
