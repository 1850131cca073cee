#include "daemon/discover/servers.hpp"

#include <nlohmann/json.hpp>

namespace flyball::discover {
namespace {

using Json = nlohmann::json;

constexpr std::array<KnownPort, 11> kPorts{{{1234, "LM Studio"},
                                            {1337, "Jan"},
                                            {4891, "GPT4All"},
                                            {5000, "text-generation-webui"},
                                            {5001, "KoboldCpp"},
                                            {8000, "vLLM, Lemonade"},
                                            {8080, "Flyball, llama-server, LocalAI"},
                                            {8081, "llama-server"},
                                            {9292, "llama-swap"},
                                            {11434, "Ollama"},
                                            {30000, "SGLang"}}};

// A Flyball and KoboldCpp speak Ollama's API, LocalAI has vLLM's /version.
constexpr std::array<ServerSign, 8> kSigns{{{"Flyball", "/v1/route"},
                                            {"KoboldCpp", "/api/extra/version"},
                                            {"Ollama", "/api/version"},
                                            {"LM Studio", "/api/v0/models"},
                                            {"llama-server", "/props"},
                                            {"SGLang", "/get_model_info"},
                                            {"LocalAI", "/.well-known/localai.json"},
                                            {"vLLM", "/v1/models"}}};

std::string text_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}
bool has(const Json& object, const char* key, Json::value_t type) {
  const auto it = object.find(key);
  return it != object.end() && it->type() == type;
}

}  // namespace

std::span<const KnownPort> known_ports() noexcept {
  return kPorts;
}
std::span<const ServerSign> server_signs() noexcept {
  return kSigns;
}

std::optional<std::string> version_by(const ServerSign& sign, const Json& answer) {
  if (!answer.is_object()) return std::nullopt;
  std::string version = text_at(answer, "version");
  bool sure = false;
  if (sign.kind == "Flyball") {
    // Nothing is at this path: the error lists the paths where something is, to every client.
    const auto error = answer.find("error");
    sure = error != answer.end() && error->is_object() &&
           text_at(*error, "message").find("POST /v1/route/explain") != std::string::npos;
  } else if (sign.kind == "Ollama") {
    sure = !version.empty();
  } else if (sign.kind == "LM Studio") {
    sure = has(answer, "data", Json::value_t::array);
  } else if (sign.kind == "llama-server") {
    sure = has(answer, "default_generation_settings", Json::value_t::object);
    version = text_at(answer, "build_info");
  } else if (sign.kind == "KoboldCpp") {
    sure = text_at(answer, "result") == "KoboldCpp";
  } else if (sign.kind == "SGLang") {
    sure = has(answer, "model_path", Json::value_t::string);
  } else if (sign.kind == "LocalAI") {
    sure = !version.empty();
  } else if (sign.kind == "vLLM") {
    const auto data = answer.find("data");
    sure = data != answer.end() && data->is_array() && !data->empty() && data->front().is_object() &&
           text_at(data->front(), "owned_by") == "vllm";
  }
  return sure ? std::optional(version) : std::nullopt;
}

std::optional<std::vector<std::string>> models_in(const Json& answer) {
  const auto data = answer.is_object() ? answer.find("data") : answer.end();
  if (!answer.is_object() || data == answer.end() || !data->is_array()) return std::nullopt;
  std::vector<std::string> out;
  for (const Json& model : *data)
    if (model.is_object() && has(model, "id", Json::value_t::string)) out.push_back(text_at(model, "id"));
  return out;
}

}  // namespace flyball::discover
