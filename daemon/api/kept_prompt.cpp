#include "daemon/api/kept_prompt.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

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

namespace {

// Two prefixes of one digest are the same tokens to every engine of a model.
std::array<std::uint8_t, 32> digest_of(const config::AppManifest& app, const config::KeptPrefix& kept) {
  std::string head(config::to_string(kept.role));
  head += app.chat.control_tokens_in_content ? " reads control tokens\n" : "\n";
  std::array<std::uint8_t, 32> out{};
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (hash == nullptr || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1 ||
      EVP_DigestUpdate(hash.get(), head.data(), head.size()) != 1 ||
      EVP_DigestUpdate(hash.get(), kept.text->data(), kept.text->size()) != 1 ||
      EVP_DigestFinal_ex(hash.get(), out.data(), nullptr) != 1)
    throw std::bad_alloc();  // SHA-256 fails for nothing else
  return out;
}

}  // namespace

void read_kept_prompts(settings::Settings& settings) {
  std::vector<std::shared_ptr<const predict::KeptPrompt>> out;
  for (config::AppManifest& app : settings.apps)
    for (config::KeptPrefix& kept : app.keep) {
      predict::KeptPrompt one;
      one.digest = digest_of(app, kept);
      one.prompt = kept_prompt(app, kept);
      kept.text.reset();
      one.print = predict::print_of(one.prompt, app.id, predict::print_key());
      out.push_back(std::make_shared<const predict::KeptPrompt>(std::move(one)));
    }
  if (!out.empty())
    settings.kept =
        std::make_shared<const std::vector<std::shared_ptr<const predict::KeptPrompt>>>(std::move(out));
}

std::vector<route::KeptWish> kept_wishes(const settings::Settings& settings) {
  std::vector<route::KeptWish> out;
  if (settings.kept == nullptr) return out;
  auto content = settings.kept->begin();
  for (const config::AppManifest& app : settings.apps)
    for (const config::KeptPrefix& kept : app.keep) {
      if (content == settings.kept->end()) return out;  // somebody added one to `keep` since
      const auto& read = *content++;
      if (const config::ModelEntry* const model = config::kept_model(settings.config, app, kept))
        out.push_back({.app = app.id,
                       .name = kept.name,
                       .model = model->id,
                       .compute = kept.compute,
                       .content = read,
                       .limit = app.limits.kv_tokens});
    }
  return out;
}

}  // namespace flyball::api
