#include "tests/daemon/api/toy/codec.hpp"

#include <array>
#include <atomic>
#include <new>

#include "config/json_reader.hpp"
#include "daemon/api/error_table.hpp"
#include "daemon/api/json_text.hpp"

namespace flyball::testing::toy {
namespace {

using namespace api;

enum RouteId : std::uint8_t {
  kSay,
  kUpload,
  kModels,
  kModel,
  kHealth,
  kReady,
  kMetrics,
  kWhy,
  kReceipt,
};

constexpr std::array kRoutes{
    Route{"POST", "/toy/say", Access::app, BodyType::json, "chat", true, kSay},
    Route{"POST", "/toy/upload", Access::app, BodyType::multipart, "completion", true, kUpload},
    Route{"GET", "/toy/models", Access::app, BodyType::none, "models", false, kModels},
    Route{"GET", "/toy/models/", Access::app, BodyType::none, "models", false, kModel},
    Route{"GET", "/toy/health", Access::open, BodyType::none, kObserve, false, kHealth},
    Route{"GET", "/toy/ready", Access::open_viewer, BodyType::none, kObserve, false, kReady},
    Route{"GET", "/toy/metrics", Access::viewer, BodyType::none, kObserve, false, kMetrics},
    Route{"POST", "/toy/why", Access::app, BodyType::json, "explain", false, kWhy},
    Route{"GET", "/toy/receipts/", Access::app, BodyType::none, "receipt", false, kReceipt},
};

constexpr std::size_t kGatedBytes = 16 * 1024;
std::atomic<Gate*> the_gate = nullptr;

constexpr std::array kKeys{KeyPlace{"x-toy-key", ""}, KeyPlace{"x-toy-token", ""}};

std::string in_quotes(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string used(const Usage& usage) {
  return "[" + std::to_string(usage.prompt_tokens) + "," + std::to_string(usage.completion_tokens) + "]";
}

std::string error_json(const Error& error) {
  return R"({"oops":)" + in_quotes(to_string(error.code)) + R"(,"say":)" + in_quotes(error.message) + "}";
}

// The fake engine's pieces, one of each kind: "t0 " is thought, "t2 " names a call whose arguments are "t3 ".
class PieceParser final : public TextParser {
 public:
  void parse(std::string_view text, bool, AnswerEvents& out) override {
    switch (piece_++) {
      case 0:
        out.push_back(event::Reasoning{text});
        return;
      case 2:
        out.push_back(event::CallBegin{0, "call-0", text});
        return;
      case 3:
        out.push_back(event::CallArguments{0, text});
        return;
      default:
        out.push_back(event::Text{text});
    }
  }
  void end(AnswerEvents& out) override {
    if (piece_ > 2) out.push_back(event::CallEnd{0});
  }
  bool in_reasoning() const noexcept override { return piece_ == 0; }

 private:
  int piece_ = 0;
};

// Each event is a payload; its first member is its name, which SSE says as well.
struct EventWriter {
  std::size_t choice;
  Frames& out;

  void payload(std::string_view name, std::string_view value) const {
    out.begin(name).append("{\"").append(name).append("\":").append(value).append(
        ",\"of\":" + std::to_string(choice) + "}");
    out.end();
  }
  void operator()(const event::Text& e) const { payload("text", in_quotes(e.text)); }
  void operator()(const event::Reasoning& e) const { payload("thought", in_quotes(e.text)); }
  void operator()(const event::CallBegin& e) const {
    payload("call", "[" + std::to_string(e.call) + "," + in_quotes(e.id) + "," + in_quotes(e.name) + "]");
  }
  void operator()(const event::CallArguments& e) const {
    payload("arguments", "[" + std::to_string(e.call) + "," + in_quotes(e.json) + "]");
  }
  void operator()(const event::CallEnd& e) const { payload("called", std::to_string(e.call)); }
  void operator()(const event::PromptTokens& e) const {
    payload("prompt_tokens", std::to_string(e.tokens.size()));
  }
  void operator()(const event::Logprobs& e) const { payload("logprobs", std::to_string(e.tokens.size())); }
  void operator()(const event::Used& e) const { payload("used", used(e.usage)); }
  void operator()(const event::Ended& e) const { payload("used_in_all", used(e.totals.usage)); }
  void operator()(const event::Finish& e) const { payload("finish", in_quotes(to_string(e.reason))); }
  void operator()(const event::Failed& e) const { payload("failed", error_json(e.error)); }
};

class Writer final : public AnswerWriter {
 public:
  void begin(const AnswerHead& head) override { model_ = head.model; }
  void write(std::size_t choice, std::span<const AnswerEvent> events, Frames& out) override {
    for (const AnswerEvent& event : events) std::visit(EventWriter{choice, out}, event);
  }
  bool whole(std::span<Choice> choices, const Totals& totals, std::string& out) override {
    out += R"({"model":)" + in_quotes(model_) + R"(,"said":[)";
    for (const Choice& choice : choices) {
      if (&choice != choices.data()) out += ",";
      out += R"({"text":)" + in_quotes(choice.text) + R"(,"thought":)" + in_quotes(choice.reasoning) +
             R"(,"calls":[)";
      for (const Choice::Call& call : choice.calls)
        out += "[" + in_quotes(call.id) + "," + in_quotes(call.name) + "," + in_quotes(call.arguments) + "]";
      out += R"(],"logprobs":)" + std::to_string(choice.logprobs.size()) + R"(,"finish":)" +
             in_quotes(to_string(choice.reason)) + "}";
    }
    out += R"(],"used":)" + used(totals.usage) + "}";
    return false;
  }

 private:
  std::string model_;
};

http::Response models_answer(std::span<const ListedModel> models, std::int64_t) {
  std::string out;
  for (const ListedModel& model : models) out += (out.empty() ? "[" : ",") + in_quotes(model.entry->id);
  return json_response(out + "]");
}

http::Response model_answer(const ListedModel& model, std::int64_t) {
  return json_response(in_quotes(model.entry->id));
}

Result<Generate> parse_say(const http::Request& request) {
  const auto body = read_packed(request.body);
  if (!body) return std::unexpected(body.error());
  const JsonView say = body->view().is_object() ? body->view().member("say") : JsonView();
  if (!say.is_string()) return fail(ErrorCode::missing_field, "'say' is required.", "say");
  if (Gate* gate = the_gate; gate != nullptr && request.body.size() > kGatedBytes)
    gate->pass(say.text().substr(0, 2), request.body);
  if (say.text().starts_with("too much")) throw std::bad_alloc();
  Generate out;
  if (const JsonView model = body->view().member("model")) out.model = model.text();
  JsonPacker messages;
  messages.open(JsonKind::array);
  messages.open(JsonKind::object);
  messages.key("role");
  messages.string("user");
  messages.key("content");
  messages.string(say.text());
  messages.close(0);
  messages.close(static_cast<std::uint32_t>(say.text().size()));
  out.prompts.emplace_back(ChatPrompt{messages.take(), {}, {}, true});
  out.prompt_bytes = say.text().size();
  if (const JsonView n = body->view().member("n")) out.n = static_cast<std::uint32_t>(n.as_integer());
  if (body->view().member("logprobs")) out.base.sampling.top_logprobs = 0;
  if (request.query() == "as=lines") out.stream = StreamFraming::ndjson;
  if (request.query() == "as=events") out.stream = StreamFraming::sse;
  out.parser = [](const AnswerForm&, std::string_view) { return std::make_unique<PieceParser>(); };
  return out;
}

Result<Generate> parse_upload(const http::Request& request) {
  const auto parts = read_multipart(request.field("Content-Type"), request.body);
  if (!parts) return std::unexpected(parts.error());
  Generate out;
  out.kind = Generate::Kind::completion;
  for (const Part& part : *parts)
    if (part.name == "text") out.prompts.emplace_back(TextPrompt{std::string(part.body)});
  if (out.prompts.size() != 1) return fail(ErrorCode::missing_field, "One part must be 'text'.", "text");
  out.prompt_bytes = std::get<TextPrompt>(out.prompts[0]).text.size();
  return out;
}

Result<Operation> parse(const Route& route, const http::Request& request) {
  switch (static_cast<RouteId>(route.id)) {
    case kSay:
    case kUpload: {
      auto generate = route.id == kSay ? parse_say(request) : parse_upload(request);
      if (!generate) return pass(generate);
      generate->writer = std::make_unique<Writer>();
      return std::move(*generate);
    }
    case kModels:
      return ListModels{models_answer};
    case kModel: {
      auto name = path_id(route, request.path());
      if (!name) return flyball::pass(name);
      return ShowModel{.name = std::move(*name), .answer = model_answer};
    }
    case kHealth:
      return TellHealth{};
    case kReady:
      return TellReadiness{};
    case kMetrics:
      return TellMetrics{};
    case kReceipt: {
      auto id = path_id(route, request.path());
      if (!id) return flyball::pass(id);
      return FindReceipt{std::move(*id)};
    }
    case kWhy:
      break;
  }
  Explain out;
  out.traits.operation = "chat";
  return out;
}

// Statuses of its own: whatever is the client's fault is 422.
http::Response error(const Error& error, std::string_view) {
  http::Response out = json_response(error_json(error));
  out.status = error_row(error.code).fault == Fault::request ? 422 : 503;
  return out;
}

}  // namespace

void Gate::pass(std::string_view mark, const std::string& body) {
  std::unique_lock lock(mutex_);
  marks_.emplace_back(mark);
  rooms_.push_back(body.capacity());
  const std::size_t number = marks_.size();
  changed_.notify_all();
  changed_.wait(lock, [&] { return number <= let_in_; });
}
void Gate::let_in(std::size_t bodies) {
  const std::lock_guard lock(mutex_);
  let_in_ = bodies;
  changed_.notify_all();
}
void Gate::await_entered(std::size_t bodies) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return marks_.size() >= bodies; });
}
std::vector<std::string> Gate::marks() const {
  const std::lock_guard lock(mutex_);
  return marks_;
}
std::vector<std::size_t> Gate::rooms() const {
  const std::lock_guard lock(mutex_);
  return rooms_;
}
void set_gate(Gate* gate) noexcept {
  the_gate = gate;
}

constinit const Codec kCodec{"toy", kRoutes, kKeys, parse, error};

}  // namespace flyball::testing::toy
