#include "daemon/cli/kept_tokens.hpp"

#include <cstdio>
#include <ctime>
#include <iostream>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "backends/engine/kept_prefixes.hpp"
#include "backends/engine/prepare.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/local/text_model.hpp"
#include "config/app_models.hpp"
#include "daemon/api/kept_prompt.hpp"
#include "daemon/cli/running_daemon.hpp"
#include "daemon/probe/children.hpp"
#include "daemon/route/facts.hpp"

namespace flyball::cli {
namespace {

using Json = nlohmann::json;

// For all prefixes of a model: 16 apps' longest take a second or two each.
constexpr std::chrono::minutes kCountTime{2};
constexpr std::size_t kMostWords = 500;  // bytes of another process's words

std::string line_of(const KeptText& text) {
  const Json out{{"text", *text.kept->text},
                 {"role", static_cast<int>(text.kept->role)},
                 {"control_tokens", text.app->chat.control_tokens_in_content}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::uint64_t> count_line(const std::string& line, const engine::TextModel& model) {
  const Json asked = Json::parse(line, nullptr, false);
  const Json &text = member(asked, "text"), &role = member(asked, "role"),
             &control = member(asked, "control_tokens");
  if (!text.is_string() || !role.is_number_unsigned() || role > 2 || !control.is_boolean())
    return fail(ErrorCode::invalid_value, "the line is no prefix");
  config::KeptPrefix kept;
  kept.role = static_cast<config::KeptPrefix::Role>(role.get<int>());
  kept.text = std::make_shared<const std::string>(text.get<std::string>());
  config::AppManifest app;
  app.chat.control_tokens_in_content = control.get<bool>();
  CompletionRequest request;
  request.wanted = Wanted::kept_prefix;
  request.prompt = api::kept_prompt(app, kept);
  auto tokens = engine::prompt_tokens(request, model, std::time(nullptr));
  if (!tokens) return pass(tokens);
  return tokens->size();
}

// The other process's line. nullopt: it is none of these.
std::optional<Result<std::uint64_t>> count_from(std::string_view line) {
  const Json said = Json::parse(line, nullptr, false);
  if (const Json& tokens = member(said, "tokens"); tokens.is_number_unsigned())
    return tokens.get<std::uint64_t>();
  const Json& error = member(said, "error");
  const Json &code = member(error, "code"), &message = member(error, "message");
  if (!code.is_string() || !message.is_string()) return std::nullopt;
  return fail(error_code_from(code.get<std::string>()), message.get<std::string>().substr(0, kMostWords));
}

void say_line(const Json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

// The prefixes of one model, by app, and what each came to.
struct CountedPrefix {
  KeptText text;
  std::uint64_t tokens = 0;
};

void check_kept_limit(const config::ModelEntry& model, std::span<const CountedPrefix> of_app,
                      KeptFindings& out) {
  const config::AppManifest& app = *of_app.front().text.app;
  std::uint64_t sum = 0;
  std::string parts;
  for (const CountedPrefix& one : of_app) {
    sum += one.tokens;
    parts += (parts.empty() ? "" : ", ") + one.text.kept->name + " " + std::to_string(one.tokens);
  }
  if (app.limits.kv_tokens == 0 || sum <= app.limits.kv_tokens) return;
  out.errors.push_back({ErrorCode::config_invalid,
                        "app \"" + app.id + "\": keep: its prefixes have " + std::to_string(sum) +
                            " tokens with the model \"" + model.id + "\" (" + parts +
                            "), and limits.kv_tokens is " + std::to_string(app.limits.kv_tokens) +
                            ": shorten them, or raise it",
                        "keep", of_app.front().text.kept->at});
}

std::string prefix_name(const KeptText& text) {
  return "app \"" + text.app->id + "\": keep." + text.kept->name;
}

void check_prefixes_of(const config::ModelEntry& model, std::uint32_t context,
                       std::span<const KeptText> texts, KeptFindings& out) {
  const auto counts = count_kept_tokens(model, context, texts);
  if (!counts) {
    out.warnings.push_back({policy::LintFinding::Level::warning,
                            prefix_name(texts.front()) + ": its tokens are not counted with the model \"" +
                                model.id + "\": " + counts.error().message,
                            texts.front().kept->at});
    return;
  }
  constexpr std::uint64_t block = graph::KvLayout{}.block_size;  // engines keep whole blocks
  std::vector<CountedPrefix> counted;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const KeptText& text = texts[i];
    const Result<std::uint64_t>& tokens = (*counts)[i];
    const bool too_long =
        tokens ? *tokens >= context : tokens.error().code == ErrorCode::context_length_exceeded;
    if (too_long)
      out.errors.push_back(
          {ErrorCode::config_invalid,
           prefix_name(text) +
               (tokens ? " has " + std::to_string(*tokens) + " tokens" : ": " + tokens.error().message) +
               (tokens ? "" : " It leaves no room for a question") + ", and the model \"" + model.id +
               "\" is served with a context of " + std::to_string(context) +
               ": shorten it, or raise models." + model.id + ".context",
           "keep." + text.kept->name, text.kept->at});
    else if (!tokens)
      out.errors.push_back(
          {ErrorCode::config_invalid,
           prefix_name(text) + ": the model \"" + model.id + "\" cannot keep it: " + tokens.error().message,
           "keep." + text.kept->name, text.kept->at});
    else if (*tokens < block)
      out.warnings.push_back({policy::LintFinding::Level::warning,
                              prefix_name(text) + " has " + std::to_string(*tokens) +
                                  " tokens with the model \"" + model.id + "\", and engines keep blocks of " +
                                  std::to_string(block) + ": it is too short to be kept",
                              text.kept->at});
    else
      counted.push_back({text, *tokens / block * block});
  }
  if (constexpr std::size_t most = engine::KeptPrefixes::kMostInEngine; counted.size() > most)
    out.warnings.push_back({policy::LintFinding::Level::warning,
                            "keep: the manifests have " + std::to_string(counted.size()) +
                                " prefixes of the model \"" + model.id + "\", and an engine keeps at most " +
                                std::to_string(most) + ": remove some, or give some another model",
                            counted[most].text.kept->at});
  std::uint64_t all = 0;
  for (std::size_t begin = 0, end = 0; begin < counted.size(); begin = end) {
    while (end < counted.size() && counted[end].text.app == counted[begin].text.app)
      all += counted[end++].tokens;
    check_kept_limit(model, std::span(counted).subspan(begin, end - begin), out);
  }
  const std::uint64_t most = std::uint64_t{context} * model.max_sequences / 2;
  if (all > most)
    out.warnings.push_back(
        {policy::LintFinding::Level::warning,
         "keep: all prefixes of the model \"" + model.id + "\" have " + std::to_string(all) +
             " tokens, and an engine gives them half of its KV, at most " + std::to_string(most) +
             " tokens (context " + std::to_string(context) + ", max_sequences " +
             std::to_string(model.max_sequences) + "): it keeps the first ones alone",
         counted.front().text.kept->at});
}

}  // namespace

Result<std::vector<Result<std::uint64_t>>> count_kept_tokens(const config::ModelEntry& model,
                                                             std::uint32_t context,
                                                             std::span<const KeptText> texts) {
  std::vector<std::string> words{"inspect", "--json", "--prefixes", "--context", std::to_string(context)};
  if (!model.embedded) words.insert(words.end(), {"--", model.path.string()});
  std::vector<Result<std::uint64_t>> out;
  std::optional<Error> trouble;  // of the file
  bool greeted = false;
  const auto answer = probe::talk_to_child(
      "/proc/self/exe", words,
      [&](std::string_view line) -> std::optional<std::string> {
        if (std::exchange(greeted, true)) {
          auto counted = count_from(line);
          if (!counted) return std::nullopt;
          out.push_back(std::move(*counted));
        } else if (auto said = count_from(line); said && !*said) {
          trouble = std::move(said->error());
          return std::nullopt;
        }
        if (out.size() == texts.size()) return std::nullopt;
        return line_of(texts[out.size()]);
      },
      kCountTime);
  if (trouble) return std::unexpected(std::move(*trouble));
  if (out.size() == texts.size()) return out;
  return fail(ErrorCode::worker_died, answer.end == probe::ChildAnswer::End::timed_out
                                          ? "the process that counts took too long"
                                          : "the process that counts failed");
}

int answer_kept_tokens(const model::ModelFile& file, std::uint32_t context) {
  const auto model = local::load_text_model(file, context);
  const auto error_line = [](const Error& error) {
    return Json{{"error", {{"code", to_string(error.code)}, {"message", error.message}}}};
  };
  if (!model) {
    say_line(error_line(model.error()));
    return 1;
  }
  say_line({{"ready", true}});
  for (std::string line; std::getline(std::cin, line);) {
    const auto counted = count_line(line, *model);
    say_line(counted ? Json{{"tokens", *counted}} : error_line(counted.error()));
  }
  return 0;
}

KeptFindings check_kept_prefixes(const config::Config& config, const std::vector<config::AppManifest>& apps,
                                 const probe::ModelFileInfos& files) {
  KeptFindings out;
  for (const config::ModelEntry& model : config.models) {
    const auto file = files.find(model.id);
    if (file == files.end()) continue;
    std::vector<KeptText> texts;
    for (const config::AppManifest& app : apps)
      for (const config::KeptPrefix& kept : app.keep)
        if (config::kept_model(config, app, kept) == &model) texts.push_back({&app, &kept});
    if (!texts.empty()) check_prefixes_of(model, route::served_context(model, &file->second), texts, out);
  }
  return out;
}

}  // namespace flyball::cli
