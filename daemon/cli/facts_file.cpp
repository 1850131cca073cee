#include "daemon/cli/facts_file.hpp"

#include <nlohmann/json.hpp>

#include "config/yaml.hpp"
#include "policy/fact_json.hpp"
#include "policy/fact_text.hpp"

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
    const auto id = policy::find_fact(name);
    if (!id) {
      Error unknown = policy::unknown_fact(name);
      unknown.where = path;
      return std::unexpected(std::move(unknown));
    }
    const policy::FactInfo& info = policy::fact_catalogue()[*id];
    auto typed = policy::fact_value(value, info.type);
    if (!typed)
      return fail(ErrorCode::invalid_value,
                  name + " is of type " + std::string(to_string(info.type)) + ", got " +
                      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                  {}, path);
    if (auto ok = policy::check_value(info, *typed); !ok)
      return fail(ErrorCode::invalid_value, std::move(ok.error().message), {}, path);
    facts.set(*id, std::move(*typed), "facts file");
  }
  return {};
}

}  // namespace flyball::cli
