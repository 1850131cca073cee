#include "daemon/usage/workload.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

namespace flyball::usage {
namespace {

using config::Workload;

double number(const std::optional<std::uint32_t>& declared) {
  return declared ? static_cast<double>(*declared) : -1.0;
}

std::string workload_block(const Workload& w, const std::vector<Compared>& compared) {
  std::string out = "workload:\n";
  const auto line = [&](std::string_view key, const std::string& value) {
    out.append("  ").append(key).append(": ").append(value).append("\n");
  };
  const auto tokens = [&](std::string_view key, const std::optional<std::uint32_t>& declared) {
    const auto it = std::ranges::find(compared, key, &Compared::key);
    const bool corrected = it != compared.end() && (it->drifts || it->declared < 0);
    if (corrected)
      line(key, std::to_string(std::llround(it->observed)));
    else if (declared)
      line(key, std::to_string(*declared));
  };
  const auto flag = [&](std::string_view key, const std::optional<bool>& declared) {
    if (declared) line(key, *declared ? "true" : "false");
  };
  const auto word = [&](std::string_view key, const std::string& declared) {
    if (!declared.empty()) line(key, declared);
  };
  if (w.kind) line("class", std::string(config::to_string(*w.kind)));
  if (!w.modalities.empty()) {
    std::string list;
    for (const std::string& one : w.modalities) list += (list.empty() ? "[" : ", ") + one;
    line("modalities", list + "]");
  }
  tokens("prompt_tokens", w.prompt_tokens);
  tokens("output_tokens", w.output_tokens);
  tokens("shared_prefix_tokens", w.shared_prefix_tokens);
  tokens("concurrency", w.concurrency);
  tokens("batch_size", w.batch_size);
  flag("fixed_critical", w.fixed_critical);
  word("phase", w.phase);
  word("objective", w.objective);
  flag("structured_output", w.structured_output);
  flag("draft_model", w.draft_model);
  word("delivery", w.delivery);
  return out;
}

// A line of the file's own mapping begins in its first column, and is no comment or closing bracket.
bool begins_a_key(std::string_view line) {
  return !line.empty() && std::string_view(" \t#}]-\r").find(line.front()) == std::string_view::npos;
}

}  // namespace

double Compared::factor() const noexcept {
  const double a = std::max(declared, 1.0), b = std::max(observed, 1.0);
  return std::max(a, b) / std::min(a, b);
}

std::vector<Compared> compare(const Workload& declared, const DayUsage& observed) {
  std::vector<Compared> out;
  if (observed.requests < kEnoughRequests || observed.prompt_lengths.count() < kEnoughRequests) return out;
  const auto add = [&](std::string_view key, double said, const Histogram& seen, double q,
                       std::string_view basis, double least) {
    Compared one{key, said, std::max(least, static_cast<double>(seen.quantile(q))), basis};
    one.drifts = said >= 0 && one.factor() > kDriftFactor;
    out.push_back(one);
  };
  add("prompt_tokens", number(declared.prompt_tokens), observed.prompt_lengths, 0.5, "median", 1);
  add("output_tokens", number(declared.output_tokens), observed.answer_lengths, 0.5, "median", 1);
  add("shared_prefix_tokens", number(declared.shared_prefix_tokens), observed.cached_lengths, 0.5, "median",
      0);
  add("concurrency", number(declared.concurrency), observed.open_at_arrival, 0.95, "95th percentile", 1);
  return out;
}

std::string corrected_manifest(std::string_view yaml, const config::AppManifest& app,
                               const std::vector<Compared>& compared) {
  const std::string block = workload_block(app.workload, compared);
  std::string out;
  bool inside = false, written = false;
  while (!yaml.empty()) {
    const std::size_t end = std::min(yaml.find('\n'), yaml.size() - 1) + 1;
    const std::string_view line = yaml.substr(0, end);
    yaml.remove_prefix(end);
    if (begins_a_key(line)) inside = line.starts_with("workload:");
    if (!inside || (written && line.front() == '#')) {  // a comment there is the next key's
      out += line;
    } else if (!written) {
      out += block;
      written = true;
    }
  }
  if (!written) {
    if (!out.empty() && out.back() != '\n') out += '\n';
    out += block;
  }
  return out;
}

}  // namespace flyball::usage
