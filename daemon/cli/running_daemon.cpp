#include "daemon/cli/running_daemon.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>

#include "config/json_reader.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/http_client.hpp"

namespace flyball::cli {

DaemonOptions add_daemon_options(CLI::App& command, RunningDaemon& daemon, const std::string& whose) {
  CLI::Option* const url =
      command.add_option("--url", daemon.url, "where that daemon listens")->capture_default_str();
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
  const auto answer =
      json ? http_post(daemon.url, target, *json, key, timeout) : http_get(daemon.url, target, key, timeout);
  if (!answer) return pass(answer);
  auto body = read_json(answer->body, {}, "The answer");
  if (!body)
    return fail(ErrorCode::upstream_invalid,
                daemon.url + " answered " + std::to_string(answer->status) +
                    " without JSON: the server there is no Flyball daemon: name the daemon's URL with --url");
  return DaemonAnswer{answer->status, std::move(*body)};
}

const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kAbsent;
  if (!object.is_object()) return kAbsent;
  const auto it = object.find(key);
  return it != object.end() ? *it : kAbsent;
}

std::string json_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : "?";
}

int report_refusal(const RunningDaemon& daemon, const DaemonAnswer& answer, const std::string& remedy) {
  std::string message = daemon.url + " answered " + std::to_string(answer.status);
  if (const auto& said = member(member(answer.body, "error"), "message"); said.is_string())
    message += ": " + said.get<std::string>() + remedy;
  std::fprintf(stderr, "flyball: %s\n", message.c_str());
  return answer.status < 500 ? kFailed : kUnavailable;
}

}  // namespace flyball::cli
