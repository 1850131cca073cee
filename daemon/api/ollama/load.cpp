#include "daemon/api/ollama/load.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/api/date.hpp"
#include "daemon/api/fields.hpp"
#include "daemon/api/json_text.hpp"
#include "daemon/api/prompt_answer.hpp"

namespace flyball::api::ollama {
namespace {

void append_loaded(std::string& out, Writer::Shape shape, std::string_view model, std::int64_t at,
                   std::string_view done_reason) {
  out.append(R"({"model":)");
  append_json_string(out, model);
  out.append(R"(,"created_at":")").append(rfc3339(at));
  out.append(shape == Writer::Shape::chat ? R"(","message":{"role":"assistant","content":""})"
                                          : R"(","response":"")");
  out.append(R"(,"done_reason":")").append(done_reason).append(R"(","done":true})");
}

class LoadWriter final : public PromptWriter {
 public:
  explicit LoadWriter(Writer::Shape shape) : shape_(shape) {}

  void begin(const AnswerHead& head) override {
    model_ = head.model;
    created_ = head.created;
  }
  bool whole(std::span<Choice>, const Totals&, std::string& out) override {
    append_loaded(out, shape_, model_, created_, "load");
    return false;
  }

 private:
  const Writer::Shape shape_;
  std::string model_;
  std::int64_t created_ = 0;
};

template <Writer::Shape shape>
http::Response unloaded_answer(const Unloaded& unloaded) {
  std::string body;
  append_loaded(body, shape, unloaded.asked, unloaded.at, "unload");
  return json_response(std::move(body));
}

}  // namespace

std::unique_ptr<AnswerWriter> load_writer(Writer::Shape shape) {
  return std::make_unique<LoadWriter>(shape);
}

bool is_zero(JsonView keep_alive) {
  if (keep_alive.is_integer()) return keep_alive.as_integer() == 0;
  if (keep_alive.is_number()) return keep_alive.as_double() == 0;
  if (!keep_alive.is_string()) return false;
  const std::string_view text = keep_alive.text();
  return text.contains('0') && text.find_first_not_of("0.hmsun\u00b5\u03bc+-") == std::string_view::npos;
}

Result<UnloadModel> unload_of(Generate request, Writer::Shape shape) {
  if (request.model.empty()) return missing("model", request.unknown);
  return UnloadModel{
      .model = std::move(request.model),
      .engine = {},
      .answer = shape == Writer::Shape::chat ? unloaded_answer<Writer::Shape::chat>
                                             : unloaded_answer<Writer::Shape::text>,
      .unknown = std::move(request.unknown),
      .unless_operator = {
          ErrorCode::unsupported_value,
          "'keep_alive' is 0 and there is no prompt, which unloads the model: other apps may use it, so only "
          "the operator may unload it (POST /v1/engines/unload, or this request without a key where "
          "loopback_without_key and operator.loopback both allow it). An engine that is idle ends by itself "
          "(idle_unload in config.yaml).",
          "keep_alive",
          {}}};
}

}  // namespace flyball::api::ollama
