// Ranges of SamplingParams (backends/backend.hpp), checked where the engine begins: it trusts nobody.
#include <cmath>
#include <string>

#include "backends/backend.hpp"

namespace flyball {
namespace {

constexpr std::size_t kMaxLogitBias = 1024;  // entries; OpenAI allows 300, and each costs a look-up per token
constexpr std::int32_t kMaxTopLogprobs = 20;

Result<void> in_range(const char* name, double value, double low, double high, bool low_open = false) {
  if (std::isfinite(value) && (low_open ? value > low : value >= low) && value <= high) return {};
  const auto text = [](double v) {
    std::string s = std::to_string(v);
    while (s.size() > 1 && s.back() == '0') s.pop_back();
    if (s.back() == '.') s.pop_back();
    return s;
  };
  return fail(ErrorCode::invalid_value,
              std::string(name) + " is " + text(value) + "; it must be " +
                  (low_open ? "above " : "at least ") + text(low) + " and at most " + text(high) + ".",
              name);
}

}  // namespace

Result<void> check(const SamplingParams& p) {
  struct Row {
    const char* name;
    double value, low, high;
    bool low_open;
  };
  const Row rows[] = {
      {"temperature", p.temperature, 0, 2, false},
      {"top_k", static_cast<double>(p.top_k), 0, 2147483647, false},
      {"top_p", p.top_p, 0, 1, true},
      {"min_p", p.min_p, 0, 1, false},
      {"typical_p", p.typical_p, 0, 1, true},
      {"repetition_penalty", p.repetition_penalty, 0, 2, true},
      {"frequency_penalty", p.frequency_penalty, -2, 2, false},
      {"presence_penalty", p.presence_penalty, -2, 2, false},
      {"top_logprobs", static_cast<double>(p.top_logprobs), -1, kMaxTopLogprobs, false},
      {"logit_bias", static_cast<double>(p.logit_bias.size()), 0, kMaxLogitBias, false},
  };
  for (const Row& r : rows)
    if (auto ok = in_range(r.name, r.value, r.low, r.high, r.low_open); !ok) return pass(ok);
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0)
      return fail(ErrorCode::invalid_value, "logit_bias names token " + std::to_string(token) + ", below 0.",
                  "logit_bias");
    if (auto ok = in_range("logit_bias", bias, -100, 100); !ok) return pass(ok);
  }
  return {};
}

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      return "tool_calls";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "stop";
}

}  // namespace flyball
