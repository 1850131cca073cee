#include "daemon/api/native/explain.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/openai/completion_request.hpp"
#include "daemon/api/openai/field_table.hpp"

namespace flyball::api::native {
namespace {

// Most bytes of `facts`, as JSON. There are a few hundred facts; they are checked and written back on the
// loop.
constexpr std::uint32_t kMaxFactsBytes = 64 * 1024;
// A question without a prompt may have the other fields of a chat.
constexpr auto kAsChat = static_cast<Endpoints>(openai::kChat | openai::kExplain);

}  // namespace

Result<Explain> parse_explain(std::string_view text) {
  const auto packed = read_packed(text);
  if (!packed) return pass(packed);
  const JsonView body = packed->view();
  if (!body.is_object()) return fail(ErrorCode::invalid_value, "The body must be a JSON object.");
  Explain out;
  if (body.find("messages") || body.find("prompt")) {
    const auto kind = body.find("messages") ? Generate::Kind::chat : Generate::Kind::completion;
    auto request = openai::parse_generate(kind, body, openai::kExplain);
    if (!request) return pass(request);
    out.traits = traits_of(*request);
    out.unknown = std::move(request->unknown);
  } else {
    const auto ok = check_members(body, openai::field_table(), FieldOf::body, kAsChat, {}, out.unknown);
    if (!ok) return pass(ok);
    out.traits.operation = to_string(Generate::Kind::chat);
    if (const JsonView model = body.member("model")) {
      if (!model.is_string()) return fail(ErrorCode::invalid_value, "'model' must be a string.", "model");
      out.traits.model_as_asked = model.text();
    }
  }
  const JsonView facts = body.member("facts");
  if (!facts) return out;
  if (!facts.is_object()) return fail(ErrorCode::invalid_value, "'facts' must be an object.", "facts");
  if (facts.json_bytes() > kMaxFactsBytes)
    return fail(ErrorCode::invalid_value,
                "'facts' has " + std::to_string(facts.json_bytes()) + " bytes; the limit is " +
                    std::to_string(kMaxFactsBytes) + ".",
                "facts");
  for (const auto& [key, value] : facts.members()) out.facts.emplace_back(key, to_nlohmann(value));
  return out;
}

}  // namespace flyball::api::native
