// A request body of any bytes: parsed as chat and as completion, it is a typed request whose parts are in
// range, or an error; what goes on to the template is JSON again.
#include <cstdint>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "daemon/api/completion_request.hpp"
#include "daemon/api/explain.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_request(const flyball::api::InferenceRequest& request) {
  require(flyball::check(request.base.sampling).has_value());
  require(request.choices() >= 1 && request.choices() <= flyball::api::kMaxChoices);
  require(request.base.stop.size() <= flyball::api::kMaxStops);
  for (const auto& prompt : request.prompts) {
    const auto* chat = std::get_if<flyball::ChatPrompt>(&prompt);
    if (!chat) continue;
    require(nlohmann::json::accept(chat->messages_json));
    require(chat->tools_json.empty() || nlohmann::json::accept(chat->tools_json));
    require(chat->template_args_json.empty() || nlohmann::json::accept(chat->template_args_json));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using flyball::api::Operation;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const auto operation : {Operation::chat, Operation::completion})
    if (auto request = flyball::api::parse_inference_request(operation, body)) check_request(*request);
  (void)flyball::api::parse_explain_request(body, *flyball::policy::default_targets());
  return 0;
}
