#include "daemon/cli/bench_runs.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>

#include "daemon/cli/local_engine.hpp"

namespace flyball::cli {
namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t kDecodePromptTokens = 16;  // short: decode is measured, not its prefill

struct Outcome {
  std::vector<Done> done;
  double wall_s = 0;
};

// `streams` requests at once, until all are done.
Result<Outcome> run_streams(Backend& backend, const BenchLoad& o, std::uint32_t n_prompt,
                            std::uint32_t n_generate, std::mt19937& random) {
  struct Stream {
    std::shared_ptr<EventQueue> queue = std::make_shared<EventQueue>();
    Ticket ticket;
  };
  std::uniform_int_distribution<Token> token(0, static_cast<Token>(backend.info().vocab_size) - 1);
  std::vector<CompletionRequest> requests(o.streams);
  for (std::uint32_t i = 0; i < o.streams; ++i) {
    TokenPrompt prompt;
    for (std::uint32_t k = 0; k < n_prompt; ++k) prompt.tokens.push_back(token(random));
    requests[i].id = "bench-" + std::to_string(i);
    requests[i].prompt = std::move(prompt);
    requests[i].sampling.temperature = 0.0F;
    requests[i].max_tokens = n_generate;
    requests[i].ignore_eos = true;
  }
  std::vector<Stream> streams(o.streams);
  const auto began = steady_clock::now();
  for (std::uint32_t i = 0; i < o.streams; ++i) {
    auto ticket = backend.start(std::move(requests[i]), streams[i].queue);
    if (!ticket) return pass(ticket);
    streams[i].ticket = std::move(*ticket);
  }
  Outcome outcome;
  for (Stream& s : streams) {
    while (true) {
      auto event = s.queue->next(s.ticket, std::chrono::milliseconds(1000));
      if (!event) continue;
      if (auto* error = std::get_if<Error>(&*event)) return std::unexpected(std::move(*error));
      if (auto* done = std::get_if<Done>(&*event)) {
        outcome.done.push_back(std::move(*done));
        break;
      }
    }
  }
  outcome.wall_s = std::chrono::duration<double>(steady_clock::now() - began).count();
  return outcome;
}

Result<BenchRound> measure(Backend& backend, const BenchLoad& o, std::mt19937& random) {
  BenchRound round;
  auto prefill = run_streams(backend, o, o.prompt_tokens, 1, random);
  if (!prefill) return pass(prefill);
  std::uint64_t prompt_tokens = 0;
  for (const Done& d : prefill->done) {
    prompt_tokens += d.usage.prompt_tokens - d.usage.cached_tokens;
    round.ttft_ms =
        std::max(round.ttft_ms, static_cast<double>(d.timings.queue_us + d.timings.prefill_us) / 1000.0);
  }
  round.prefill = static_cast<double>(prompt_tokens) / prefill->wall_s;
  auto decode = run_streams(backend, o, std::min(kDecodePromptTokens, o.prompt_tokens), o.generate, random);
  if (!decode) return pass(decode);
  // From the first token of each stream to its last; streams overlap, so the slowest one's time counts.
  std::uint64_t tokens = 0;
  std::uint64_t slowest_us = 1;
  for (const Done& d : decode->done) {
    tokens += d.usage.completion_tokens - std::min(1U, d.usage.completion_tokens);
    slowest_us = std::max(slowest_us, d.timings.decode_us);
  }
  round.decode = static_cast<double>(tokens) * 1e6 / static_cast<double>(slowest_us);
  return round;
}

double median_of(std::vector<BenchRound> rounds, double BenchRound::*figure) {
  std::ranges::sort(rounds, {}, figure);
  return rounds[rounds.size() / 2].*figure;
}

}  // namespace

std::uint32_t bench_context(const BenchLoad& load) noexcept {
  return std::max(load.prompt_tokens + 1, std::min(kDecodePromptTokens, load.prompt_tokens) + load.generate);
}

Result<BenchFigures> bench_rounds(Backend& backend, const BenchLoad& load, std::uint32_t repeat,
                                  const std::function<void(const BenchRound&)>& after_each) {
  if (bench_context(load) > backend.info().context_length)
    return fail(ErrorCode::context_length_exceeded, "The bench needs " + std::to_string(bench_context(load)) +
                                                        " tokens of context, the model has " +
                                                        std::to_string(backend.info().context_length) +
                                                        ": lower --prompt-tokens or --generate.");
  std::mt19937 random(1);
  BenchLoad warm = load;
  warm.generate = std::min(load.generate, 4U);
  if (auto first = measure(backend, warm, random); !first) return pass(first);
  BenchFigures figures;
  for (std::uint32_t i = 0; i < repeat; ++i) {
    auto round = measure(backend, load, random);
    if (!round) return pass(round);
    figures.rounds.push_back(*round);
    if (after_each) after_each(*round);
  }
  for (const auto figure : {&BenchRound::prefill, &BenchRound::decode, &BenchRound::ttft_ms})
    figures.median.*figure = median_of(figures.rounds, figure);
  figures.weight_rate =
      figures.median.decode / load.streams * static_cast<double>(backend.info().token_weight_bytes) / 1e9;
  return figures;
}

}  // namespace flyball::cli
