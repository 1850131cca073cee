#include "daemon/api/prompt_answer.hpp"

#include <utility>

#include "daemon/api/json_text.hpp"

namespace flyball::api {
namespace {

class CountWriter final : public PromptWriter {
 public:
  explicit CountWriter(std::string member) : member_(std::move(member)) {}

  bool whole(std::span<Choice> choices, const Totals&, std::string& out) override {
    out.push_back('{');
    append_json_string(out, member_);
    out.append(":").append(std::to_string(choices.front().prompt.size())).push_back('}');
    return false;
  }

 private:
  const std::string member_;
};

}  // namespace

void ask_for_prompt(Generate& request, Wanted wanted, std::unique_ptr<AnswerWriter> writer) {
  request.base.wanted = wanted;
  request.base.constraint.reset();
  request.base.max_tokens = 0;
  request.constraint_field.clear();
  request.base.marks_control = false;
  request.stream.reset();
  request.n = 1;
  request.parser = {};
  request.call_constraint = {};
  request.writer = std::move(writer);
}

std::unique_ptr<AnswerWriter> count_writer(std::string member) {
  return std::make_unique<CountWriter>(std::move(member));
}

}  // namespace flyball::api
