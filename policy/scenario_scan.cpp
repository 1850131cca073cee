// The facts that words give, and how those of several words settle.
#include "policy/scenario_scan.hpp"

#include <cmath>
#include <utility>

#include "policy/fact_text.hpp"

namespace flyball::policy {
namespace {

// Whether the words count users or requests at one time.
bool says_at_once(const std::string& words) {
  for (const char* sign : {"once", "time", "parallel", "oncurrent", "imultaneous"})
    if (words.contains(sign)) return true;
  return false;
}

}  // namespace

std::string filled(std::string_view assignment, double number) {
  const std::size_t hash = assignment.find('#');
  if (hash == std::string_view::npos) return std::string(assignment);
  double value = number;
  std::string_view rest = assignment.substr(hash + 1);
  if (rest.starts_with('*')) {
    value *= number_of(rest.substr(1)).value_or(1);
    rest = {};
  }
  if (rest == "GiB" && value != std::floor(value)) {
    value *= 1024;
    rest = "MiB";
  }
  return std::string(assignment.substr(0, hash)) + std::to_string(std::llround(value)) + std::string(rest);
}

std::string gib_text(double gib) {
  return filled("#GiB", gib);
}

void Sayings::add(std::string_view assignment, const std::string& words) {
  const std::size_t equals = assignment.find('=');
  std::string_view name = assignment.substr(0, equals);
  const bool guess = name.ends_with('~');
  if (guess) name.remove_suffix(1);
  const FactId id = *find_fact(name);  // the vocabulary names known facts: a test sets every row
  const FactInfo& info = default_targets()->facts()[id];
  std::string text(assignment.substr(equals + 1));
  auto value = fact_value(info, text);
  if (!value) return;
  settle(info, id, {std::move(text), std::move(*value), words, guess});
}

const Saying* Sayings::get(std::string_view name) const {
  const auto it = by_fact_.find(*find_fact(name));
  return it == by_fact_.end() ? nullptr : &it->second;
}

void Sayings::forget(std::string_view name) {
  by_fact_.erase(*find_fact(name));
}

void Sayings::set(Facts& facts) const {
  for (const auto& [id, said] : by_fact_) facts.set(id, said.value, said.guess ? kGuess : kScenarioWords);
}

void Sayings::settle(const FactInfo& fact, FactId id, Saying said) {
  if (fact.name == "workload.class" && !said.guess && !among(classes_, said.text))
    classes_.push_back(said.text);
  const auto [it, first] = by_fact_.try_emplace(id, said);
  Saying& held = it->second;
  if (first || held.value == said.value) {
    held.guess &= said.guess;
    return;
  }
  if (fact.name == "hardware.os" && !held.guess && !said.guess) return;  // several: Reading::oses
  if (fact.name == "workload.class" && !held.guess) return;              // another app
  if (auto* all = std::get_if<std::vector<std::string>>(&held.value)) {
    for (const std::string& one : std::get<std::vector<std::string>>(said.value))
      if (!among(*all, one)) all->push_back(one);
    return;
  }
  if (fact.name == "workload.concurrency" && says_at_once(held.words) != says_at_once(said.words)) {
    if (says_at_once(said.words)) held = std::move(said);
    return;
  }
  if (held.guess != said.guess) {
    if (held.guess) held = std::move(said);
    return;
  }
  if (held.guess) {  // of two guesses the more: 32 of "production", 50 of "50 people"
    const auto* number = std::get_if<std::int64_t>(&said.value);
    if (number && *number > std::get<std::int64_t>(held.value)) held = std::move(said);
    return;
  }
  reading_.notes.push_back("\"" + held.words + "\" and \"" + said.words + "\" contradict each other (" +
                           std::string(fact.name) + " " + held.text + " and " + said.text +
                           "): " + held.text + " is taken");
}

std::size_t Scan::understand(std::size_t at, std::size_t length, std::string facts) {
  flush();
  reading.understood.push_back({text.said(at, length), std::move(facts)});
  return length;
}

void Scan::skip(std::size_t at) {
  if (text.before(at) == Break::none && skipping_ && skip_end_ == at) {
    ++skip_end_;
    return;
  }
  flush();
  skip_begin_ = at;
  skip_end_ = at + 1;
  skipping_ = true;
}

void Scan::flush() {
  if (!skipping_) return;
  reading.skipped.push_back(text.said(skip_begin_, skip_end_ - skip_begin_));
  skipping_ = false;
}

}  // namespace flyball::policy
