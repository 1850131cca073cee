#include "daemon/usage/daily_usage.hpp"

namespace flyball::usage {

DayUsage& DayUsage::operator+=(const DayUsage& o) {
  requests += o.requests;
  refused += o.refused;
  errors += o.errors;
  cancelled += o.cancelled;
  prompt_tokens += o.prompt_tokens;
  cached_tokens += o.cached_tokens;
  generated_tokens += o.generated_tokens;
  guessed_tokens += o.guessed_tokens;
  streamed += o.streamed;
  with_tools += o.with_tools;
  prompt_lengths += o.prompt_lengths;
  cached_lengths += o.cached_lengths;
  answer_lengths += o.answer_lengths;
  open_at_arrival += o.open_at_arrival;
  return *this;
}

DayUsage& DailyUsage::change(const std::string& app, std::int64_t day) {
  const Key key{app, day};
  changed_.insert(key);
  return days_[key];
}

const DayUsage* DailyUsage::find(const std::string& app, std::int64_t day) const {
  const auto it = days_.find({app, day});
  return it == days_.end() ? nullptr : &it->second;
}

void DailyUsage::restore(AppDay row) {
  days_[{std::move(row.app), row.day}] = std::move(row.usage);
}

std::vector<AppDay> DailyUsage::take_changed() {
  std::vector<AppDay> out;
  out.reserve(changed_.size());
  for (const Key& key : changed_) out.push_back({key.first, key.second, days_.at(key)});
  changed_.clear();
  std::set<std::int64_t> days;
  for (const auto& [key, usage] : days_) days.insert(key.second);
  while (days.size() > kKeptDays + 1) {
    std::erase_if(days_, [&](const auto& entry) { return entry.first.second == *days.begin(); });
    days.erase(days.begin());
  }
  return out;
}

void DailyUsage::put_back(const std::vector<AppDay>& rows) {
  for (const AppDay& row : rows) {
    const Key key{row.app, row.day};
    days_.try_emplace(key, row.usage);
    changed_.insert(key);
  }
}

}  // namespace flyball::usage
