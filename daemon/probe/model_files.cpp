#include "daemon/probe/model_files.hpp"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "backends/graph/memory_plan.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/model/model_file.hpp"
#include "backends/text/answer_form.hpp"
#include "backends/text/chat_template.hpp"
#include "backends/text/tokenizer_metadata.hpp"
#include "daemon/probe/children.hpp"

namespace flyball::probe {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kAtOnce = 16;  // children

std::optional<std::uint64_t> member_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_unsigned()) return std::nullopt;
  return it->get<std::uint64_t>();
}
std::string member_text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// The embedded model: this program's own bytes, which nobody else has written.
std::optional<BackendInfo> embedded_info() {
  const auto file = model::ModelFile::from_bytes(model::embedded_demo_model());
  return file ? std::optional(info_of(**file)) : std::nullopt;  // this build may have none
}

}  // namespace

std::optional<BackendInfo> info_from(const ChildAnswer& answer) {
  if (!answer.ended_well()) return std::nullopt;
  const Json said = Json::parse(answer.text, nullptr, false);
  if (!said.is_object() || !said.contains("shape") || !said["shape"].is_object() ||
      !said.contains("memory") || !said["memory"].is_object())
    return std::nullopt;
  const auto parameters = member_number(said, "parameters"),
             bytes = member_number(said["memory"], "weight_bytes"),
             context = member_number(said, "context_length"),
             experts = member_number(said["shape"], "experts"),
             token_bytes = member_number(said["memory"], "token_weight_bytes");
  BackendInfo info;
  info.architecture = member_text(said, "architecture");
  info.quantization = member_text(said, "quantization");
  if (!parameters || !bytes || !context || *context > UINT32_MAX || !experts || !token_bytes ||
      info.architecture.empty())
    return std::nullopt;
  info.parameters = *parameters;
  info.weight_bytes = *bytes;
  info.token_weight_bytes = *token_bytes;
  info.kv_token_bytes = member_number(said["memory"], "kv_bytes_per_token").value_or(0);
  info.context_length = static_cast<std::uint32_t>(*context);
  info.mixture_of_experts = *experts > 0;
  if (const auto it = said.find("tool_template"); it != said.end() && it->is_boolean())
    info.tool_template = it->get<bool>();
  if (const auto it = said.find("infill"); it != said.end() && it->is_boolean())
    info.infills = it->get<bool>();
  if (const auto calls = text::call_format_from(member_text(said, "call_format"))) info.form.calls = *calls;
  if (const auto reasoning = text::reasoning_format_from(member_text(said, "reasoning_format")))
    info.form.reasoning = *reasoning;
  return info;
}

Error trouble_of(const ChildAnswer& answer, std::chrono::milliseconds timeout) {
  constexpr std::size_t kMostText = 500;  // bytes of another process's words
  const Json said = Json::parse(answer.text, nullptr, false);
  const auto unknown = [](std::string why) {
    return Error{ErrorCode::model_unavailable, std::move(why), {}, {}};
  };
  if (said.is_object() && said.contains("error") && said["error"].is_object()) {
    std::string why = member_text(said["error"], "message").substr(0, kMostText);
    std::ranges::replace_if(
        why, [](unsigned char c) { return c < 0x20 || c >= 0x7F; }, '?');
    const ErrorCode code = error_code_from(member_text(said["error"], "code"));
    const bool of_the_file = code == ErrorCode::io_error || code == ErrorCode::model_invalid ||
                             code == ErrorCode::model_unsupported;
    return of_the_file ? Error{code, std::move(why), {}, {}} : unknown(std::move(why));
  }
  if (answer.end == ChildAnswer::End::no_start)
    return unknown("the process that reads model files could not be started: " + answer.trouble);
  if (answer.end == ChildAnswer::End::timed_out)
    return unknown("the model files were not read within " + std::to_string(timeout.count()) + " ms");
  return unknown("the process that reads the model file failed");
}

std::optional<TemplateTraits> template_traits(const model::ModelFile& file) {
  const auto source = file.gguf().get_string("tokenizer.chat_template");
  if (!source) return std::nullopt;  // no text
  const auto parsed = text::ChatTemplate::parse(source->value_or(text::default_chat_template()));
  if (!parsed) return std::nullopt;
  return TemplateTraits{parsed->reads("tools"), parsed->answer_form()};
}

std::optional<bool> has_infill_tokens(const model::ModelFile& file) {
  // A SentencePiece file need not name these.
  const auto vocabulary = text::read_vocabulary(file.gguf(), {.bos = 0, .eos = 0, .unknown = 0});
  if (!vocabulary) return std::nullopt;
  return vocabulary->infill.has_value();
}

BackendInfo info_of(const model::ModelFile& file) {
  const model::ModelConfig& config = file.config();
  const graph::KvLayout layout = graph::kv_layout(config);
  BackendInfo info;
  info.architecture = config.architecture;
  info.quantization = file.main_quantization();
  info.parameters = file.parameter_count();
  info.weight_bytes = file.weight_bytes();
  info.token_weight_bytes = file.token_weight_bytes();
  info.kv_token_bytes = layout.block_bytes() / layout.block_size;
  info.context_length = config.context_length;
  info.mixture_of_experts = config.n_experts > 0;
  if (const auto traits = template_traits(file)) {
    info.tool_template = traits->reads_tools;
    info.form = traits->form;
  }
  info.infills = has_infill_tokens(file);
  return info;
}

ModelFilesRead ModelFiles::read(std::span<const config::ModelEntry> models) {
  std::map<std::filesystem::path, Kept> kept;
  std::map<std::filesystem::path, Error> troubles;
  std::vector<std::filesystem::path> asked;
  std::vector<std::vector<std::string>> arguments;
  for (const config::ModelEntry& model : models) {
    if (model.embedded || kept.contains(model.path)) continue;
    const std::uint64_t stamp = fleet::file_stamp(model.path);
    const auto before = kept_.find(model.path);
    kept[model.path].stamp = stamp;
    if (stamp != 0 && before != kept_.end() && before->second.stamp == stamp) {
      kept[model.path] = before->second;
      continue;
    }
    asked.push_back(model.path);
    arguments.push_back({"inspect", "--json", "--", model.path.string()});
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (std::size_t at = 0; at < asked.size(); at += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, asked.size() - at);
    const auto first = arguments.begin() + static_cast<std::ptrdiff_t>(at);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto answers =
        ask_children(program_, {first, first + static_cast<std::ptrdiff_t>(n)}, std::max(left, {}));
    for (std::size_t i = 0; i < n; ++i) {
      if (auto info = info_from(answers[i])) {
        kept[asked[at + i]].info = std::move(*info);
      } else {
        kept.erase(asked[at + i]);  // asked again the next time
        troubles.emplace(asked[at + i], trouble_of(answers[i], timeout_));
      }
    }
  }
  kept_ = std::move(kept);
  ModelFilesRead out;
  for (const config::ModelEntry& model : models) {
    if (model.embedded) {
      if (!embedded_) embedded_ = embedded_info();
      if (embedded_)
        out.infos.emplace(model.id, *embedded_);
      else
        out.troubles.emplace(model.id,
                             Error{ErrorCode::model_invalid, "this build has no demo model", {}, {}});
    } else if (const auto it = kept_.find(model.path); it != kept_.end()) {
      out.infos.emplace(model.id, it->second.info);
      out.stamps.emplace(model.id, it->second.stamp);
    } else {
      out.troubles.emplace(model.id, troubles.at(model.path));
    }
  }
  return out;
}

}  // namespace flyball::probe
