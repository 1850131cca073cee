#include "daemon/cli/facts_file.hpp"

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "config/yaml.hpp"
#include "policy/fact_json.hpp"

namespace flyball::cli {

Result<void> read_facts_file(const std::string& path, policy::Facts& facts) {
  const auto text = config::read_text_file(path);
  if (!text) return pass(text);
  const auto document = read_json(*text, {}, "The file");
  if (!document) return fail(document.error().code, document.error().message, {}, path);
  if (!document->is_object())
    return fail(ErrorCode::invalid_json,
                std::string("expected a JSON object of fact names and values, got ") +
                    (document->is_array() ? "an array" : "a single value"),
                {}, path);
  for (const auto& [name, value] : document->items()) {
    auto fact = policy::read_fact(name, value, *facts.targets());
    if (!fact) {
      fact.error().where = path;
      return pass(fact);
    }
    facts.set(fact->id, std::move(fact->value), "facts file");
  }
  return {};
}

}  // namespace flyball::cli
