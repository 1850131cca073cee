// Runs an io_context until something is true, for tests; and a sink that writes down what it is told.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "backends/backend.hpp"

namespace flyball::test {

inline bool run_until(boost::asio::io_context& io, const std::function<bool()>& done,
                      std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    io.restart();
    io.run_one_for(std::chrono::milliseconds(10));
  }
  return true;
}

struct RecordingSink final : EventSink {
  bool push(Event event) noexcept override {
    ++pushes;
    if (auto* delta = std::get_if<Delta>(&event)) {
      text += delta->text;
      tokens.insert(tokens.end(), delta->tokens.begin(), delta->tokens.end());
    } else if (auto* d = std::get_if<Done>(&event)) {
      done.push_back(std::move(*d));
    } else {
      errors.push_back(std::get<Error>(std::move(event)));
    }
    if (on_push) on_push();
    return accept;
  }
  bool over() const { return !done.empty() || !errors.empty(); }
  std::string text;
  std::vector<Token> tokens;
  std::vector<Done> done;
  std::vector<Error> errors;
  std::size_t pushes = 0;
  bool accept = true;
  std::function<void()> on_push;
};

inline CompletionRequest request(std::uint32_t tokens = 0) {
  CompletionRequest q;
  q.id = "t";
  q.prompt = TextPrompt{"hello"};
  q.max_tokens = tokens;
  return q;
}

}  // namespace flyball::test
