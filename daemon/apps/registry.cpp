#include "daemon/apps/registry.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "config/app_models.hpp"
#include "config/name_list.hpp"

namespace flyball::apps {
namespace {

// The token of "Bearer <token>", the scheme in any case and one blank or more behind it (RFC 9110, section
// 11.4); nullopt where there is no such credential.
std::optional<std::string_view> bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if ((authorization[i] | 0x20) != (kScheme[i] | 0x20)) return std::nullopt;
  const auto token = authorization.find_first_not_of(' ', kScheme.size());
  if (token == std::string_view::npos) return std::nullopt;
  return authorization.substr(token);
}

std::unexpected<Error> refused(std::string message) {
  return fail(ErrorCode::invalid_api_key, std::move(message));
}

bool is_local(const Credentials& credentials) {
  return credentials.loopback || credentials.unix_uid;
}

// Fetched once: SHA256() looks it up at each call, which takes longer than the digest of a key.
const EVP_MD* sha256() {
  static const std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> kFetched(
      EVP_MD_fetch(nullptr, "SHA256", nullptr), &EVP_MD_free);
  return kFetched.get();
}

// The SHA-256 of the key that was sent; nullopt: none was. A key that is too short or too long is no key's.
Result<std::optional<config::Sha256>> key_digest(const Credentials& credentials) {
  std::string_view key = credentials.own.value;
  if (key.empty()) {
    if (credentials.authorization.empty()) return std::nullopt;
    const auto token = bearer(credentials.authorization);
    if (!token) return refused("The Authorization field must be 'Bearer' and an API key.");
    key = *token;
  }
  if (key.size() < config::kMinKeyBytes || key.size() > config::kMaxKeyBytes)
    return refused("The API key belongs to no app.");
  config::Sha256 digest{};
  static_assert(digest.size() == SHA256_DIGEST_LENGTH);
  if (EVP_Digest(key.data(), key.size(), digest.data(), nullptr, sha256(), nullptr) != 1)
    return fail(ErrorCode::internal, "SHA-256 is not available, so that no API key can be checked.");
  return digest;
}

// Looks at each, so that time tells nothing about which one nearly matched.
bool is_among(const std::vector<config::Sha256>& known, const config::Sha256& digest) {
  bool found = false;
  for (const config::Sha256& one : known)
    found |= CRYPTO_memcmp(one.data(), digest.data(), digest.size()) == 0;
  return found;
}

}  // namespace

Registry::Registry(const std::vector<config::AppManifest>& apps, const config::Config& config)
    : apps_(apps), config_(config) {}

const config::AppManifest* Registry::by_id(std::string_view id) const {
  const auto it = std::find_if(apps_.begin(), apps_.end(), [&](const auto& app) { return app.id == id; });
  return it == apps_.end() ? nullptr : &*it;
}

// Looks at every key of every app, so that time tells nothing about which one nearly matched.
const config::AppManifest* Registry::by_key(const config::Sha256& digest) const {
  const config::AppManifest* found = nullptr;
  for (const auto& app : apps_)
    if (is_among(app.keys, digest)) found = &app;
  return found;
}

const config::AppManifest* Registry::by_unix_uid(const Credentials& credentials) const {
  if (credentials.unix_uid)
    for (const auto& app : apps_)
      if (app.unix_uid == credentials.unix_uid) return &app;
  return nullptr;
}

Result<const config::AppManifest*> Registry::without_key(const Credentials& credentials) const {
  if (const auto* app = by_unix_uid(credentials)) return app;
  if (config_.loopback_without_key && is_local(credentials))
    if (const auto* app = by_id(config_.default_app)) return app;
  if (credentials.own.name.empty()) return refused("An API key is required: 'Authorization: Bearer KEY'.");
  return refused("An API key is required: '" + std::string(credentials.own.name) + ": KEY'.");
}

Result<const config::AppManifest*> Registry::identify(const Credentials& credentials) const {
  const auto digest = key_digest(credentials);
  if (!digest) return pass(digest);
  if (!*digest) return without_key(credentials);
  if (const auto* app = by_key(**digest)) return app;
  if (is_among(config_.operator_access.keys, **digest))
    return refused(
        "The key is the operator's, which is no app's: it is for /metrics, /readyz and /v1/engines.");
  return refused("The API key belongs to no app.");
}

Result<const config::AppManifest*> Registry::identify_viewer(const Credentials& credentials) const {
  const auto digest = key_digest(credentials);
  if (!digest) return pass(digest);
  if (*digest) {
    if (is_among(config_.operator_access.keys, **digest)) return nullptr;
    if (const auto* app = by_key(**digest)) return app;
    return refused("The API key belongs to no app, and is not the operator's.");
  }
  if (const auto* app = by_unix_uid(credentials)) return app;
  if (config_.operator_on_loopback() && is_local(credentials) && !credentials.web_page) return nullptr;
  return without_key(credentials);
}

Result<config::NamedModel> Registry::model_for(const config::AppManifest& app, std::string_view name) const {
  if (name.empty()) return unnamed_model_for(app);
  const config::NamedModel model = config::named_model(config_.models, name);
  if (model.entry != nullptr && config::may_use(app, *model.entry)) return model;
  return fail(ErrorCode::model_not_found,
              "There is no model " + config::quoted(name) + " that is open to this app. " + models_for(app),
              "model");
}

Result<config::NamedModel> Registry::unnamed_model_for(const config::AppManifest& app) const {
  if (const config::ModelEntry* const model = config::unnamed_model(config_, app))
    return config::NamedModel{model};
  if (std::ranges::none_of(config_.models, [&](const auto& model) { return config::may_use(app, model); }))
    return fail(ErrorCode::model_not_found, "There is no model that is open to this app.", "model");
  return fail(ErrorCode::missing_field,
              "'model' is required: no default_model is open to this app. " + models_for(app), "model");
}

std::string Registry::models_for(const config::AppManifest& app) const {
  std::vector<std::string_view> names;
  for (const auto& model : config_.models)
    if (config::may_use(app, model)) names.push_back(model.id);
  return names.empty() ? "It may use none." : "It may use: " + config::listed(names) + ".";
}

Result<std::uint32_t> Registry::cap_max_tokens(const config::AppManifest& app, std::uint32_t asked) {
  const std::uint32_t cap = app.limits.max_tokens;
  if (cap == 0) return asked;
  if (asked == 0) return cap;
  if (asked > cap)
    return fail(ErrorCode::invalid_value,
                "'max_tokens' is " + std::to_string(asked) + ", but this app may ask for at most " +
                    std::to_string(cap) + ".",
                "max_tokens");
  return asked;
}

}  // namespace flyball::apps
