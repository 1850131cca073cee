#include "daemon/api/limit_fields.hpp"

#include <algorithm>

namespace flyball::api {
namespace {

void append(const std::string& kind, const std::optional<route::Standing>& standing,
            std::vector<http::Field>& fields) {
  if (!standing) return;
  fields.push_back({"x-ratelimit-limit-" + kind, std::to_string(standing->limit)});
  fields.push_back({"x-ratelimit-remaining-" + kind, std::to_string(standing->remaining)});
  fields.push_back({"x-ratelimit-reset-" + kind, spelled_duration(standing->reset_ms)});
}

}  // namespace

std::string spelled_duration(std::int64_t milliseconds) {
  if (milliseconds < 1000) return std::to_string(milliseconds) + "ms";
  const std::int64_t seconds = (milliseconds + 999) / 1000;
  std::string out;
  if (seconds >= 3600) out += std::to_string(seconds / 3600) + "h";
  if (seconds >= 60) out += std::to_string(seconds % 3600 / 60) + "m";
  return out + std::to_string(seconds % 60) + "s";
}

void append_standings(const route::Standings& standings, std::vector<http::Field>& fields) {
  append("requests", standings.requests, fields);
  append("tokens", standings.tokens, fields);
  append("bytes", standings.bytes, fields);
}

void set_retry_after(std::int64_t milliseconds, std::vector<http::Field>& fields) {
  std::erase_if(fields, [](const http::Field& field) { return field.name == "Retry-After"; });
  fields.push_back({"Retry-After", std::to_string(std::max<std::int64_t>(1, (milliseconds + 999) / 1000))});
}

}  // namespace flyball::api
