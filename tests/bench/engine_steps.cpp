#include "tests/bench/engine_steps.hpp"

#include <random>

#include "tests/bench/program.hpp"

namespace flyball::bench {
namespace {

struct Products {   // of one row
  double qkv = 0;   // of a layer
  double rest = 0;  // of a layer: o and the feed-forward
  double output = 0;
};

Products products(const model::ModelConfig& c) {
  const double dim = c.dim, head = c.head_dim, heads = head * c.n_heads, kv = head * c.n_kv_heads;
  return {dim * (heads + 2 * kv), heads * dim + 3 * dim * c.ffn_dim, dim * c.vocab_size};
}

}  // namespace

StepWork decode_work(const model::ModelFile& model, std::uint32_t streams) {
  const Products p = products(model.config());
  return {static_cast<double>(model.token_weight_bytes()),
          2 * streams * (model.config().n_layers * (p.qkv + p.rest) + p.output)};
}

// The last layer goes on with the one row whose logits are wanted.
StepWork prefill_work(const model::ModelFile& model, std::uint32_t tokens) {
  const Products p = products(model.config());
  const double layers = model.config().n_layers;
  return {static_cast<double>(model.token_weight_bytes()),
          2 * (tokens * (layers * p.qkv + (layers - 1) * p.rest) + p.rest + p.output)};
}

Result<std::unique_ptr<EngineSteps>> EngineSteps::over(std::unique_ptr<device::Executor> executor,
                                                       const model::ModelFile& model, std::uint32_t streams) {
  const auto layout = graph::kv_layout(model.config());
  const auto blocks = static_cast<std::uint32_t>(kv_blocks(layout, kDecodePosition + 1));
  if (auto ok = executor->reserve_kv(layout, blocks * streams); !ok)
    return std::unexpected(std::move(ok.error()));
  auto out = std::make_unique<EngineSteps>();
  out->executor_ = std::move(executor);
  std::mt19937 random(1);
  for (std::uint32_t i = 0; i < kPromptTokens; ++i)
    out->tokens_.push_back(static_cast<Token>(random() % model.config().vocab_size));
  for (std::uint32_t s = 0; s < streams; ++s) {
    auto& table = out->tables_.emplace_back();
    for (std::uint32_t b = 0; b < blocks; ++b) table.push_back(s + b * streams);  // nobody's lie together
  }
  return out;
}

Result<double> EngineSteps::step(std::span<const Token> tokens,
                                 std::span<const device::StepSequence> sequences) {
  const double start = seconds();
  const auto step = executor_->submit({tokens, sequences}, {});
  if (!step) return std::unexpected(step.error());
  if (const auto logits = executor_->wait(*step); !logits) return std::unexpected(logits.error());
  return seconds() - start;
}

Result<double> EngineSteps::prefill() {
  const device::StepSequence sequence{0, kPromptTokens, 0, tables_[0], true};
  return step(tokens_, {&sequence, 1});
}

Result<double> EngineSteps::decode(std::uint32_t streams) {
  std::vector<device::StepSequence> sequences;
  for (std::uint32_t s = 0; s < streams; ++s) sequences.push_back({s, 1, kDecodePosition, tables_[s], true});
  return step(std::span(tokens_).first(streams), sequences);
}

Result<double> EngineSteps::host() {
  const device::StepSequence sequence{0, 1, kDecodePosition, tables_[0], true, 1};
  const double start = seconds();
  const auto step = executor_->submit({std::span(tokens_).first(1), {&sequence, 1}}, {});
  const double submitted = seconds();
  if (!step) return std::unexpected(step.error());
  if (const auto done = executor_->wait(*step); !done) return std::unexpected(done.error());
  const double resumed = seconds();
  if (const auto again = executor_->wait(*step); !again) return std::unexpected(again.error());
  return submitted - start + (seconds() - resumed);  // what the device takes is over
}

}  // namespace flyball::bench
