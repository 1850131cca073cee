#include "backends/cpu/expert_groups.hpp"

#include <algorithm>

namespace flyball::cpu {

void ExpertGroups::reserve(std::uint32_t n_experts, std::uint32_t n_choices) {
  next_.resize(n_experts);
  groups_.reserve(n_experts);
  experts_.reserve(n_experts);
  choice_at_.resize(n_choices);
  place_of_.resize(n_choices);
}

void ExpertGroups::group(std::span<const std::uint32_t> choices) {
  groups_.clear();
  experts_.clear();
  std::ranges::fill(next_, 0U);
  for (const std::uint32_t expert : choices) ++next_[expert];
  std::uint32_t begin = 0;
  for (std::uint32_t expert = 0; expert < next_.size(); ++expert) {
    const std::uint32_t n = next_[expert];
    next_[expert] = begin;
    if (n == 0) continue;
    groups_.push_back({expert, begin, begin + n});
    experts_.push_back(expert);
    begin += n;
  }
  for (std::uint32_t choice = 0; choice < choices.size(); ++choice) {
    const std::uint32_t place = next_[choices[choice]]++;
    choice_at_[place] = choice;
    place_of_[choice] = place;
  }
}

}  // namespace flyball::cpu
