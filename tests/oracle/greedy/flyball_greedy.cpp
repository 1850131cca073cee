// Greedy continuations of token prompts by the in-process engine, for comparison with another engine's.
//   flyball_greedy MODEL N_TOKENS THREADS < prompts > continuations
// MODEL "" is the embedded demo model. All prompts run at once, as a server runs them.
// A line in: a JSON array of token ids. A line out: {"tokens":[...],"logprobs":[...],"seconds":[...]} where
// seconds are the logprobs of each step's second likeliest token.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/local/local_backend.hpp"

namespace {

using namespace flyball;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "flyball_greedy: %s\n", what.c_str());
  std::exit(1);
}

class Collector final : public EventSink {
 public:
  bool push(Event event) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (const auto* delta = std::get_if<Delta>(&event)) {
      tokens_.insert(tokens_.end(), delta->tokens.begin(), delta->tokens.end());
      for (const auto& logprob : delta->logprobs) {
        logprobs_.push_back(logprob.logprob);
        seconds_.push_back(logprob.top.size() > 1 ? logprob.top[1].second : 0.0F);
      }
      return true;
    }
    if (const auto* error = std::get_if<Error>(&event)) error_ = error->message;
    done_ = true;
    ended_.notify_one();
    return true;
  }
  std::string line() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return done_; });
    if (!error_.empty()) die(error_);
    return nlohmann::json{{"tokens", tokens_}, {"logprobs", logprobs_}, {"seconds", seconds_}}.dump();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Token> tokens_;
  std::vector<float> logprobs_, seconds_;
  std::string error_;
  bool done_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("usage: flyball_greedy MODEL N_TOKENS THREADS < prompts");
  local::LocalBackendOptions options;
  options.model_id = "oracle";
  options.path = argv[1];
  options.threads = static_cast<std::uint32_t>(std::atoi(argv[3]));
  options.context = 512;
  auto backend = local::make_local_backend(options);
  if (!backend) die(backend.error().message);

  struct Running {
    std::shared_ptr<Collector> sink;
    Ticket ticket;
  };
  std::vector<Running> running;
  for (std::string line; std::getline(std::cin, line);) {
    CompletionRequest request;
    request.id = "prompt-" + std::to_string(running.size());
    request.prompt = TokenPrompt{nlohmann::json::parse(line).get<std::vector<Token>>()};
    request.max_tokens = static_cast<std::uint32_t>(std::atoi(argv[2]));
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    request.sampling.top_logprobs = 2;
    auto sink = std::make_shared<Collector>();
    auto ticket = (*backend)->start(std::move(request), sink);
    if (!ticket) die(ticket.error().message);
    running.push_back({std::move(sink), std::move(*ticket)});
  }
  for (auto& one : running) std::printf("%s\n", one.sink->line().c_str());
  return 0;
}
