// `flyball run`: chat with a model file in this process. Text on stdout, everything else on stderr.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include "backends/model/model_config.hpp"
#include "config/app_models.hpp"
#include "config/json_reader.hpp"
#include "daemon/cli/commands.hpp"
#include "daemon/cli/exit_codes.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/number_option.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::cli {
namespace {

using nlohmann::json;

constexpr int kInterrupted = 130;  // as shells write an end by SIGINT

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) {
  interrupted = 1;
}

struct RunOptions {
  local::LocalBackendOptions engine;
  std::string path, system;
  std::vector<std::string> words, stop;
  SamplingParams sampling;
  std::uint32_t max_tokens = 0;
  std::uint64_t seed = 0;
  bool seed_given = false, raw = false, json = false, quiet = false;
};

struct Answer {
  std::string text;
  Done done;
};

double per_second(double count, std::uint64_t us) {
  return us == 0 ? 0.0 : count * 1e6 / static_cast<double>(us);
}
// The first token belongs to the prefill.
double decode_rate(const Done& d) {
  return d.usage.completion_tokens < 2 ? 0.0
                                       : per_second(d.usage.completion_tokens - 1.0, d.timings.decode_us);
}
double prefill_rate(const Done& d) {
  return per_second(static_cast<double>(d.usage.prompt_tokens) - d.usage.cached_tokens, d.timings.prefill_us);
}

// One request, streamed to stdout unless the answer is wanted as JSON.
Result<Answer> ask(Backend& backend, const RunOptions& options, Result<Prompt> prompt) {
  if (!prompt) return pass(prompt);
  CompletionRequest request;
  request.id = "run";
  request.prompt = std::move(*prompt);
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  request.stop = options.stop;
  auto queue = std::make_shared<EventQueue>();
  auto ticket = backend.start(std::move(request), queue);
  if (!ticket) return pass(ticket);
  Answer answer;
  while (true) {
    auto event = queue->next(*ticket, std::chrono::milliseconds(50));
    if (interrupted != 0) return fail(ErrorCode::cancelled, "Interrupted.");
    if (!event) continue;
    if (auto* delta = std::get_if<Delta>(&*event)) {
      answer.text += delta->text;
      if (!options.json &&
          (std::fwrite(delta->text.data(), 1, delta->text.size(), stdout) != delta->text.size() ||
           std::fflush(stdout) != 0)) {
        return fail(ErrorCode::io_error,
                    "cannot write to standard output: " + std::generic_category().message(errno));
      }
    } else if (auto* done = std::get_if<Done>(&*event)) {
      answer.done = std::move(*done);
      return answer;
    } else {
      return std::unexpected(std::get<Error>(std::move(*event)));
    }
  }
}

json answer_json(const BackendInfo& info, const Answer& a) {
  return {{"model", info.model_name},
          {"backend", info.backend},
          {"text", a.text},
          {"finish_reason", to_string(a.done.reason)},
          {"usage",
           {{"prompt_tokens", a.done.usage.prompt_tokens},
            {"completion_tokens", a.done.usage.completion_tokens}}},
          {"ttft_ms", static_cast<double>(a.done.timings.queue_us + a.done.timings.prefill_us) / 1000.0},
          {"prefill_tokens_per_second", prefill_rate(a.done)},
          {"decode_tokens_per_second", decode_rate(a.done)}};
}

void print_figures(const Answer& a) {
  std::fprintf(
      stderr,
      "%u prompt tokens, first token after %.1f ms (%.0f tok/s); %u tokens at %.1f tok/s; ended by %s\n",
      a.done.usage.prompt_tokens,
      static_cast<double>(a.done.timings.queue_us + a.done.timings.prefill_us) / 1000.0, prefill_rate(a.done),
      a.done.usage.completion_tokens, decode_rate(a.done), to_string(a.done.reason));
}

Result<Prompt> make_prompt(const RunOptions& options, const json& history, const std::string& text) {
  if (options.raw) return TextPrompt{text};
  // Typed bytes that are not UTF-8 become U+FFFD.
  auto messages = read_packed(history.dump(-1, ' ', false, json::error_handler_t::replace), {}, "The chat");
  if (!messages) return pass(messages);
  return ChatPrompt{std::move(*messages), {}, {}, true};
}

json first_messages(const RunOptions& options) {
  json history = json::array();
  if (!options.system.empty()) history.push_back({{"role", "system"}, {"content", options.system}});
  return history;
}

int run_once(Backend& backend, const RunOptions& options, const std::string& text) {
  json history = first_messages(options);
  history.push_back({{"role", "user"}, {"content", text}});
  auto answer = ask(backend, options, make_prompt(options, history, text));
  if (!answer) {
    if (answer.error().code == ErrorCode::cancelled) return kInterrupted;
    return report(answer.error());
  }
  if (options.json) {
    const std::string line =
        answer_json(backend.info(), *answer).dump(2, ' ', false, json::error_handler_t::replace);
    return std::printf("%s\n", line.c_str()) < 0 ? kIo : kOk;
  }
  std::printf("\n");
  std::fflush(stdout);  // before the figures where both go to one file
  if (!options.quiet) print_figures(*answer);
  return kOk;
}

