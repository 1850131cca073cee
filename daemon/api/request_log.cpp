#include "daemon/api/request_log.hpp"

#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>
#include <boost/system/error_code.hpp>

namespace flyball::api {

double milliseconds_since(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

RequestLog::~RequestLog() {
  tell_refusals(RefusalLog::TimePoint::max());
}

bool RequestLog::logs_whole(std::string_view app, ErrorCode code) {
  const auto now = std::chrono::steady_clock::now();
  tell_refusals(now);
  const bool whole = refusals_.whole(app, code, now);
  watch_refusals();
  return whole;
}

void RequestLog::log_refusal(std::string_view id, std::string_view app, std::string_view operation,
                             int status, ErrorCode code, double ms) {
  if (logs_whole(app, code)) log(id, app, "none", "none", operation, status, to_string(code), ms, {});
}

void RequestLog::tell_refusals(RefusalLog::TimePoint now) {
  for (const RefusalLog::Counted& one : refusals_.ended(now))
    spdlog::info("{} more refused within {} s | app={} operation=refused code={} count={}", one.count,
                 RefusalLog::kSpan.count(), one.app, to_string(one.code), one.count);
}

void RequestLog::watch_refusals() {
  const auto next = refusals_.next_end();
  if (!next || std::exchange(watching_, true)) return;
  timer_.expires_at(*next);
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (ec) return;
    watching_ = false;
    tell_refusals(std::chrono::steady_clock::now());
    watch_refusals();
  });
}

void RequestLog::log(std::string_view id, std::string_view app, std::string_view model,
                     std::string_view backend, std::string_view operation, int status, std::string_view code,
                     double ms, const Usage& usage) const {
  // Fields only, none of them the client's own words: no prompt, no key, no path it made up.
  spdlog::info(
      "{} {} {:.1f} ms | request_id={} app={} model={} backend={} operation={} status={} code={} "
      "ms={:.1f} prompt_tokens={} completion_tokens={}",
      operation, status, ms, id, app, model, backend, operation, status, code, ms, usage.prompt_tokens,
      usage.completion_tokens);
}

}  // namespace flyball::api
