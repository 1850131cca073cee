// The running daemon that a command asks, and what it answers.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "config/config.hpp"
#include "config/error.hpp"

namespace flyball::cli {

struct RunningDaemon {
  std::string url;  // "http://127.0.0.1:8080" or "unix:/run/flyball/flyball.sock"; "": as the configuration
                    // says that `serve` would take
  std::optional<std::string> key_file;
};
struct DaemonOptions {
  CLI::Option *url, *key_file;
};
// The address of a daemon of this configuration: its first TCP listener, else its first unix socket, else
// port 8080 of this machine.
std::string listening_url(const config::Config& config);
// --url, and --key-file for `whose` key ("the operator's key").
// --url and --key-file, whose key is `whose` ("the
// operator's key").
DaemonOptions add_daemon_options(CLI::App& command, RunningDaemon& daemon, const std::string& whose);

struct DaemonAnswer {
  std::string url;  // the daemon's
  unsigned status = 0;
  nlohmann::json body;
};
// GET, or POST of `json` where there is one. Errors are http_get()'s and key_in()'s; upstream_invalid: the
// answer is not JSON, so that the server is no Flyball daemon.
Result<DaemonAnswer> ask_daemon(const RunningDaemon& daemon, const std::string& target,
                                const std::optional<std::string>& json, std::chrono::milliseconds timeout);

// The member of an object, or null. The server at the other end may be any program, so that nothing about its
// answer is certain.
const nlohmann::json& member(const nlohmann::json& object, const char* key);
// A string's text, fit for a terminal; "?" of anything else.
std::string json_text(const nlohmann::json& value);

// Prints "flyball: URL answered 404: MESSAGE" and `remedy` on stderr. Returns the exit code of a status that
// is not 200: kFailed below 500, else kUnavailable.
int report_refusal(const DaemonAnswer& answer, const std::string& remedy = "");

}  // namespace flyball::cli
