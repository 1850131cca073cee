// The gain of forced tokens: records of ten long keys from a model of random weights with a real vocabulary,
// with forced tokens and with every token drawn (a bias of zero asks for that), by turns on one engine. JSON
// on one line without spaces, and with the whitespace that models write. --help lists the options.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/engine/engine_backend.hpp"
#include "backends/local/local_executor.hpp"
#include "backends/model/mapped_file.hpp"
#include "backends/model/synthetic.hpp"
#include "config/json_reader.hpp"
#include "tests/bench/client.hpp"

namespace {

using namespace flyball;
using bench::Clock, bench::expect;

constexpr std::string_view kSchema = R"({"type":"object","additionalProperties":false,"properties":{
  "customer_identifier":{"type":"integer","minimum":0,"maximum":999999},
  "preferred_contact_method":{"enum":["email","telephone","letter"]},
  "billing_address_country":{"type":"string","maxLength":12},
  "is_returning_customer":{"type":"boolean"},
  "outstanding_invoice_count":{"type":"integer","minimum":0,"maximum":99},
  "subscription_plan_level":{"enum":["enterprise","professional","community"]},
  "last_successful_payment":{"type":"string","pattern":"^20[0-2][0-9]-0[1-9]-[0-2][0-9]$"},
  "has_accepted_conditions":{"type":"boolean"},
  "assigned_account_manager":{"type":"string","maxLength":12},
  "estimated_yearly_revenue":{"type":"integer","minimum":0,"maximum":999999}},
  "required":["customer_identifier","preferred_contact_method","billing_address_country","is_returning_customer",
    "outstanding_invoice_count","subscription_plan_level","last_successful_payment","has_accepted_conditions",
    "assigned_account_manager","estimated_yearly_revenue"]})";

struct Options {
  std::string shape = "dim=1024,layers=12,heads=16,kv_heads=4,ffn=3072,vocab=152064,context=1024";
  std::filesystem::path vocabulary =
      std::filesystem::path(FLYBALL_SOURCE_DIR) / "../shared/data/vocab/ggml-vocab-qwen2.gguf";
  local::LocalBackendOptions engine;
  std::uint32_t answers = 6;
};

// The file's own vocabulary has few merges; the other one's ids fit into its embedding table.
std::unique_ptr<Backend> make_engine(const Options& o) {
  const auto model = expect(local::open_local_model(o.engine));
  auto local = expect(local::open_local_executor(o.engine, model));
  const auto vocabulary = expect(model::MappedFile::open(o.vocabulary));
  auto tokenizer = expect(text::Tokenizer::load(expect(model::Gguf::parse(vocabulary.bytes()))));
  const std::uint32_t size = tokenizer->vocab_size();
  if (size > model->config().vocab_size) bench::die("the model's vocabulary is smaller than the file's");
  engine::EngineParts parts;
  parts.model = model;
  parts.executor = std::move(local.executor);
  parts.limits.max_sequences = o.engine.max_sequences;
  parts.limits.step_tokens = local.step_tokens;
  parts.limits.kv_blocks = local.kv_blocks;
  parts.limits.block_size = local.layout.block_size;
  parts.logits_per_row = model->config().vocab_size;
  parts.text = engine::make_text_model(
      std::move(tokenizer), text::ChatTemplate::parse(text::default_chat_template()), size, local.context);
  return engine::make_engine_backend(std::move(parts));
}

// Sums over all answers that were made in one way.
struct Arm {
  double seconds = 0;  // from the first token of each to its last
  std::uint64_t tokens = 0, steps = 0, answers = 0;
};

class Counter final : public EventSink {
 public:
  bool push(Event event) noexcept override {
    if (std::holds_alternative<Delta>(event)) return true;
    const std::scoped_lock lock(mutex_);
    end_ = std::move(event);
    ended_.notify_one();
    return true;
  }
  Done wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return end_.has_value(); });
    if (const auto* error = std::get_if<Error>(&*end_)) bench::die(error->message);
    return std::get<Done>(*end_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Event> end_;
};

void measure(Backend& backend, bool compact, bool forced, std::uint64_t seed, Arm* arm) {
  CompletionRequest request;
  request.prompt = TextPrompt{"The record of the customer as JSON: "};
  request.max_tokens = 900;
  request.constraint =
      Constraint{Constraint::Kind::json_schema, expect(read_packed(kSchema, {}, "schema")), compact};
  request.sampling.seed = seed;
  if (!forced) request.sampling.logit_bias = {{0, 0.0F}};
  const std::uint64_t before = backend.load().steps;
  const auto sink = std::make_shared<Counter>();
  const Ticket ticket = expect(backend.start(std::move(request), sink));
  const Done done = sink->wait();
  if (done.reason != FinishReason::stop) bench::die("an answer did not come to its end");
  if (arm == nullptr) return;
  arm->seconds += static_cast<double>(done.timings.decode_us) / 1e6;
  arm->tokens += done.usage.completion_tokens;
  arm->steps += backend.load().steps - before;
  ++arm->answers;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  o.engine.model_id = "bench";
  o.engine.max_sequences = 1;
  CLI::App app{"Constrained answers with forced tokens, and with every token drawn."};
  app.add_option("--shape", o.shape, "of the model, as flyball make-model has it")->capture_default_str();
  app.add_option("--vocabulary", o.vocabulary, "a GGUF file whose tokenizer is taken")->capture_default_str();
  app.add_option("--backend", o.engine.backend, "engine kind")->capture_default_str();
  app.add_option("--threads", o.engine.threads, "of the CPU engine; 0: one per core")->capture_default_str();
  app.add_option("--answers", o.answers, "of each way")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  o.engine.path = std::filesystem::temp_directory_path() /
                  ("flyball_forced_tokens_" + std::to_string(getpid()) + ".gguf");
  auto shape = expect(model::parse_synthetic_shape(o.shape));
  shape.type = kernels::DType::q8_0;
  expect(model::write_synthetic_file(shape, o.engine.path, 1));
  const auto backend = make_engine(o);
  std::filesystem::remove(o.engine.path);  // it stays mapped

  std::printf("%-16s %-8s %10s %10s %10s %10s\n", "JSON", "tokens", "tokens", "steps", "ms", "tokens/s");
  for (const bool compact : {true, false}) {
    Arm drawn, forced;
    for (const bool way : {true, false}) measure(*backend, compact, way, 0, nullptr);
    for (std::uint64_t seed = 1; seed <= o.answers; ++seed) {
      for (const bool first : {true, false}) {
        const bool way = first == (seed % 2 == 0);
        measure(*backend, compact, way, seed, way ? &forced : &drawn);
      }
    }
    for (const auto& [name, arm] : {std::pair("drawn", &drawn), {"forced", &forced}}) {
      const auto n = static_cast<double>(arm->answers);
      std::printf("%-16s %-8s %10.1f %10.1f %10.1f %10.1f\n", compact ? "no whitespace" : "whitespace", name,
                  static_cast<double>(arm->tokens) / n, static_cast<double>(arm->steps) / n,
                  1e3 * arm->seconds / n, static_cast<double>(arm->tokens) / arm->seconds);
    }
  }
  return 0;
}
