#include "daemon/http/connection_table.hpp"

#include <algorithm>
#include <iterator>

namespace flyball::http {

ConnectionBounds ConnectionBounds::of(const config::HttpLimits& limits) {
  const std::size_t all = limits.connections;
  // All apps of a machine, or behind one proxy, share an address and may need most connections. A quarter is
  // left for clients of other addresses.
  const std::size_t per_address =
      limits.connections_per_address.value_or((limits.connections * 3ULL + 3) / 4);
  const std::size_t reserved = limits.reserved_connections.value_or(limits.connections / 8);
  return {all, std::min(all, per_address), all - std::min(all - 1, reserved)};
}

ConnectionTable::Queue ConnectionTable::queue_of(Activity activity, bool known) noexcept {
  switch (activity) {
    case Activity::silent:
      return silent;
    case Activity::idle:
      return known ? app_idle : stranger_idle;
    case Activity::working:
      break;
  }
  return known ? app_working : stranger_working;
}

std::size_t ConnectionTable::size(const Group& group) noexcept {
  std::size_t n = 0;
  for (const auto& queue : group) n += queue.size();
  return n;
}

std::size_t ConnectionTable::strangers(const Group& group) noexcept {
  return group[silent].size() + group[stranger_idle].size() + group[stranger_working].size();
}

std::optional<ConnectionTable::Id> ConnectionTable::victim_in(const Group& scope, bool strangers_only,
                                                              TimePoint now) const {
  const auto longest = [&](Queue queue, std::chrono::milliseconds floor) -> std::optional<Id> {
    if (scope[queue].empty() || now - entries_.at(scope[queue].front()).since < floor) return std::nullopt;
    return scope[queue].front();
  };
  auto victim = longest(silent, kIdleFloor);
  if (!victim) victim = longest(stranger_idle, {});
  if (!victim && !strangers_only) victim = longest(app_idle, kIdleFloor);
  if (!victim) victim = longest(silent, {});
  return victim;
}

ConnectionTable::Verdict ConnectionTable::admit(Id id, const std::string& address, TimePoint now) {
  const auto there = addresses_.find(address);
  const bool address_full = there != addresses_.end() && size(there->second) >= bounds_.per_address;
  const bool strangers_full = strangers(all_) >= bounds_.strangers;
  Verdict verdict{.accepted = true};
  if (address_full || strangers_full || entries_.size() >= bounds_.all) {
    verdict.victim = victim_in(address_full ? there->second : all_, strangers_full, now);
    if (!verdict.victim) {
      ++refused_;
      return {};
    }
    verdict.victim_was_silent = entries_.at(*verdict.victim).queue == silent;
    ++(verdict.victim_was_silent ? closed_silent_ : closed_idle_);
    remove(*verdict.victim);
  }
  Entry entry;
  entry.since = now;
  entry.address = &*addresses_.try_emplace(address).first;
  entry.in_all = all_[silent].insert(all_[silent].end(), id);
  auto& queue = entry.address->second[silent];
  entry.in_address = queue.insert(queue.end(), id);
  entries_.emplace(id, entry);
  return verdict;
}

void ConnectionTable::update(Id id, Activity activity, bool known, TimePoint now) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  const Queue queue = queue_of(activity, known);
  Group& group = entry.address->second;
  all_[queue].splice(all_[queue].end(), all_[entry.queue], entry.in_all);
  group[queue].splice(group[queue].end(), group[entry.queue], entry.in_address);
  entry.queue = queue;
  entry.since = now;
}

void ConnectionTable::remove(Id id) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  const Entry& entry = it->second;
  Group& group = entry.address->second;
  all_[entry.queue].erase(entry.in_all);
  group[entry.queue].erase(entry.in_address);
  if (size(group) == 0) addresses_.erase(addresses_.find(entry.address->first));
  entries_.erase(it);
}

ConnectionTable::Counts ConnectionTable::counts() const {
  return {.silent = all_[silent].size(),
          .idle = all_[stranger_idle].size() + all_[app_idle].size(),
          .working = all_[stranger_working].size() + all_[app_working].size(),
          .strangers = strangers(all_),
          .refused = refused_,
          .closed_silent = closed_silent_,
          .closed_idle = closed_idle_};
}

}  // namespace flyball::http
