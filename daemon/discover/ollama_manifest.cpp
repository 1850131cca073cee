#include "daemon/discover/ollama_manifest.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"

namespace flyball::discover {
namespace {

constexpr std::string_view kKind = "application/vnd.ollama.image.";

Result<OllamaManifest::Blob> blob_of(const nlohmann::json& layer) {
  const auto digest = layer.find("digest"), size = layer.find("size");
  if (digest == layer.end() || !digest->is_string() || size == layer.end() || !size->is_number_unsigned())
    return fail(ErrorCode::model_invalid, "its manifest has a layer without digest and size");
  constexpr std::string_view kScheme = "sha256:";
  const std::string& text = digest->get_ref<const std::string&>();
  const std::string_view hex = std::string_view(text).substr(std::min(text.size(), kScheme.size()));
  const bool sound = text.starts_with(kScheme) && hex.size() == 64 && std::ranges::all_of(hex, [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                     });
  if (!sound) return fail(ErrorCode::model_invalid, "its manifest has a digest that is no SHA-256");
  return OllamaManifest::Blob{std::string(hex), size->get<std::uint64_t>()};
}

}  // namespace

Result<OllamaManifest> read_ollama_manifest(std::string_view text) {
  const auto json = read_json(text, {.depth = 16, .nodes = 50'000}, "its manifest");
  if (!json) return pass(json);
  const auto layers = json->is_object() ? json->find("layers") : json->end();
  if (layers == json->end() || !(layers->is_array() || layers->is_null()))
    return fail(ErrorCode::model_invalid, "its manifest has no list of layers");
  OllamaManifest out;
  for (const nlohmann::json& layer : *layers) {
    const auto type = layer.is_object() ? layer.find("mediaType") : layer.end();
    if (!layer.is_object() || type == layer.end() || !type->is_string())
      return fail(ErrorCode::model_invalid, "its manifest has a layer without a mediaType");
    const std::string_view media = type->get_ref<const std::string&>();
    const std::string_view kind = media.starts_with(kKind) ? media.substr(kKind.size()) : "";
    if (kind == "model") {
      auto blob = blob_of(layer);
      if (!blob) return pass(blob);
      out.models.push_back(std::move(*blob));
    } else if (kind == "adapter") {
      out.adapter = true;
    } else if (kind == "projector") {
      out.projector = true;
    } else if (kind == "template") {
      out.own_template = true;
    } else if (kind == "tensor") {
      ++out.single_tensors;
    }
  }
  return out;
}

std::string ollama_name(std::string_view host, std::string_view space, std::string_view name,
                        std::string_view tag) {
  std::string out;
  if (host != "registry.ollama.ai") out += std::string(host) + "/";
  if (!out.empty() || space != "library") out += std::string(space) + "/";
  return out + std::string(name) + ":" + std::string(tag);
}

}  // namespace flyball::discover
