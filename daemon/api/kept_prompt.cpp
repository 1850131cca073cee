#include "daemon/api/kept_prompt.hpp"

#include "config/app_models.hpp"
#include "daemon/api/message_writer.hpp"

namespace flyball::api {

Prompt kept_prompt(const config::AppManifest& app, const config::KeptPrefix& kept) {
  if (kept.role == config::KeptPrefix::Role::prompt) return TextPrompt{*kept.text};
  MessageWriter out(kept.text->size());
  out.open(JsonKind::array);
  out.message(config::to_string(kept.role), *kept.text);
  out.close();
  ChatPrompt chat;
  chat.messages = out.take();
  chat.control_tokens_in_content = app.chat.control_tokens_in_content;
  return chat;
}

std::vector<route::KeptWish> kept_wishes(const config::Config& config,
                                         const std::vector<config::AppManifest>& apps) {
  std::vector<route::KeptWish> out;
  for (const config::AppManifest& app : apps)
    for (const config::KeptPrefix& kept : app.keep)
      if (const config::ModelEntry* const model = config::kept_model(config, app, kept))
        out.push_back({.app = app.id,
                       .name = kept.name,
                       .model = model->id,
                       .role = kept.role,
                       .compute = kept.compute,
                       .text = kept.text,
                       .prompt = kept_prompt(app, kept),
                       .limit = app.limits.kv_tokens});
  return out;
}

}  // namespace flyball::api
