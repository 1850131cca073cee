// The rows of a step by the expert that they were routed to, so that an expert's matrices meet all their rows
// at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flyball::cpu {

class ExpertGroups {
 public:
  struct Group {
    std::uint32_t expert = 0;
    std::uint32_t begin = 0, end = 0;  // places
  };

  void reserve(std::uint32_t n_experts, std::uint32_t n_choices);
  // choices: [rows, n_used] experts, flat. Choice c of them gets a place: by expert, then in order of c.
  void group(std::span<const std::uint32_t> choices);

  std::span<const Group> groups() const noexcept { return groups_; }  // of experts that were chosen
  std::span<const std::uint32_t> experts() const noexcept { return experts_; }
  std::uint32_t choice_at(std::uint32_t place) const noexcept { return choice_at_[place]; }
  std::uint32_t place_of(std::uint32_t choice) const noexcept { return place_of_[choice]; }

 private:
  std::vector<Group> groups_;
  std::vector<std::uint32_t> experts_;
  std::vector<std::uint32_t> next_;  // by expert: the next free place
  std::vector<std::uint32_t> choice_at_, place_of_;
};

}  // namespace flyball::cpu
