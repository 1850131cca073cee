#include "daemon/api/constraint_verdicts.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/constrain/constraint.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::api {
namespace {

void cut(std::string& text) {
  constexpr std::size_t kMost = ConstraintVerdicts::kMaxErrorBytes;
  if (text.size() <= kMost) return;
  text.resize(cut_of_text(text, kMost - 3));
  text += "...";
}

}  // namespace

std::optional<Error> ConstraintVerdicts::compile(const Constraint& constraint) {
  auto program = constrain::compile(constraint);
  if (program) return std::nullopt;
  return std::move(program.error());
}

ConstraintVerdict ConstraintVerdicts::judge(std::string_view app, const Constraint& constraint) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  ConstraintVerdict out{.kind = std::string(constrain::to_string(constraint.kind)),
                        .digest = constrain::digest_of(constraint)};
  auto of_app = by_app_.find(app);
  if (of_app == by_app_.end()) of_app = by_app_.emplace(std::string(app), std::list<Kept>()).first;
  std::list<Kept>& kept = of_app->second;
  if (const auto known = std::ranges::find(kept, out.digest, &Kept::digest); known != kept.end()) {
    kept.splice(kept.begin(), kept, known);
    out.refusal = kept.front().refusal;
  } else {
    out.refusal = compile_(constraint);
    if (out.refusal) {
      cut(out.refusal->message);
      cut(out.refusal->where);
    }
    if (kept.size() == kKept) kept.pop_back();
    kept.push_front({out.digest, out.refusal});
  }
  out.took_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count());
  return out;
}

Error refusal_at(const std::string& field, const Error& refusal) {
  Error out = refusal;
  out.param = field;
  // A place in a pattern, "byte N", is part of its message.
  const bool placed = refusal.where.empty() || refusal.where.starts_with("byte ");
  out.message = "'" + field + "'" + (placed ? "" : " at " + refusal.where) + ": " + refusal.message;
  if (!out.message.ends_with('.')) out.message += '.';
  return out;
}

}  // namespace flyball::api
