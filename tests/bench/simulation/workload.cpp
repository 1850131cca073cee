#include "tests/bench/simulation/workload.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <random>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "tests/bench/simulation/hash.hpp"

namespace flyball::simulation {
namespace {

constexpr double kHour = 3600;
constexpr std::uint64_t kOwnBlocks = std::uint64_t{1} << 40;  // ids above Mooncake's

Error unreadable(const std::filesystem::path& file, std::size_t line, std::string_view what) {
  return {ErrorCode::invalid_value,
          "A line of the trace " + std::string(what) + ".",
          {},
          file.string() + ":" + std::to_string(line)};
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// "2023-11-16 18:17:03.9799600" in seconds of its day.
std::optional<double> seconds_of_day(std::string_view text) {
  unsigned hours = 0, minutes = 0;
  double seconds = 0;
  if (text.size() < 19 || !read_number(text.substr(11, 2), hours) ||
      !read_number(text.substr(14, 2), minutes) || !read_number(text.substr(17), seconds))
    return std::nullopt;
  return hours * 3600.0 + minutes * 60.0 + seconds;
}

Result<std::vector<SimRequest>> read_azure(const std::filesystem::path& file, std::size_t app) {
  std::ifstream in(file);
  if (!in) return fail(ErrorCode::invalid_value, "The trace cannot be read.", file.string());
  std::vector<SimRequest> out;
  std::optional<double> begin;
  std::string line;
  std::getline(in, line);
  for (std::size_t n = 2; std::getline(in, line); ++n) {
    if (line.ends_with('\r')) line.pop_back();
    const auto first = line.find(','), second = line.find(',', first + 1);
    if (second == std::string::npos) return std::unexpected(unreadable(file, n, "has no three columns"));
    const auto at = seconds_of_day(std::string_view(line).substr(0, first));
    SimRequest request;
    request.app = app;
    request.interactive = app != AppId::batch;
    if (!at ||
        !read_number(std::string_view(line).substr(first + 1, second - first - 1), request.prompt_tokens) ||
        !read_number(std::string_view(line).substr(second + 1), request.output_tokens) ||
        request.prompt_tokens == 0 || request.output_tokens == 0)
      return std::unexpected(unreadable(file, n, "has a value that is no time or no number of tokens"));
    if (!begin) begin = at;
    request.at = *at - *begin;
    request.first_block = kOwnBlocks * (1 + app) + (std::uint64_t{n} << 16U);
    out.push_back(std::move(request));
  }
  return out;
}

Result<std::vector<SimRequest>> read_mooncake(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return fail(ErrorCode::invalid_value, "The trace cannot be read.", file.string());
  std::vector<SimRequest> out;
  std::string line;
  for (std::size_t n = 1; std::getline(in, line); ++n) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return std::unexpected(unreadable(file, n, "is no JSON object"));
    SimRequest request;
    request.at = json.value("timestamp", 0.0) / 1e3;
    request.prompt_tokens = json.value("input_length", 0U);
    request.output_tokens = json.value("output_length", 0U);
    request.blocks = json.value("hash_ids", std::vector<std::uint64_t>{});
    if (request.prompt_tokens == 0 || request.output_tokens == 0 ||
        request.blocks.size() * kPromptBlock < request.prompt_tokens)
      return std::unexpected(unreadable(file, n, "has no tokens, or too few hash ids for them"));
    if (request.prompt_tokens <= kLongestPrompt) out.push_back(std::move(request));
  }
  return out;
}

// Requests of one session share more than the system prompt that all sessions begin with.
std::uint64_t session_of(const SimRequest& request, std::size_t index) {
  return request.blocks.size() > 1 ? request.blocks[1] : kOwnBlocks + index;
}

config::AppManifest app(const char* id, config::WorkloadClass kind, std::uint32_t prompt,
                        std::uint32_t output) {
  config::AppManifest manifest;
  manifest.id = id;
  manifest.workload.kind = kind;
  manifest.workload.prompt_tokens = prompt;
  manifest.workload.output_tokens = output;
  return manifest;
}

}  // namespace

std::span<const config::AppManifest> trace_apps() {
  using config::WorkloadClass;
  static const std::array apps = [] {
    std::array out{app("chat", WorkloadClass::chat, 6174, 347),
                   app("code", WorkloadClass::completion, 1469, 13),
                   app("batch", WorkloadClass::batch, 1020, 129)};
    out[AppId::batch].workload.objective = "throughput";
    return out;
  }();
  return apps;
}

std::uint32_t token_bytes(Token token) noexcept {
  return 2 + static_cast<std::uint32_t>(mixed(static_cast<std::uint64_t>(token)) % 5);
}

std::vector<Token> SimRequest::tokens() const {
  std::vector<Token> out(prompt_tokens);
  for (std::uint32_t i = 0; i < prompt_tokens; ++i) {
    const std::uint64_t id = i < shared_tokens ? shared_block + i / kPromptBlock : block(i / kPromptBlock);
    out[i] = static_cast<Token>(mixed(id * kPromptBlock + i % kPromptBlock) & 0x7fffffffU);
  }
  return out;
}

std::string SimRequest::text() const {
  std::string out;
  out.reserve(std::size_t{prompt_tokens} * 4);
  for (const Token token : tokens()) {
    std::uint64_t letters = mixed(static_cast<std::uint64_t>(token) + 1);
    for (std::uint32_t i = 0, n = token_bytes(token); i < n; ++i, letters >>= 5U)
      out += static_cast<char>('a' + (letters & 31U) % 26);
  }
  return out;
}

Result<Traces> read_traces(const std::filesystem::path& folder) {
  Traces traces;
  auto chat = read_mooncake(folder / "mooncake-conversation.jsonl");
  if (!chat) return pass(chat);
  auto code = read_azure(folder / "azure-2023-code.csv", AppId::code);
  if (!code) return pass(code);
  auto conversation = read_azure(folder / "azure-2023-conv.csv", AppId::batch);
  if (!conversation) return pass(conversation);
  return Traces{std::move(*chat), std::move(*code), std::move(*conversation)};
}

Traces synthetic_traces(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return random() % limit; };
  Traces traces;
  std::uint64_t next_block = 1;
  for (std::size_t i = 0; i < 600; ++i) {
    SimRequest request;
    request.at = static_cast<double>(i) * 6;
    if (i > 20 && below(3) == 0) request.blocks = traces.chat[i - 1 - below(20)].blocks;
    if (request.blocks.size() > 20) request.blocks.clear();
    if (request.blocks.empty()) request.blocks.push_back(0);
    for (std::uint64_t n = 1 + below(6); n > 0; --n) request.blocks.push_back(next_block++);
    request.prompt_tokens =
        static_cast<std::uint32_t>(request.blocks.size() * kPromptBlock - below(kPromptBlock));
    request.output_tokens = 4 + static_cast<std::uint32_t>(below(60));
    traces.chat.push_back(std::move(request));
    for (const std::size_t app : {AppId::code, AppId::batch}) {
      SimRequest own;
      own.app = app;
      own.interactive = app != AppId::batch;
      own.at = static_cast<double>(i) * 6 + 3;
      own.prompt_tokens = 100 + static_cast<std::uint32_t>(below(1500));
      own.output_tokens = 4 + static_cast<std::uint32_t>(below(30));
      own.first_block = kOwnBlocks * (1 + app) + (std::uint64_t{i} << 16U);
      (app == AppId::code ? traces.code : traces.conversation).push_back(std::move(own));
    }
  }
  return traces;
}

