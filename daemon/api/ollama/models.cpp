#include "daemon/api/ollama/models.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "config/app_models.hpp"
#include "daemon/api/date.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api::ollama {
namespace {

// A stand-in: the model's own template is no template of Ollama's. Clients send tools to a model whose
// template has a place for them, LiteLLM among them.
constexpr std::string_view kTemplate = "{{ .System }}{{ .Tools }}{{ .Prompt }}";
// Continue sends `suffix` to a model whose template has a place for one, and raw prompts to others.
constexpr std::string_view kInfillPart = "{{ .Suffix }}";

// A model that stays expires, at Ollama's, when its longest duration has passed: 2^63 - 1 ns, in seconds. Its
// clients show a time that is decades away as "Forever".
constexpr std::int64_t kForever = INT64_MAX / 1'000'000'000;

// "3.2B", "361.8M", "24K".
std::string size_of(std::uint64_t parameters) {
  struct Unit {
    double size;
    const char* format;
  };
  constexpr std::array kUnits{Unit{1e9, "%.1fB"}, Unit{1e6, "%.1fM"}, Unit{1e3, "%.0fK"}, Unit{1, "%.0f"}};
  constexpr double kRoundsUp = 0.9995;  // of a unit: it would be written as 1000 of the smaller one
  const auto n = static_cast<double>(parameters);
  std::size_t at = 0;
  while (at + 1 < kUnits.size() && n < kRoundsUp * kUnits[at].size) ++at;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), kUnits[at].format, n / kUnits[at].size);
  return text.data();
}

void append_member(std::string& out, std::string_view name, std::string_view text) {
  out.append(R"(,")").append(name).append(R"(":)");
  append_json_string(out, text);
}

void append_details(std::string& out, const BackendInfo* file) {
  const std::string family = file != nullptr ? file->architecture : "";
  out.append(R"({"parent_model":"")");
  append_member(out, "format", file != nullptr ? "gguf" : "");
  append_member(out, "family", family);
  out.append(R"(,"families":[)");
  if (!family.empty()) append_json_string(out, family);
  out.push_back(']');
  append_member(out, "parameter_size", file != nullptr ? size_of(file->parameters) : "");
  append_member(out, "quantization_level", file != nullptr ? file->quantization : "");
  out.push_back('}');
}

std::string listed_name(const ListedModel& model, std::span<const ListedModel> models) {
  const std::string& id = model.entry->id;
  if (id.find(':') != std::string::npos) return id;
  std::string tagged = id + std::string(config::kDefaultTag);
  const bool is_taken = std::ranges::any_of(
      models, [&](const ListedModel& one) { return config::is_called(*one.entry, tagged); });
  return is_taken ? id : tagged;
}

std::uint64_t file_bytes(const ListedModel& model) {
  return model.file != nullptr ? model.file->weight_bytes : 0;
}

// Without the closing brace: the caller may add members.
void append_model(std::string& out, const ListedModel& model, std::span<const ListedModel> models,
                  std::int64_t created, std::uint64_t bytes) {
  const std::string name = listed_name(model, models);
  out.append(R"({"name":)");
  append_json_string(out, name);
  append_member(out, "model", name);
  append_member(out, "modified_at", rfc3339(created));
  out.append(R"(,"size":)").append(std::to_string(bytes));
  append_member(out, "digest", model.digest);
  out.append(R"(,"details":)");
  append_details(out, model.file);
}

}  // namespace

http::Response tags_answer(std::span<const ListedModel> models, std::int64_t created) {
  std::string body = R"({"models":[)";
  bool is_first = true;
  for (const ListedModel& model : models) {
    if (!model.unavailable.empty()) continue;
    if (!std::exchange(is_first, false)) body.push_back(',');
    append_model(body, model, models, created, file_bytes(model));
    body.push_back('}');
  }
  return json_response(std::move(body) + "]}");
}

http::Response ps_answer(std::span<const ListedModel> models, std::int64_t created) {
  std::string body = R"({"models":[)";
  bool is_first = true;
  for (const ListedModel& model : models) {
    if (!model.loaded) continue;
    if (!std::exchange(is_first, false)) body.push_back(',');
    append_model(body, model, models, created, model.held_bytes > 0 ? model.held_bytes : file_bytes(model));
    append_member(body, "expires_at", rfc3339(model.expires_at.value_or(created + kForever)));
    body.append(R"(,"size_vram":)").append(std::to_string(model.device_bytes));
    if (model.context > 0) body.append(R"(,"context_length":)").append(std::to_string(model.context));
    body.push_back('}');
  }
  return json_response(std::move(body) + "]}");
}

http::Response show_answer(const ListedModel& model, std::int64_t created) {
  std::string body = R"({"modelfile":"","parameters":"")";
  const bool infills = model.traits.infills == true;
  append_member(body, "template", std::string(kTemplate).append(infills ? kInfillPart : ""));
  body.append(R"(,"details":)");
  append_details(body, model.file);
  body.append(R"(,"model_info":{)");
  if (model.file != nullptr) {
    const std::string& architecture = model.file->architecture;
    body.append(R"("general.architecture":)");
    append_json_string(body, architecture);
    append_member(body, "general.basename", model.file->model_name);
    body.append(R"(,"general.parameter_count":)").append(std::to_string(model.file->parameters));
    if (model.context > 0) {
      body.push_back(',');
      append_json_string(body, architecture + ".context_length");
      body.append(":").append(std::to_string(model.context));
    }
  }
  body.append(R"(},"capabilities":["completion","tools")").append(infills ? R"(,"insert"])" : "]");
  append_member(body, "modified_at", rfc3339(created));
  body.push_back('}');
  return json_response(std::move(body));
}

}  // namespace flyball::api::ollama
