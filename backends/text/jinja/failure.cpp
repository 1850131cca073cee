#include "backends/text/jinja/failure.hpp"

namespace flyball::text::jinja {

void fail_template(std::string message, std::uint32_t line) {
  throw Failure{ErrorCode::template_error, std::move(message), line};
}

void fail_budget(std::string message, std::uint32_t line) {
  throw Failure{ErrorCode::template_budget, std::move(message), line};
}

void Budget::exhausted() const {
  fail_budget("the chat template needs more than its budget of " + std::to_string(total_) +
              " evaluation steps");
}

}  // namespace flyball::text::jinja
