#include "daemon/cli/facts_file.hpp"

#include <nlohmann/json.hpp>

#include "config/yaml.hpp"
#include "policy/fact_json.hpp"

namespace flyball::cli {
nlohmann::json parse_shallow_json(const std::string& text) {
  constexpr int kMaxDepth = 64;
  const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth < kMaxDepth;
  };
  return nlohmann::json::parse(text, shallow, false);
}

Result<void> read_facts_file(const std::string& path, policy::Facts& facts) {
  const auto text = config::read_text_file(path);
  if (!text) return std::unexpected(text.error());
  const nlohmann::json document = parse_shallow_json(*text);
  if (!document.is_object())
    return fail(ErrorCode::invalid_json, "expected a JSON object of fact names and values", {}, path);
  for (const auto& [name, value] : document.items()) {
    auto fact = policy::read_fact(name, value);
    if (!fact) {
      fact.error().where = path;
      return pass(fact);
    }
    facts.set(fact->id, std::move(fact->value), "facts file");
  }
  return {};
}

}  // namespace flyball::cli
