#include "daemon/cli/running_daemon.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "config/json_reader.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/http_client.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

constexpr const char* kDefaultUrl = "http://127.0.0.1:8080";

// A configuration that cannot be read says nothing of the daemon that runs.
std::string url_of(const RunningDaemon& daemon) {
  if (!daemon.url.empty()) return daemon.url;
  const auto config = settings::config_at(settings::find_config());
  return config ? listening_url(*config) : kDefaultUrl;
}

}  // namespace

std::string listening_url(const config::Config& config) {
  using Kind = config::Listener::Kind;
  for (const config::Listener& listener : config.listeners) {
    if (listener.kind != Kind::tcp || listener.port == 0) continue;
    std::string host = listener.address;
    if (host == "0.0.0.0") host = "127.0.0.1";
    if (host == "::") host = "::1";
    if (host.find(':') != std::string::npos) host = "[" + host + "]";
    return "http://" + host + ":" + std::to_string(listener.port);
  }
  for (const config::Listener& listener : config.listeners)
    if (listener.kind == Kind::unix_socket) return "unix:" + listener.path.string();
  return kDefaultUrl;
}

DaemonOptions add_daemon_options(CLI::App& command, RunningDaemon& daemon, const std::string& whose) {
  CLI::Option* const url = command.add_option(
      "--url", daemon.url,
      "where that daemon listens (default: as config.yaml says, or http://127.0.0.1:8080)");
  CLI::Option* const key_file =
      command.add_option("--key-file", daemon.key_file, "file with " + whose + " to ask it with");
  return {url, key_file};
}

Result<DaemonAnswer> ask_daemon(const RunningDaemon& daemon, const std::string& target,
                                const std::optional<std::string>& json, std::chrono::milliseconds timeout) {
  std::string key;
  if (daemon.key_file) {
    auto text = key_in(*daemon.key_file);
    if (!text) return pass(text);
    key = std::move(*text);
  }
  const std::string url = url_of(daemon);
  const auto answer =
      json ? http_post(url, target, *json, key, timeout) : http_get(url, target, key, timeout);
  if (!answer) return pass(answer);
  auto body = read_json(answer->body, {}, "The answer");
  if (!body)
    return fail(ErrorCode::upstream_invalid,
                url + " answered " + std::to_string(answer->status) +
                    " without JSON: the server there is no Flyball daemon: name the daemon's URL with --url");
  return DaemonAnswer{url, answer->status, std::move(*body)};
}

const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kAbsent;
  if (!object.is_object()) return kAbsent;
  const auto it = object.find(key);
  return it != object.end() ? *it : kAbsent;
}

std::string json_text(const nlohmann::json& value) {
  return value.is_string() ? terminal_text(value.get_ref<const std::string&>()) : "?";
}

int report_refusal(const DaemonAnswer& answer, const std::string& remedy) {
  std::string message = answer.url + " answered " + std::to_string(answer.status);
  if (const auto& said = member(member(answer.body, "error"), "message"); said.is_string())
    message += ": " + json_text(said) + remedy;
  std::fprintf(stderr, "flyball: %s\n", message.c_str());
  return answer.status < 500 ? kFailed : kUnavailable;
}

}  // namespace flyball::cli
