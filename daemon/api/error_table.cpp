#include "daemon/api/error_table.hpp"

#include <array>
#include <string>

namespace flyball::api {
namespace {

using enum ErrorCode;

constexpr Fault kRequest = Fault::request, kServer = Fault::server;
constexpr int kRetryAfterSeconds = 1;  // a slot frees within a request's time; RELIABILITY allows 1 to 60

constexpr std::array kTable{
    ErrorRow{
        invalid_json, 400, kRequest, Retry::no,
        "The body, or a schema in a string of it, is not valid JSON; the message gives the byte offset."},
    ErrorRow{json_too_deep, 400, kRequest, Retry::no,
             "The body, or a schema in a string of it, nests deeper than 64 levels."},
    ErrorRow{json_too_large, 400, kRequest, Retry::no,
             "The body, or a schema in a string of it, has more than 100,000 JSON values."},
    ErrorRow{invalid_value, 400, kRequest, Retry::no,
             "A field has the wrong type or is out of range; `param` names it."},
    ErrorRow{missing_field, 400, kRequest, Retry::no, "A required field is absent; `param` names it."},
    ErrorRow{unknown_field, 400, kRequest, Retry::no,
             "The API does not know a field of the request; `param` names it, and the message the nearest "
             "known one."},
    ErrorRow{unsupported_value, 400, kRequest, Retry::no,
             "The field is known, this value of it is not served."},
    ErrorRow{
        unsupported_feature, 400, kRequest, Retry::no,
        "The path or the field asks for a feature that Flyball does not serve, or not with this model; the "
        "message has the reason, and docs/capabilities.md all features. A constraint of the answer may "
        "have a part that cannot be enforced; an engine may find that in the middle of an answer."},
    ErrorRow{context_length_exceeded, 400, kRequest, Retry::no,
             "The prompt leaves no room for an answer in the context; the message has the context's tokens, "
             "and the "
             "prompt's, or how many those are at least. Prompts are never cut."},
    ErrorRow{template_error, 400, kRequest, Retry::no,
             "The model has no chat template, or it refuses these messages."},
    ErrorRow{template_budget, 400, kRequest, Retry::no,
             "Rendering the chat template took more work than is allowed."},
    ErrorRow{invalid_api_key, 401, kRequest, Retry::no, "No key, or one that belongs to no app."},
    ErrorRow{host_not_allowed, 403, Fault::permission, Retry::no,
             "The Host field, or an absolute target, names a host that is not served."},
    ErrorRow{model_not_found, 404, kRequest, Retry::no,
             "No such model, or the app may not use it (not told apart)."},
    ErrorRow{
        bad_framing, 400, kRequest, Retry::no,
        "The HTTP message is malformed or ambiguous, as with two hosts or two keys; the connection closes."},
    ErrorRow{headers_too_large, 431, kRequest, Retry::no, "More header bytes or fields than allowed."},
    ErrorRow{body_too_large, 413, kRequest, Retry::no,
             "The body is longer than allowed, by the daemon, the app's limits or the path."},
    ErrorRow{request_timeout, 408, kRequest, Retry::free, "The header or body did not arrive in time."},
    ErrorRow{not_found, 404, kRequest, Retry::no, "There is no such path, receipt or stored response."},
    ErrorRow{method_not_allowed, 405, kRequest, Retry::no, "The path exists; Allow lists its methods."},
    ErrorRow{
        unsupported_media_type, 415, kRequest, Retry::no,
        "The body must be application/json; beside a key and without an Origin its type may be left out."},
    ErrorRow{unsupported_coding, 415, kRequest, Retry::no, "Content codings such as gzip are not accepted."},
    ErrorRow{rate_limited, 429, Fault::limit, Retry::later,
             "One of the app's own limits: the message says which, what is used of it, and when it is free "
             "again."},
    ErrorRow{
        token_limit_exceeded, 429, Fault::limit, Retry::later,
        "The prompt leaves no room for an answer in what is left of the app's token limits; the message has "
        "both counts."},
    ErrorRow{overloaded, 503, kServer, Retry::later,
             "Too much waits or is open already: requests, connections or look-ups of receipts."},
    ErrorRow{deadline_exceeded, 503, kServer, Retry::later,
             "The app's deadline (slo.deadline) passed before the first token."},
    ErrorRow{
        slo_unattainable, 503, kServer, Retry::later,
        "No engine is predicted to hold the app's hard SLO (slo.hard); the message has the best prediction."},
    ErrorRow{
        insufficient_memory, 503, kServer, Retry::later,
        "The model, or the request's KV, does not fit; the message has what is needed and what there is."},
    ErrorRow{shutting_down, 503, kServer, Retry::later, "The daemon is draining."},
    ErrorRow{
        model_invalid, 503, kServer, Retry::no,
        "The model's file is absent, malformed or of a kind unknown here, or its entry asks for more than it "
        "has: an operator must change one of them."},
    ErrorRow{
        model_unsupported, 503, kServer, Retry::no,
        "The model is sound, but of an architecture unknown here, or no engine that the policy chooses can "
        "run it."},
    ErrorRow{model_unavailable, 503, kServer, Retry::later,
             "The model's engine could not be started, or died too often; it is tried again after a while."},
    ErrorRow{no_target, 503, kServer, Retry::later, "The policy names no engine that is available now."},
    ErrorRow{numeric_error, 500, kServer, Retry::no, "The engine computed values that are not numbers."},
    ErrorRow{device_lost, 503, kServer, Retry::later, "The engine's device failed."},
    ErrorRow{worker_died, 503, kServer, Retry::later,
             "The engine process died and the request could not be resumed."},
    ErrorRow{upstream_refused, 502, kServer, Retry::later,
             "The upstream refused: an engine elsewhere or, for a command, the daemon."},
    ErrorRow{upstream_timeout, 504, kServer, Retry::later, "The upstream did not answer in time."},
    ErrorRow{upstream_invalid, 502, kServer, Retry::free, "The upstream sent something malformed."},
    ErrorRow{config_invalid, 500, kServer, Retry::no,
             "A configuration file is wrong (seen by operators, not clients)."},
    ErrorRow{receipt_outdated, 500, kServer, Retry::no,
             "This version reads the policy that decided the request in another way."},
    ErrorRow{io_error, 500, kServer, Retry::free, "A file or socket operation failed."},
    ErrorRow{cancelled, 499, kRequest, Retry::no, "The client closed the connection (seen in logs only)."},
    ErrorRow{internal, 500, kServer, Retry::free, "A fault of the daemon."},
};
static_assert(kTable.size() == static_cast<std::size_t>(internal) + 1);
static_assert([] {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i].code != static_cast<ErrorCode>(i)) return false;
  return true;
}());

}  // namespace

std::span<const ErrorRow> error_table() noexcept {
  return kTable;
}

const ErrorRow& error_row(ErrorCode code) noexcept {
  const auto i = static_cast<std::size_t>(code);
  return kTable[i < kTable.size() ? i : kTable.size() - 1];
}

void append_retry_after(const ErrorRow& row, std::vector<http::Field>& fields) {
  if (row.retry == Retry::later) fields.push_back({"Retry-After", std::to_string(kRetryAfterSeconds)});
}

}  // namespace flyball::api
