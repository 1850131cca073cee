#include "daemon/api/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/name_list.hpp"
#include "daemon/api/field_error.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api {
namespace {

using S = SamplingParams;

// The seed by which clients of llama.cpp and others ask for a drawn one.
constexpr double kDrawnSeed = -1;

std::unexpected<Error> out_of_range(const Parameter& p, std::string place, double value) {
  std::string message = "'" + place + "' is ";
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
  return fail(ErrorCode::invalid_value, std::move(message), std::move(place));
}

std::unexpected<Error> wrong_type(const Parameter& p, std::string place, JsonView value) {
  return field_error(
      ErrorCode::invalid_value, std::move(place),
      std::string("must be ") + (type_name(p) == "integer" ? "an " : "a ") + std::string(type_name(p)) +
          ", not " + (value.is_string() ? "the string " + config::quoted(value.text()) : value.type_name()));
}

struct Assign {
  const Parameter& p;
  const std::string& place;
  JsonView value;
  SamplingParams& sampling;
  Scalars& scalars;

  Result<void> operator()(bool Scalars::*member) const {
    if (!value.is_boolean()) return wrong_type(p, place, value);
    scalars.*member = value.as_bool();
    return {};
  }
  Result<void> operator()(float S::*member) const {
    if (!value.is_number()) return wrong_type(p, place, value);
    const auto number = in_range(value.as_double());
    if (!number) return pass(number);
    sampling.*member = static_cast<float>(*number);
    // A positive double may be no positive float.
    if (p.min_excluded && !(static_cast<double>(sampling.*member) > p.min))
      return out_of_range(p, place, *number);
    return {};
  }
  Result<void> operator()(std::int32_t S::*member) const { return integer(sampling.*member); }
  Result<void> operator()(std::uint32_t Scalars::*member) const { return integer(scalars.*member); }
  Result<void> operator()(std::int32_t Scalars::*member) const { return integer(scalars.*member); }

 private:
  template <class Int>
  Result<void> integer(Int& out) const {
    if (!value.is_number()) return wrong_type(p, place, value);
    const double given = value.as_double();
    if (std::trunc(given) != given) return wrong_type(p, place, value);
    const auto number = in_range(given);
    if (!number) return pass(number);
    out = static_cast<Int>(*number);  // every range of the table fits 32 bits
    return {};
  }
  // The number, or what it stands for.
  Result<double> in_range(double number) const {
    if (p.sentinel && (number == p.sentinel->value || number == p.sentinel->other))
      return p.sentinel->stands_for;
    if (!(number >= p.min && number <= p.max) || (p.min_excluded && number <= p.min))
      return out_of_range(p, place, number);
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

Result<void> read_parameters(const Fields& object, SamplingParams& sampling, Scalars& scalars) {
  std::vector<const Parameter*> read;
  for (const Parameter& p : object.table().parameters()) {
    if (p.of != object.of() || (p.endpoints & object.endpoints()) == 0) continue;
    const JsonView value = object.member(p.name);
    if (!value) continue;
    const auto other_name = std::ranges::find(read, p.destination, &Parameter::destination);
    const double before = value_of(p, sampling, scalars);
    const std::string place = object.place_of(p.name);
    auto ok = std::visit(Assign{p, place, value, sampling, scalars}, p.destination);
    if (!ok) return pass(ok);
    if (other_name != read.end() && value_of(p, sampling, scalars) != before)
      return field_error(ErrorCode::invalid_value, place,
                         "contradicts '" + object.place_of((*other_name)->name) + "'");
    read.push_back(&p);
  }
  return {};
}

Result<void> read_stop(const Fields& object, std::vector<std::string>& stop, std::string_view name) {
  const JsonView value = object.member(name);
  if (!value) return {};
  const std::string place = object.place_of(name);
  if (value.is_string())
    stop.emplace_back(value.text());
  else if (value.is_array()) {
    if (value.size() > kMaxStops)
      return field_error(ErrorCode::invalid_value, place,
                         "has more than " + std::to_string(kMaxStops) + " strings");
    for (const auto& one : value.members()) {
      if (one.value.is_null()) continue;
      if (!one.value.is_string())
        return field_error(ErrorCode::invalid_value, place, "must be a string or an array of strings");
      stop.emplace_back(one.value.text());
    }
  } else {
    return field_error(ErrorCode::invalid_value, place, "must be a string or an array of strings");
  }
  // Forms that were left empty send an empty string, alone or in an array: it stops nothing.
  std::erase(stop, std::string());
  for (const auto& one : stop)
    if (one.size() > kMaxStopBytes)
      return field_error(ErrorCode::invalid_value, place,
                         "has a string of " + std::to_string(one.size()) + " bytes; the limit is " +
                             std::to_string(kMaxStopBytes));
  return {};
}

Result<void> read_seed(const Fields& object, Generate& out) {
  const JsonView value = object.member("seed");
  if (!value || (value.is_number() && value.as_double() == kDrawnSeed)) return {};
  if (const auto seed = value.is_number() ? value.as_unsigned() : std::nullopt)
    out.base.sampling.seed = *seed;
  else if (value.is_integer())
    out.base.sampling.seed = static_cast<std::uint64_t>(value.as_integer());
  else
    return field_error(ErrorCode::invalid_value, object.place_of("seed"), "must be a 64-bit integer");
  out.seeded = true;
  return {};
}

}  // namespace flyball::api
