#include "daemon/route/possible_targets.hpp"

#include <algorithm>

namespace flyball::route {

std::vector<const policy::Target*> possible_targets(const policy::Decision& decision,
                                                    std::span<const std::string> left) {
  std::vector<const policy::Target*> out;
  if (!decision.target) return out;  // targets that missed the SLO are alternatives to a chosen one alone
  out.push_back(decision.target);
  const auto was_left = [&](const policy::TargetTrace& t) {
    return t.verdict == policy::Verdict::unavailable &&
           std::ranges::find(left, t.target->backend) != left.end();
  };
  const auto add = [&](bool of_rule, bool of_left) {
    for (const policy::TargetTrace& t : decision.targets)
      if (t.target && (of_left ? was_left(t) : t.verdict == policy::Verdict::available) &&
          (t.rule == decision.rule) == of_rule &&
          std::ranges::find(out, t.target->backend, &policy::Target::backend) == out.end())
        out.push_back(t.target);
  };
  const bool last = decision.rule->on_unavailable != policy::OnUnavailable::next;
  const bool rest = !last || decision.rule == &decision.tree->fallback;
  for (const bool of_left : {false, true}) {
    add(true, of_left);
    if (rest) add(false, of_left);
  }
  return out;
}

}  // namespace flyball::route