int run_chat(Backend& backend, const RunOptions& options) {
  std::fprintf(
      stderr,
      "Type a message. /reset forgets the conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer.\n");
  json history = first_messages(options);
  std::string line;
  while (true) {
    std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line) || line == "/exit") break;
    if (line.empty()) continue;
    if (line == "/reset") {
      history = first_messages(options);
      continue;
    }
    history.push_back({{"role", "user"}, {"content", line}});
    interrupted = 0;
    auto answer = ask(backend, options, make_prompt(options, history, line));
    std::printf("\n");
    if (!answer) {
      history.erase(history.size() - 1);  // as if it had not been asked
      if (answer.error().code == ErrorCode::io_error) return report(answer.error());
      std::fprintf(stderr, "%s\n", describe(answer.error()).c_str());
      continue;
    }
    history.push_back({{"role", "assistant"}, {"content", answer->text}});
    if (!options.quiet) print_figures(*answer);
  }
  std::fprintf(stderr, "\n");
  return kOk;
}

// The path of the model that the configuration `serve` would take calls by this name, or the name itself. A
// name with a slash or the end of a GGUF file is the file's where there is one.
std::string model_path(const std::string& name) {
  std::error_code ignored;
  const bool looks_like_a_file = name.find('/') != std::string::npos || name.ends_with(".gguf");
  if (name.empty() || (looks_like_a_file && std::filesystem::exists(name, ignored))) return name;
  const auto config = settings::config_at(settings::find_config());
  if (!config) return name;  // `check` says why
  const config::ModelEntry* entry = config::named_model(config->models, name).entry;
  return entry == nullptr ? name : entry->path.string();
}

int run(RunOptions& options) {
  std::string text;
  for (const std::string& word : options.words) text += (text.empty() ? "" : " ") + word;
  const bool chat = options.words.empty() && stdin_is_terminal();
  if (options.words.empty() && !chat) {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    while (!options.raw && !text.empty() && text.back() == '\n') text.pop_back();
  }
  if (!chat && text.empty()) {
    std::fprintf(stderr, "flyball: there is no prompt: give it as an argument or on standard input\n");
    return kUsage;
  }
  if (chat && options.json) {
    std::fprintf(stderr, "flyball: --json needs a prompt, as an argument or on standard input\n");
    return kUsage;
  }
  options.sampling.seed = options.seed_given ? options.seed : std::random_device{}();
  if (auto checked = check(options.sampling); !checked) return report(checked.error()), kUsage;
  options.engine.model_id = options.path.empty() ? "demo" : options.path;
  options.engine.path = model_path(options.path);
  options.engine.max_sequences = 1;
  options.engine.cache_dir = settings::default_cache_dir();
  settle_threads(options.engine);
  auto backend = load_with_progress(options.engine, options.quiet || options.json);
  if (!backend) return report(backend.error());
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // no SA_RESTART: Ctrl-C also ends a wait for a line
  sigaction(SIGINT, &action, nullptr);
  return chat ? run_chat(**backend, options) : run_once(**backend, options, text);
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  options->sampling.temperature = 0.0F;
  CLI::App* c =
      app.add_subcommand("run", "Chat with a model in this process, with progress and tokens per second");
  c->add_option("prompt", options->words,
                "The message; absent: standard input, or a conversation on a terminal");
  c->add_option("-m,--model", options->path, "GGUF file or MLX directory; absent: the embedded demo model");
  CLI::Option* system = c->add_option("--system", options->system, "System message");
  c->add_flag("--raw", options->raw, "Continue the text as it is, without the model's chat template")
      ->excludes(system);
  c->add_option("-n,--max-tokens", options->max_tokens, "0: as many as the context leaves")
      ->check(whole_number(0, UINT32_MAX))
      ->capture_default_str();
  c->add_option("--stop", options->stop, "Text that ends the answer; may be repeated")
      ->allow_extra_args(false);  // what comes behind it is the prompt
  c->add_option("--temperature", options->sampling.temperature, "0: always the likeliest token")
      ->check(number(0, 2))
      ->capture_default_str();
  c->add_option("--top-k", options->sampling.top_k, "0: off")
      ->check(whole_number(0, INT32_MAX))
      ->capture_default_str();
  c->add_option("--top-p", options->sampling.top_p, "1: off")
      ->check(number(0, 1, true))
      ->capture_default_str();
  c->add_option("--min-p", options->sampling.min_p, "0: off")->check(number(0, 1))->capture_default_str();
  c->add_option("--repetition-penalty", options->sampling.repetition_penalty, "1: off")
      ->check(number(0, 2, true))
      ->capture_default_str();
  CLI::Option* seed = c->add_option("--seed", options->seed, "Same seed, same answer; absent: drawn")
                          ->check(whole_number(0, UINT64_MAX));
  add_backend_option(*c, options->engine);
  add_device_option(*c, options->engine);
  add_threads_option(*c, options->engine);
  c->add_option("--context", options->engine.context, "Tokens; 0: the model's own, at most 4096")
      ->check(whole_number(0, model::kMaxContext))
      ->capture_default_str();
  add_kv_option(*c, options->engine);
  c->add_flag("--json", options->json, "One JSON object with the answer and the figures");
  c->add_flag("-q,--quiet", options->quiet, "The answer alone");
  c->footer(
      "Examples:\n"
      "  flyball run \"Which engine should I use on a Mac?\"\n"
      "  flyball run --model llama.Q4_K.gguf --temperature 0.7 < question.txt\n"
      "  flyball run --json -n 64 Tell me a story | jq .decode_tokens_per_second");
  c->callback([options, seed, &exit_code] {
    options->seed_given = seed->count() > 0;
    exit_code = run(*options);
  });
}

}  // namespace flyball::cli
