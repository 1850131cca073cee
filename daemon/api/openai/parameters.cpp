#include "daemon/api/openai/parameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "config/name_list.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/fields.hpp"

namespace flyball::api::openai {
namespace {

using S = SamplingParams;

constexpr double kMaxTokens = 1'000'000;  // beyond any context this release can hold

// Tokens whose probability sums up to as good as nothing: the likeliest one.
constexpr Sentinel kLikeliestAlone{0, std::numeric_limits<float>::min(), "the likeliest token alone"};
constexpr Sentinel kOff{-1, 0, "off"};
constexpr Sentinel kNoLimit{-1, kNoTokenLimit, "what the context leaves"};

constexpr std::array kParameters{
    Parameter{"temperature", kBoth, 0, 2, false, "1", &S::temperature},
    Parameter{"top_p", kBoth, 0, 1, true, "1", &S::top_p, kLikeliestAlone},
    Parameter{"top_k", kBoth, 0, 1'000'000, false, "0 (off)", &S::top_k, kOff},
    Parameter{"min_p", kBoth, 0, 1, false, "0 (off)", &S::min_p},
    Parameter{"typical_p", kBoth, 0, 1, true, "1 (off)", &S::typical_p},
    Parameter{"repetition_penalty", kBoth, 0, 2, true, "1 (off)", &S::repetition_penalty},
    Parameter{"repeat_penalty", kBoth, 0, 2, true, "as repetition_penalty, which it is",
              &S::repetition_penalty},
    Parameter{"frequency_penalty", kBoth, -2, 2, false, "0", &S::frequency_penalty},
    Parameter{"presence_penalty", kBoth, -2, 2, false, "0", &S::presence_penalty},
    Parameter{"max_tokens", kBoth, 1, kMaxTokens, false, "chat: what the context leaves; completions: 16",
              &Scalars::max_tokens, kNoLimit},
    Parameter{"max_completion_tokens", kChat, 1, kMaxTokens, false, "as max_tokens, which it replaces",
              &Scalars::max_tokens, kNoLimit},
    Parameter{"n_predict", kBoth, 1, kMaxTokens, false, "as max_tokens, which it is", &Scalars::max_tokens,
              kNoLimit},
    Parameter{"num_predict", kBoth, 1, kMaxTokens, false, "as max_tokens, which it is", &Scalars::max_tokens,
              kNoLimit},
    Parameter{"n", kBoth, 1, 8, false, "1", &Scalars::n},
    Parameter{"best_of", kCompletions, 1, 8, false, "n (no other value is served)", &Scalars::best_of},
    Parameter{"stream", kBoth, 0, 1, false, "false", &Scalars::stream},
    Parameter{"echo", kCompletions, 0, 1, false, "false (true is not served)", &Scalars::echo},
    Parameter{"logprobs", kChat, 0, 1, false, "false", &Scalars::logprobs},
    Parameter{"top_logprobs", kChat, 0, 20, false, "0", &Scalars::top_logprobs},
    Parameter{"logprobs", kCompletions, 0, 20, false, "none", &Scalars::legacy_logprobs},
    Parameter{"ignore_eos", kBoth, 0, 1, false, "false", &Scalars::ignore_eos},
};

std::unexpected<Error> out_of_range(const Parameter& p, double value) {
  std::string message = "'" + std::string(p.name) + "' is ";
  append_json_number(message, value);
  message += ", but must be ";
  message += p.min_excluded ? "greater than " : "at least ";
  append_json_number(message, p.min);
  message += " and at most ";
  append_json_number(message, p.max);
  if (p.sentinel) {
    message += ", or ";
    append_json_number(message, p.sentinel->value);
    message += " (" + std::string(p.sentinel->words) + ")";
  }
  message += ".";
  return fail(ErrorCode::invalid_value, std::move(message), std::string(p.name));
}

std::unexpected<Error> wrong_type(const Parameter& p, JsonView value) {
  return fail(ErrorCode::invalid_value,
              "'" + std::string(p.name) + "' must be " + (type_name(p) == "integer" ? "an " : "a ") +
                  std::string(type_name(p)) + ", not " +
                  (value.is_string() ? "the string " + config::quoted(value.text()) : value.type_name()) +
                  ".",
              std::string(p.name));
}

struct Assign {
  const Parameter& p;
  JsonView value;
  SamplingParams& sampling;
  Scalars& scalars;

  Result<void> operator()(bool Scalars::*member) const {
    if (!value.is_boolean()) return wrong_type(p, value);
    scalars.*member = value.as_bool();
    return {};
  }
  Result<void> operator()(float S::*member) const {
    if (!value.is_number()) return wrong_type(p, value);
    const auto number = in_range(value.as_double());
    if (!number) return pass(number);
    sampling.*member = static_cast<float>(*number);
    // A positive double may be no positive float.
    if (p.min_excluded && !(static_cast<double>(sampling.*member) > p.min)) return out_of_range(p, *number);
    return {};
  }
  Result<void> operator()(std::int32_t S::*member) const { return integer(sampling.*member); }
  Result<void> operator()(std::uint32_t Scalars::*member) const { return integer(scalars.*member); }
  Result<void> operator()(std::int32_t Scalars::*member) const { return integer(scalars.*member); }

 private:
  template <class Int>
  Result<void> integer(Int& out) const {
    if (!value.is_number()) return wrong_type(p, value);
    const double given = value.as_double();
    if (std::trunc(given) != given) return wrong_type(p, value);
    const auto number = in_range(given);
    if (!number) return pass(number);
    out = static_cast<Int>(*number);  // every range of the table fits 32 bits
    return {};
  }
  // The number, or what it stands for.
  Result<double> in_range(double number) const {
    if (p.sentinel && number == p.sentinel->value) return p.sentinel->stands_for;
    if (!(number >= p.min && number <= p.max) || (p.min_excluded && number <= p.min))
      return out_of_range(p, number);
    return number;
  }
};

double value_of(const Parameter& p, const SamplingParams& sampling, const Scalars& scalars) {
  return std::visit(
      [&](auto member) -> double {
        if constexpr (requires { sampling.*member; })
          return static_cast<double>(sampling.*member);
        else
          return static_cast<double>(scalars.*member);
      },
      p.destination);
}

}  // namespace

std::span<const Parameter> parameters() noexcept {
  return kParameters;
}

std::string_view type_name(const Parameter& parameter) noexcept {
  switch (parameter.destination.index()) {
    case 0:
      return "number";
    case 4:
      return "boolean";
    default:
      return "integer";
  }
}

Result<void> read_parameters(const Fields& body, Endpoints endpoint, SamplingParams& sampling,
                             Scalars& scalars) {
  std::array<const Parameter*, kParameters.size()> read{};
  std::size_t n = 0;
  for (const Parameter& p : kParameters) {
    if ((p.endpoints & endpoint) == 0) continue;
    const JsonView value = body.member(p.name);
    if (!value) continue;
    const auto other_name = std::find_if(read.begin(), read.begin() + n, [&](const Parameter* before) {
      return before->destination == p.destination;
    });
    const double before = value_of(p, sampling, scalars);
    auto ok = std::visit(Assign{p, value, sampling, scalars}, p.destination);
    if (!ok) return pass(ok);
    if (other_name != read.begin() + n && value_of(p, sampling, scalars) != before)
      return fail(ErrorCode::invalid_value,
                  "'" + std::string(p.name) + "' contradicts '" + std::string((*other_name)->name) + "'.",
                  std::string(p.name));
    read.at(n++) = &p;
  }
  return {};
}

}  // namespace flyball::api::openai
