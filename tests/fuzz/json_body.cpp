// A request body of any bytes: parsed by each API as chat and as completion, it is an operation whose parts
// are in range, or an error; what goes on to the template survives the way to the worker.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/api/framing.hpp"
#include "daemon/api/native/explain.hpp"
#include "daemon/api/ollama/request.hpp"
#include "daemon/api/openai/completion_request.hpp"
#include "daemon/api/openai/responses_request.hpp"
#include "daemon/api/openai/token_request.hpp"
#include "daemon/api/parameters.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_request(const flyball::api::Generate& request) {
  using namespace flyball::api;
  require(flyball::check(request.base.sampling).has_value());
  require(request.choices() >= 1 && request.choices() <= openai::kMaxChoices);
  require(request.base.stop.size() <= kMaxStops);
  require(request.base.constraint.has_value() == !request.constraint_field.empty());
  if (const auto& constraint = request.base.constraint)
    require(constraint->source.empty() ||
            flyball::PackedJson::from_bytes(std::string(constraint->source.bytes())).has_value());
  for (const auto& prompt : request.prompts) {
    const auto* chat = std::get_if<flyball::ChatPrompt>(&prompt);
    if (!chat) continue;
    require(flyball::PackedJson::from_bytes(std::string(chat->messages.bytes())).has_value());
    for (const auto* part : {&chat->tools, &chat->template_args})
      require(part->empty() || flyball::PackedJson::from_bytes(std::string(part->bytes())).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Kind = flyball::api::Generate::Kind;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Both readers take the same documents and refuse the others alike.
  const auto body = flyball::read_packed(text);
  const auto known = flyball::read_json(text);
  require(body.has_value() == known.has_value());
  require(body ? to_nlohmann(body->view()) == *known : body.error().message == known.error().message);
  // Bytes that nobody wrote are packed JSON, or an error.
  if (auto bytes = flyball::PackedJson::from_bytes(std::string(text))) (void)to_nlohmann(bytes->view());
  if (body) {
    for (const auto kind : {Kind::chat, Kind::completion})
      if (auto request = flyball::api::openai::parse_generate(kind, body->view())) check_request(*request);
    if (auto request = flyball::api::openai::responses::parse_create(body->view())) check_request(*request);
    for (const auto parse : {&flyball::api::openai::parse_tokenize, &flyball::api::openai::parse_detokenize})
      if (auto request = parse(body->view())) {
        check_request(*request);
        require(request->choices() == 1 && !request->base.constraint && !request->stream);
      }
    for (const auto parse : {&flyball::api::ollama::parse_chat, &flyball::api::ollama::parse_generate})
      if (auto request = parse(body->view())) check_request(*request);
    (void)flyball::api::ollama::parse_show(body->view());
  }
  (void)flyball::api::native::parse_explain(text);
  // A document of another kind: the Content-Type's boundary before the first line end, the body behind it.
  const std::size_t line = std::min(text.find('\n'), text.size());
  if (const auto parts = flyball::api::read_multipart(text.substr(0, line), text.substr(line)))
    require(parts->size() <= text.size());
  return 0;
}