Load make_load(const Traces& traces, const LoadOptions& options) {
  const double an_hour = options.share * static_cast<double>(traces.chat.size() + traces.code.size());
  const double hours = options.interactive / std::max(an_hour, 1e-9);
  const double most_rounds = std::floor(1 / options.share + 1e-9);
  Load load;
  load.seconds = kHour * std::min(hours, most_rounds);
  const auto rounds = static_cast<std::uint32_t>(std::ceil(load.seconds / kHour - 1e-9));
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const double begin = round * kHour, length = std::min(kHour, load.seconds - begin);
    const auto is_kept = [&](std::uint64_t what) {
      const double place = unit_interval(mixed(what ^ mixed(options.seed)));
      return place >= round * options.share && place < (round + 1) * options.share;
    };
    const auto keep = [&](const SimRequest& request) {
      load.requests.push_back(request);
      load.requests.back().at += begin;
    };
    for (std::size_t i = 0; i < traces.chat.size(); ++i)
      if (traces.chat[i].at < length && is_kept(session_of(traces.chat[i], i))) keep(traces.chat[i]);
    for (const SimRequest& request : traces.code)
      if (request.at < length && is_kept(request.first_block)) keep(request);
    if (!options.batch) continue;
    for (SimRequest request : traces.conversation) {
      if (request.at >= length || !is_kept(request.first_block)) continue;
      request.at = 0;
      keep(request);
    }
  }
  std::ranges::stable_sort(load.requests, {}, &SimRequest::at);
  return load;
}

}  // namespace flyball::simulation
