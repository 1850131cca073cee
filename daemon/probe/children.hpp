// Programs that are asked something and may crash or hang over it without harm: what each prints, all of them
// at once. Blocking. They see the variables of config/child_environment.hpp alone.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::probe {

inline constexpr std::size_t kMaxChildOutput = 1 << 20;

struct ChildAnswer {
  enum class End : std::uint8_t { no_start, closed, timed_out, too_much, dismissed } end = End::no_start;
  std::string text;     // what it printed until then
  std::string trouble;  // no_start: why
  int status = 0;       // as of waitpid
  bool ended_well() const noexcept { return end == End::closed && status == 0; }
};

// `program ARGUMENTS` for each, in this order. Those that have not closed their output within the time, or
// print more than kMaxChildOutput, are killed with all their children, and all are within kStopLook of a
// stop; stderr goes to /dev/null.
inline constexpr std::chrono::milliseconds kStopLook{5};
std::vector<ChildAnswer> ask_children(const std::filesystem::path& program,
                                      const std::vector<std::vector<std::string>>& arguments,
                                      std::chrono::milliseconds timeout, const std::stop_token& stop = {});

// One program that may ask: `reply` gets each line that it prints, on this thread, and gives what it is to
// read on its stdin; "": nothing; nullopt: it is killed (`dismissed`).
using ChildReply = std::function<std::optional<std::string>(std::string_view line)>;
ChildAnswer talk_to_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                          const ChildReply& reply, std::chrono::milliseconds timeout,
                          const std::stop_token& stop = {});

}  // namespace flyball::probe
