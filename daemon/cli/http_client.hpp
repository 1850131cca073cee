// One request to a running daemon; all that commands need of HTTP.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "config/error.hpp"

namespace flyball::cli {

struct HttpAnswer {
  unsigned status = 0;
  std::string body;  // at most kMaxAnswerBytes
};
inline constexpr std::size_t kMaxAnswerBytes = 8U << 20;

// GET. base: "http://127.0.0.1:8080" or "unix:/run/flyball/flyball.sock"; target: "/v1/models"; key: "" for
// none. invalid_value for a base of another form, upstream_refused, upstream_timeout, upstream_invalid. The
// message names the cause and `--url`, so every command that calls it has that option.
Result<HttpAnswer> http_get(const std::string& base, const std::string& target, const std::string& key,
                            std::chrono::milliseconds timeout);
// POST of a JSON document; else the same.
Result<HttpAnswer> http_post(const std::string& base, const std::string& target, std::string json,
                             const std::string& key, std::chrono::milliseconds timeout);

// The API key that a file holds, without the end of its line.
Result<std::string> key_in(const std::filesystem::path& file);

}  // namespace flyball::cli
