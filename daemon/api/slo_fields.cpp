#include "daemon/api/slo_fields.hpp"

#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "config/name_list.hpp"

namespace flyball::api {
namespace {

using std::chrono::milliseconds;

// Ten minutes: an interactive client that waits longer needs no SLO.
constexpr int kMostMs = 600'000;

std::optional<milliseconds> whole_milliseconds(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMostMs)
    return std::nullopt;
  return milliseconds(value);
}

Result<std::optional<milliseconds>> read_field(const http::Request& request, std::string_view name) {
  std::optional<milliseconds> out;
  for (const http::Field& field : request.fields) {
    if (!http::equals_ignoring_case(field.name, name)) continue;
    const auto refuse = [&](const std::string& why) {
      return fail(ErrorCode::invalid_value, "The header " + std::string(name) + why, std::string(name));
    };
    if (out) return refuse(" is there twice: send one.");
    out = whole_milliseconds(field.value);
    if (!out)
      return refuse(" is " + config::quoted(field.value) +
                    "; it must be a whole number of milliseconds, 1 to " + std::to_string(kMostMs) + ".");
  }
  return out;
}

}  // namespace

Result<void> read_slo_fields(const http::Request& request, route::RequestTraits& traits) {
  const auto ttft = read_field(request, "x-slo-ttft-ms");
  if (!ttft) return pass(ttft);
  const auto tpot = read_field(request, "x-slo-tpot-ms");
  if (!tpot) return pass(tpot);
  traits.slo_ttft = *ttft;
  traits.slo_tpot = *tpot;
  return {};
}

}  // namespace flyball::api
