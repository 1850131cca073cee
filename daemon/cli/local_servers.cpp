#include "daemon/cli/local_servers.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <ranges>

#include <nlohmann/json.hpp>

#include "config/json_reader.hpp"
#include "daemon/cli/http_client.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/discover/servers.hpp"

namespace flyball::cli {
namespace {

constexpr std::chrono::milliseconds kPatience{500};
constexpr std::size_t kMostText = 64;     // bytes of a name that a server says
constexpr std::size_t kMostModels = 100;  // names that are kept

std::optional<LocalServer> ask(std::uint16_t port) {
  const std::string base = "http://127.0.0.1:" + std::to_string(port);
  LocalServer out;
  out.port = port;
  for (const discover::KnownPort& known : discover::known_ports())
    if (known.port == port) out.usual = known.kinds;
  bool answers = false;
  // The body of an answer of any status.
  const auto json_at = [&](std::string_view target) -> Result<nlohmann::json> {
    const auto answer = http_get(base, std::string(target), "", kPatience);
    if (!answer) return pass(answer);
    answers = true;
    return read_json(answer->body);
  };
  for (const discover::ServerSign& sign : discover::server_signs()) {
    const auto answer = json_at(sign.target);
    if (!answer && !answers) return std::nullopt;
    const auto version = answer ? discover::version_by(sign, *answer) : std::nullopt;
    if (!version) continue;
    out.kind = sign.kind;
    out.version = terminal_text(*version, kMostText);
    break;
  }
  if (const auto answer = json_at("/v1/models"))
    if (const auto models = discover::models_in(*answer)) {
      out.models_served = models->size();
      for (const std::string& model : *models | std::views::take(kMostModels))
        out.models.push_back(terminal_text(model, kMostText));
    }
  return out;
}

}  // namespace

std::vector<LocalServer> local_servers(std::span<const std::uint16_t> ports) {
  std::vector<LocalServer> out;
  const auto add = [&](std::uint16_t port) {
    if (auto server = ask(port)) out.push_back(std::move(*server));
  };
  for (const std::uint16_t port : ports) add(port);
  if (ports.empty())
    for (const discover::KnownPort& known : discover::known_ports()) add(known.port);
  return out;
}

}  // namespace flyball::cli
