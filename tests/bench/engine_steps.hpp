// Whole steps of one engine, timed: a prompt's chunk, and decode of several streams at once. Driven through
// device::Executor, as the scheduler does it.
#pragma once

#include <memory>
#include <vector>

#include "backends/device/executor.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::bench {

inline constexpr std::uint32_t kPromptTokens = 256;    // of a prefill step
inline constexpr std::uint32_t kDecodePosition = 256;  // where every stream decodes its next token

// What a step costs at least, whoever computes it. Attention is left out: at these lengths it is a
// few percent of the products, and counted as lost.
struct StepWork {
  double weight_bytes = 0;  // read once
  double operations = 0;    // of the matrix products; a multiply-add is two
};
StepWork decode_work(const model::ModelFile& model, std::uint32_t streams);
StepWork prefill_work(const model::ModelFile& model, std::uint32_t tokens);

class EngineSteps {
 public:
  // Reserves the KV cache of `streams`. What the executor's calls give.
  static Result<std::unique_ptr<EngineSteps>> over(std::unique_ptr<device::Executor> executor,
                                                   const model::ModelFile& model, std::uint32_t streams);
  // Seconds from submit() to the logits' arrival.
  Result<double> prefill();
  Result<double> decode(std::uint32_t streams);
  // Of a step of one stream that asks for its likeliest token, seconds of the host's own work: from submit()
  // to its return, and from the device's end to the result. For devices that work by themselves meanwhile.
  Result<double> host();

 private:
  Result<double> step(std::span<const Token> tokens, std::span<const device::StepSequence> sequences);

  std::unique_ptr<device::Executor> executor_;
  std::vector<Token> tokens_;                         // [kPromptTokens]
  std::vector<std::vector<device::BlockId>> tables_;  // of each stream
};

}  // namespace flyball::bench
