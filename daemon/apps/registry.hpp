// Who is asking: the one place where keys, unix peers and loopback become an app. Immutable; replaced on
// reload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/app_manifest.hpp"
#include "config/app_models.hpp"
#include "config/config.hpp"
#include "config/error.hpp"

namespace flyball::apps {

struct Credentials {
  std::string_view authorization;         // the Authorization field as sent, "" if none
  std::optional<std::uint32_t> unix_uid;  // SO_PEERCRED of a unix socket
  bool loopback = false;                  // TCP from this machine
  struct Field {
    std::string_view name, value;
  } own = {};  // of an API whose clients send the key alone: the field's name and value, "" if none
  bool web_page = false;  // a browser sends the request for a page (it has an Origin field)
};

class Registry {
 public:
  // Both outlive the registry.
  Registry(const std::vector<config::AppManifest>& apps, const config::Config& config);

  // A key decides alone, `own` before `authorization`: a wrong one is refused even where none would be
  // needed. Without a key the unix peer's uid decides, then loopback_without_key. invalid_api_key otherwise.
  Result<const config::AppManifest*> identify(const Credentials& credentials) const;

  // The app whose figures may be seen; nullptr: the operator, who sees all. A key decides alone, as above.
  // Without one the unix peer's uid decides, then operator.loopback, then loopback_without_key. A web page
  // without a key is never the operator: it runs in a browser of this machine, and anybody may have written
  // it.
  Result<const config::AppManifest*> identify_viewer(const Credentials& credentials) const;

  // The model as config::named_model() finds it, which is never absent; for "" default_model or, where that
  // is not open to the app, the only one that is. Unknown and forbidden models give the same model_not_found,
  // which lists those that the app may use; missing_field: several are open, none of them the default.
  Result<config::NamedModel> model_for(const config::AppManifest& app, std::string_view name) const;

  // What the app may ask for: fills in its cap where the request names none; invalid_value above it.
  static Result<std::uint32_t> cap_max_tokens(const config::AppManifest& app, std::uint32_t asked);

 private:
  const config::AppManifest* by_id(std::string_view id) const;
  const config::AppManifest* by_key(const config::Sha256& digest) const;
  const config::AppManifest* by_unix_uid(const Credentials& credentials) const;
  Result<const config::AppManifest*> without_key(const Credentials& credentials) const;
  Result<config::NamedModel> unnamed_model_for(const config::AppManifest& app) const;
  std::string models_for(const config::AppManifest& app) const;  // a sentence

  const std::vector<config::AppManifest>& apps_;
  const config::Config& config_;
};

}  // namespace flyball::apps
