#include "daemon/api/constraint_verdicts.hpp"

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
  std::string key = std::string(app) + '\n' + out.digest;
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    kept_.splice(kept_.begin(), kept_, known->second);
    out.refusal = kept_.front().refusal;
  } else {
    out.refusal = compile_(constraint);
    if (out.refusal) {
      cut(out.refusal->message);
      cut(out.refusal->where);
    }
    if (kept_.size() == kKept) {
      by_key_.erase(kept_.back().key);
      kept_.pop_back();
    }
    kept_.push_front({std::move(key), out.refusal});
    by_key_.emplace(kept_.front().key, kept_.begin());
  }
  out.took_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count());
  return out;
}

Error refusal_at(const std::string& field, const Error& refusal) {
  Error out = refusal;
  out.param = field;
  // Messages about patterns have their place already.
  const bool placed = refusal.where.empty() || refusal.message.contains(refusal.where);
  out.message = "'" + field + "'" + (placed ? "" : " at " + refusal.where) + ": " + refusal.message;
  if (!out.message.ends_with('.')) out.message += '.';
  return out;
}

}  // namespace flyball::api
