// What a q8_0 KV cache costs a model: the loss over conversations with either cache, and how far logits move.
//   kv_quality CONVERSATIONS.jsonl [MODEL.gguf [AT_MOST]]
// Lines of {"messages":[{"role","content"},...]}, as packaging/demo_model/corpus.py writes them, in ChatML;
// those with tools are passed over. Every token of a conversation is predicted from those before it. Without
// a file, the embedded demo model. One line of JSON.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/cpu/cpu_device.hpp"
#include "backends/model/embedded_demo.hpp"
#include "backends/text/tokenizer.hpp"
#include "tests/bench/program.hpp"

namespace {

using namespace flyball;
using bench::die, bench::expect;
using nlohmann::json;

constexpr std::uint32_t kStreams = 16, kMostTokens = 1024;

std::string chat_ml(const json& conversation) {
  std::string text;
  for (const json& m : conversation["messages"])
    text += "<|im_start|>" + m["role"].get<std::string>() + "\n" + m["content"].get<std::string>() +
            "<|im_end|>\n";
  return text + "<|endoftext|>";
}

std::unique_ptr<device::Executor> open(const model::ModelFile& model, kernels::DType kv_type) {
  cpu::CpuDeviceOptions options;
  options.max_step_tokens = options.max_logit_rows = kStreams;
  auto executor = expect(cpu::make_cpu_executor(model, options));
  const auto layout = graph::kv_layout(model.config(), kv_type);
  expect(executor->reserve_kv(layout, kStreams * kMostTokens / layout.block_size));
  return executor;
}

struct Totals {
  double f16_loss = 0, q8_0_loss = 0, difference = 0, size = 0;
  std::uint64_t tokens = 0, logits = 0, same_choice = 0;
};

double loss(std::span<const float> logits, Token next) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - most);
  return most + std::log(sum) - logits[static_cast<std::size_t>(next)];
}

void compare(std::span<const float> a, std::span<const float> b, Token next, Totals& t) {
  t.f16_loss += loss(a, next);
  t.q8_0_loss += loss(b, next);
  ++t.tokens;
  if (std::ranges::max_element(a) - a.begin() == std::ranges::max_element(b) - b.begin()) ++t.same_choice;
  for (std::size_t i = 0; i < a.size(); ++i) {
    t.difference += std::abs(double{a[i]} - b[i]);
    t.size += std::abs(double{a[i]});
  }
  t.logits += a.size();
}

// kStreams conversations side by side, a token of each a step.
void measure(device::Executor& f16, device::Executor& q8_0, std::span<const std::vector<Token>> texts,
             std::uint32_t vocab, Totals& totals) {
  std::vector<std::vector<device::BlockId>> tables(texts.size());
  constexpr std::uint32_t kBlocks = kMostTokens / 16;
  for (std::uint32_t s = 0; s < tables.size(); ++s)
    for (std::uint32_t b = 0; b < kBlocks; ++b) tables[s].push_back(s * kBlocks + b);
  for (std::uint32_t at = 0;; ++at) {
    std::vector<Token> tokens, next;
    std::vector<device::StepSequence> sequences;
    for (std::size_t s = 0; s < texts.size(); ++s) {
      if (at + 1 >= texts[s].size()) continue;
      sequences.push_back({static_cast<std::uint32_t>(tokens.size()), 1, at, tables[s], true});
      tokens.push_back(texts[s][at]);
      next.push_back(texts[s][at + 1]);
    }
    if (tokens.empty()) return;
    const device::StepBatch batch{tokens, sequences};
    const auto a = expect(f16.wait(expect(f16.submit(batch, {})))).logits;
    const auto b = expect(q8_0.wait(expect(q8_0.submit(batch, {})))).logits;
    for (std::size_t i = 0; i < next.size(); ++i)
      compare(a.subspan(i * vocab, vocab), b.subspan(i * vocab, vocab), next[i], totals);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) die("usage: kv_quality CONVERSATIONS.jsonl [MODEL.gguf [AT_MOST]]");
  const auto demo = model::embedded_demo_model();
  const auto model = expect(argc > 2 ? model::ModelFile::open(argv[2]) : model::ModelFile::from_bytes(demo));
  const std::size_t at_most = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 400;
  (void)expect(graph::kv_type("q8_0", model->config()));
  const auto tokenizer = expect(text::Tokenizer::load(model->gguf()));
  std::vector<std::vector<Token>> texts;
  std::ifstream in(argv[1]);
  for (std::string line; texts.size() < at_most && std::getline(in, line);) {
    const json conversation = json::parse(line, nullptr, false);
    if (!conversation.is_object()) die(std::string(argv[1]) + ": a line is no JSON object");
    if (conversation.contains("tools")) continue;
    texts.push_back(tokenizer->encode(chat_ml(conversation), {}));
    if (texts.back().size() > kMostTokens) texts.back().resize(kMostTokens);
  }
  if (texts.empty()) die(std::string(argv[1]) + ": no conversations");
  const auto f16 = open(*model, kernels::DType::f16), q8_0 = open(*model, kernels::DType::q8_0);
  Totals t;
  for (std::size_t at = 0; at < texts.size(); at += kStreams)
    measure(*f16, *q8_0, std::span(texts).subspan(at, std::min<std::size_t>(kStreams, texts.size() - at)),
            model->config().vocab_size, t);
  const auto n = static_cast<double>(t.tokens), logits = static_cast<double>(t.logits);
  const nlohmann::ordered_json out = {{"conversations", texts.size()},
                                      {"tokens", t.tokens},
                                      {"f16_loss", t.f16_loss / n},
                                      {"q8_0_loss", t.q8_0_loss / n},
                                      {"loss_change", (t.q8_0_loss - t.f16_loss) / n},
                                      {"mean_logit_difference", t.difference / logits},
                                      {"mean_logit_size", t.size / logits},
                                      {"same_likeliest_token", static_cast<double>(t.same_choice) / n}};
  std::printf("%s\n", out.dump().c_str());
  return 0;
}
