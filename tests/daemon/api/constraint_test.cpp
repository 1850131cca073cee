// Constraints on their way through the daemon: compiled before an engine is asked, on a thread where apps
// take turns, remembered, and kept in receipts. Some tests compile by a function that waits at a gate.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "backends/constrain/constraint.hpp"
#include "config/json_reader.hpp"
#include "daemon/api/native/codec.hpp"
#include "daemon/api/openai/codec.hpp"
#include "tests/daemon/api/inference.hpp"
#include "tests/daemon/api/toy/codec.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

std::string chat_with(const std::string& members) {
  return R"({"messages":[{"role":"user","content":"Hi"}],)" + members + "}";
}

struct Constrained : InferenceTest {
  json receipt_of(const Answer& answer) {
    Wire wire(rig);
    wire.send(get("/v1/route/receipts/" + answer.field("x-request-id")));
    return json::parse(wire.answer().body);
  }
};

TEST_F(Constrained, TheEngineGetsTheConstraintAndTheReceiptHasIt) {
  const Answer answer = ask(chat_with(R"("n":2,"guided_choice":["yes","no"])"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  ASSERT_EQ(rig.cpu().started.size(), 2U);
  for (const CompletionRequest& one : rig.cpu().started) {
    ASSERT_TRUE(one.constraint);
    EXPECT_EQ(one.constraint->kind, Constraint::Kind::choice);
    EXPECT_EQ(to_nlohmann(one.constraint->source.view()), json({"yes", "no"}));
  }
  const json constraint = receipt_of(answer)["constraint"];
  EXPECT_EQ(constraint["kind"], "choice");
  EXPECT_EQ(constraint["digest"], constrain::digest_of(*rig.cpu().started.front().constraint));
  EXPECT_TRUE(constraint["compile_us"].is_number_unsigned());
  EXPECT_EQ(constraint["engine_compile_us"], 2 * kFakeCompileUs) << "both answers";
  EXPECT_EQ(constraint["mask_us"], 2 * kFakeMaskUs);
}

TEST_F(Constrained, AnAnswerWithoutAConstraintHasNoneInItsReceipt) {
  const Answer answer = ask(kHello);
  ASSERT_EQ(answer.status, 200);
  EXPECT_FALSE(rig.cpu().started.front().constraint);
  EXPECT_FALSE(receipt_of(answer).contains("constraint"));
}

TEST_F(Constrained, AResumedAnswerHasItsConstraint) {
  die_once(rig.cpu(), 2);
  ASSERT_EQ(ask(chat_with(R"("grammar":"root ::= [a-z]*")")).status, 200);
  ASSERT_EQ(rig.cpu().started.size(), 2U);
  EXPECT_EQ(rig.cpu().started[1].resume_tokens.size(), 2U);
  EXPECT_TRUE(rig.cpu().started[1].constraint);
}

TEST_F(Constrained, OneThatDoesNotCompileAsksNoEngine) {
  struct Case {
    const char *sent, *code, *param, *says;
  };
  for (const Case& c :
       {Case{R"("response_format":{"type":"json_schema","json_schema":{"schema":)"
             R"({"properties":{"a":{"not":{"unevaluatedProperties":false}}}}}})",
             "unsupported_feature", "response_format.json_schema.schema",
             "'response_format.json_schema.schema' at /properties/a/not/unevaluatedProperties: "},
        Case{R"("guided_json":{"type":"text"})", "invalid_value", "guided_json", "'guided_json' at /type: "},
        Case{R"("guided_regex":"a(")", "invalid_value", "guided_regex", "'guided_regex': The pattern "},
        Case{R"("guided_choice":[])", "invalid_value", "guided_choice",
             "'guided_choice': the list of choices is empty."},
        Case{R"("response_format":{"type":"structural_tag","triggers":["<f"],)"
             R"("structures":[{"begin":"<g","schema":{},"end":""}]})",
             "invalid_value", "response_format", "'response_format' at /structures/0/begin: "},
        Case{R"("structured_outputs":{"structural_tag":"{\"format\":{\"type\":\"token\"}}"})",
             "unsupported_feature", "structured_outputs.structural_tag",
             "'structured_outputs.structural_tag' at /format/type: "},
        Case{R"("guided_grammar":"start: \"a\" | start\n")", "invalid_value", "guided_grammar",
             "'guided_grammar' at line 1, column "}}) {
    const Answer answer = ask(chat_with(c.sent));
    EXPECT_EQ(answer.status, 400) << c.sent;
    const json error = json::parse(answer.body)["error"];
    EXPECT_EQ(error["code"], c.code) << error;
    EXPECT_EQ(error["param"], c.param) << error;
    EXPECT_NE(error["message"].get<std::string>().find(c.says), std::string::npos) << error;
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(answer.field("x-should-retry"), "false");
    // A completion gets the same error, from the remembered verdict.
    const std::string body = R"({"prompt":"Hi",)" + std::string(c.sent) + "}";
    EXPECT_EQ(json::parse(ask(body, "/v1/completions").body)["error"], error);
  }
  EXPECT_TRUE(rig.cpu().started.empty() && rig.fleet.acquired.empty());
  EXPECT_EQ(rig.service.in_flight(), 0U);
}

TEST_F(Constrained, OneThatDoesNotCompileGivesItsPlaceBack) {
  auto bounded = make_settings();
  bounded->apps[0].limits.in_flight = 1;
  bounded->apps[0].limits.tokens_per_day = 1000;
  rig.service.reload(bounded);
  const Answer before = ask(chat_with(R"("guided_regex":"a(","max_tokens":10)"));
  EXPECT_EQ(before.status, 400);
  const Answer again = ask(chat_with(R"("guided_regex":"a(","max_tokens":10)"));
  EXPECT_EQ(again.status, 400);
  EXPECT_EQ(again.field("x-ratelimit-remaining-tokens"), "1000");
  EXPECT_EQ(ask(kHello).status, 200);
}

TEST_F(Constrained, TheErrorOfALongNameIsShort) {
  const std::string name(100'000, 'n');
  const Answer answer = ask(chat_with(R"("guided_json":{"properties":{")" + name + R"(":{"type":"text"}}})"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_LT(answer.body.size(), 2000U);
}

// ---- with a function of the test's own --------------------------------------------------------------------

std::atomic<int> compiled = 0;
std::optional<Error> count_compiles(const Constraint&) {
  ++compiled;
  return std::nullopt;
}
std::optional<Error> count_and_refuse(const Constraint&) {
  ++compiled;
  return Error{ErrorCode::unsupported_feature, "The keyword is not served.", {}, "/a"};
}

Constraint choice_of(const std::string& text) {
  return {Constraint::Kind::choice, *read_packed("[\"" + text + "\"]")};
}

TEST(ConstraintVerdicts, AppsRememberTheirOwn) {
  for (const auto compile : {&count_compiles, &count_and_refuse}) {
    compiled = 0;
    api::ConstraintVerdicts verdicts(compile);
    const auto first = verdicts.judge("alice", choice_of("a"));
    EXPECT_EQ(first.digest, constrain::digest_of(choice_of("a")));
    const auto second = verdicts.judge("alice", choice_of("a"));
    EXPECT_EQ(compiled, 1);
    EXPECT_EQ(second.digest, first.digest);
    EXPECT_EQ(second.refusal.has_value(), compile == &count_and_refuse);
    EXPECT_EQ(second.refusal ? second.refusal->where : "", first.refusal ? first.refusal->where : "");
    verdicts.judge("bob", choice_of("a"));
    EXPECT_EQ(compiled, 2) << "its time would tell bob what alice sends";
    verdicts.judge("alice", choice_of("b"));
    EXPECT_EQ(compiled, 3);
  }
}

TEST(ConstraintVerdicts, TheOneUsedLongestAgoIsForgotten) {
  compiled = 0;
  api::ConstraintVerdicts verdicts(&count_compiles);
  constexpr int kKept = static_cast<int>(api::ConstraintVerdicts::kKept);
  for (int i = 0; i < kKept; ++i) verdicts.judge("alice", choice_of(std::to_string(i)));
  verdicts.judge("alice", choice_of("0"));  // is used again
  EXPECT_EQ(compiled, kKept);
  verdicts.judge("alice", choice_of("new"));
  verdicts.judge("alice", choice_of("0"));
  EXPECT_EQ(compiled, kKept + 1);
  verdicts.judge("alice", choice_of("1"));
  EXPECT_EQ(compiled, kKept + 2);
}

TEST(ConstraintVerdicts, AnAppThatFloodsEvictsNoOtherAppsVerdicts) {
  compiled = 0;
  api::ConstraintVerdicts verdicts(&count_compiles);
  verdicts.judge("bob", choice_of("b"));
  constexpr int kFlood = 3 * static_cast<int>(api::ConstraintVerdicts::kKept);
  for (int i = 0; i < kFlood; ++i) verdicts.judge("alice", choice_of(std::to_string(i)));
  EXPECT_EQ(compiled, kFlood + 1);
  verdicts.judge("bob", choice_of("b"));
  EXPECT_EQ(compiled, kFlood + 1);
}

// The message about a pattern has its place already; that about a schema may quote a text that is its place.
TEST(ConstraintVerdicts, ARefusalNamesItsPlaceOnce) {
  const auto text = [](const char* message, const char* where) {
    return api::refusal_at("f", {ErrorCode::invalid_value, message, {}, where}).message;
  };
  EXPECT_EQ(text("The pattern ends early at byte 2", "byte 2"), "'f': The pattern ends early at byte 2.");
  EXPECT_EQ(text("The pattern '/a' is wrong", "/a"), "'f' at /a: The pattern '/a' is wrong.");
  EXPECT_EQ(text("It is empty.", ""), "'f': It is empty.");
}

toy::Gate* compile_gate = nullptr;
// Waits at the gate, whose mark is the first choice.
std::optional<Error> wait_at_gate(const Constraint& constraint) {
  compile_gate->pass((*constraint.source.view().members().begin()).value.text(), {});
  return std::nullopt;
}

constexpr std::array<const api::Codec*, 3> kWithToyCodec{&api::native::kCodec, &api::openai::kCodec,
                                                         &toy::kCodec};

struct Compiling : ::testing::Test {
  toy::Gate gate, parse_gate;
  Rig rig{settings(), make_hardware(true), nullptr, kWithToyCodec, &wait_at_gate};

  Compiling() {
    rig.waits_for_other_threads = false;
    compile_gate = &gate;
  }
  ~Compiling() override {
    gate.open();
    parse_gate.open();
    run_until([&] { return rig.service.off_loop() == 0; });
    compile_gate = nullptr;
    toy::set_gate(nullptr);
  }

  static std::shared_ptr<settings::Settings> settings() {
    auto out = make_settings();
    out->apps[1].models = {"demo", "small"};
    out->apps[1].limits.in_flight = 8;
    return out;
  }
  static std::string constrained(std::string_view key, const std::string& mark) {
    return post(kChatPath, chat_with(R"("model":"demo","guided_choice":[")" + mark + R"("])"), key);
  }
  static std::string large_body(std::string_view key) {
    return post("/toy/say", R"({"say":")" + std::string(64 * 1024, 'x') + R"(","model":"demo"})", "",
                "x-toy-key: " + std::string(key) + "\r\n");
  }
  // The gauge of waiting requests.
  int waiting() {
    Wire wire(rig, {.loopback = true, .unix_uid = {}, .address = {}});
    wire.send(get("/metrics", ""));
    const std::string body = wire.answer().body, name = "\nflyball_requests_waiting ";
    const auto at = body.find(name);
    EXPECT_NE(at, body.npos) << body;
    return at == body.npos ? -1 : std::stoi(body.substr(at + name.size()));
  }
  template <class Condition>
  void run_until(const Condition& condition) {
    EXPECT_TRUE(rig.run_until(condition));
  }
  void finish(Wire& wire) {
    run_until([&] {
      wire.run();
      return !wire.received().empty();
    });
  }
};

TEST_F(Compiling, OtherRequestsDoNotWaitForAHostileConstraint) {
  Wire hostile(rig), plain(rig), large(rig);
  hostile.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  plain.send(post(kChatPath, kHello, "key-bobby"));
  EXPECT_EQ(plain.answer().status, 200);
  large.send(large_body("key-bobby"));  // parsed by another thread than the one that compiles
  finish(large);
  EXPECT_EQ(large.answer().status, 200);
  EXPECT_EQ(hostile.received(), "");
  EXPECT_EQ(rig.service.in_flight(), 1U);
  gate.open();
  finish(hostile);
  EXPECT_EQ(hostile.answer().status, 200);
}

TEST_F(Compiling, ConstraintsDoNotWaitForALargeBody) {
  toy::set_gate(&parse_gate);
  gate.open();
  Wire large(rig), other(rig);
  large.send(large_body("key-alice"));
  parse_gate.await_entered(1);
  other.send(constrained("key-bobby", "b1"));
  finish(other);
  EXPECT_EQ(other.answer().status, 200);
  EXPECT_EQ(large.received(), "");
}

// In order of arrival bob's first constraint would be compiled after alice's third.
TEST_F(Compiling, AppsTakeTurnsAtConstraints) {
  Wire a1(rig), a2(rig), a3(rig), b1(rig), b2(rig);
  a1.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  a2.send(constrained("key-alice", "a2"));
  a3.send(constrained("key-alice", "a3"));
  b1.send(constrained("key-bobby", "b1"));
  b2.send(constrained("key-bobby", "b2"));
  gate.open();
  for (Wire* wire : {&a1, &a2, &a3, &b1, &b2}) {
    finish(*wire);
    EXPECT_EQ(wire->answer().status, 200) << wire->received();
  }
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1", "a2", "b1", "a3", "b2"}));
}

TEST_F(Compiling, AClientThatLeavesTakesItsConstraintBack) {
  Wire first(rig), left(rig), last(rig);
  first.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  left.send(constrained("key-alice", "a2"));
  last.send(constrained("key-alice", "a3"));
  EXPECT_EQ(rig.service.off_loop(), 3U);
  left.hang_up();
  EXPECT_EQ(rig.service.off_loop(), 2U);
  gate.open();
  finish(last);
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1", "a3"}));
}

TEST_F(Compiling, AClientThatLeavesMeanwhileAsksNoEngine) {
  Wire wire(rig);
  wire.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  wire.hang_up();
  EXPECT_EQ(rig.service.off_loop(), 1U) << "the thread has it still";
  gate.open();
  run_until([&] { return rig.service.off_loop() == 0; });
  wire.run();
  EXPECT_TRUE(rig.cpu().started.empty());
}

TEST_F(Compiling, ADrainWaitsForAConstraintUntilItsDeadline) {
  Wire waits(rig);
  waits.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  rig.service.start_draining();
  EXPECT_EQ(rig.service.in_flight(), 1U);
  rig.service.abort_all({ErrorCode::shutting_down, "The daemon is shutting down.", {}, {}});
  waits.run();
  EXPECT_EQ(waits.answer().status, 503);
  gate.open();
  run_until([&] { return rig.service.off_loop() == 0; });
  EXPECT_TRUE(rig.cpu().started.empty());
}

// Nothing is compiled for a request that is refused by a cheaper check.
TEST_F(Compiling, CheaperChecksComeFirst) {
  gate.open();
  for (const char* members :
       {R"("model":"none","guided_choice":["a1"])", R"("guided_choice":["a1"],"tempreature":1)",
        R"("guided_choice":["a1"],"max_tokens":0)"}) {
    Wire wire(rig);
    wire.send(post(kChatPath, chat_with(members)));
    EXPECT_NE(wire.answer().status, 200);
  }
  EXPECT_TRUE(gate.marks().empty());
}

TEST_F(Compiling, TheLimitsOfTheAppComeFirst) {
  gate.open();
  auto bounded = settings();
  bounded->apps[1].limits.in_flight = 1;
  rig.service.reload(bounded);
  rig.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  Wire running(rig), plain(rig), refused(rig);
  running.send(post(kChatPath, kHello, "key-bobby"));
  plain.send(post(kChatPath, kHello, "key-bobby"));
  refused.send(constrained("key-bobby", "b1"));
  EXPECT_EQ(refused.answer().status, 429);
  EXPECT_EQ(refused.answer().body, plain.answer().body);
  EXPECT_EQ(rig.service.off_loop(), 0U);
  EXPECT_TRUE(gate.marks().empty());
}

// A request is admitted once, before its constraint is compiled, and has its places from then on.
TEST_F(Compiling, AConstraintThatIsCompiledCountsAsInFlight) {
  auto bounded = settings();
  bounded->apps[1].limits.in_flight = 1;
  rig.service.reload(bounded);
  Wire first(rig), plain(rig), refused(rig), last(rig);
  first.send(constrained("key-bobby", "b1"));
  gate.await_entered(1);
  plain.send(post(kChatPath, kHello, "key-bobby"));
  refused.send(constrained("key-bobby", "b2"));
  for (Wire* wire : {&plain, &refused}) EXPECT_EQ(wire->answer().status, 429) << wire->received();
  EXPECT_EQ(rig.service.off_loop(), 1U);
  gate.open();
  finish(first);
  EXPECT_EQ(first.answer().status, 200);
  last.send(constrained("key-bobby", "b3"));
  finish(last);
  EXPECT_EQ(last.answer().status, 200);
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"b1", "b3"}));
}

TEST_F(Compiling, AConstraintThatIsCompiledTakesItsPlaceInTheQueue) {
  auto bounded = settings();
  bounded->config.max_queue = 1;
  bounded->apps[0].limits.requests_per_minute = 3;
  rig.service.reload(bounded);
  Wire first(rig), refused(rig);
  first.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  refused.send(post(kChatPath, kHello));
  EXPECT_EQ(refused.answer().status, 503);
  EXPECT_EQ(refused.answer().field("x-ratelimit-remaining-requests"), "2") << "the charge is given back";
  gate.open();
  finish(first);
  EXPECT_EQ(first.answer().status, 200);
}

TEST_F(Compiling, AClientThatLeavesGivesItsPlaceBack) {
  auto bounded = settings();
  bounded->apps[1].limits.in_flight = 1;
  rig.service.reload(bounded);
  Wire first(rig), left(rig), next(rig);
  first.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  left.send(constrained("key-bobby", "b1"));
  left.hang_up();
  next.send(post(kChatPath, kHello, "key-bobby"));
  EXPECT_EQ(next.answer().status, 200) << next.received();
}

// Its thread has the constraint still: the places come back when that has done with it.
TEST_F(Compiling, AClientThatLeavesMeanwhileGivesItsPlacesBack) {
  auto bounded = settings();
  bounded->config.max_queue = 2;
  bounded->apps[1].limits.in_flight = 2;
  bounded->apps[1].limits.tokens_per_day = 1000;
  rig.service.reload(bounded);
  const auto answered = [&](const std::string& request) {
    Wire wire(rig);
    wire.send(request);
    return wire.answer();
  };
  const std::string wrong = post(kChatPath, chat_with(R"("max_tokens":0)"), "key-bobby");
  EXPECT_EQ(answered(wrong).field("x-ratelimit-remaining-tokens"), "1000");
  EXPECT_EQ(waiting(), 0);
  Wire left(rig);
  left.send(post(kChatPath, chat_with(R"("guided_choice":["b1"],"n":2,"max_tokens":100)"), "key-bobby"));
  gate.await_entered(1);
  EXPECT_EQ(waiting(), 1);
  EXPECT_EQ(answered(post(kChatPath, kHello, "key-bobby")).status, 429) << "each answer has a place";
  EXPECT_EQ(answered(post(kChatPath, kHello)).status, 503) << "and one in the queue";
  const std::string meanwhile = answered(wrong).field("x-ratelimit-remaining-tokens");
  EXPECT_LT(std::stoi(meanwhile), 800) << "two answers of a hundred tokens and their prompts";
  left.hang_up();
  gate.open();
  run_until([&] { return rig.service.off_loop() == 0; });
  EXPECT_EQ(waiting(), 0);
  EXPECT_EQ(answered(wrong).field("x-ratelimit-remaining-tokens"), "1000");
  EXPECT_EQ(answered(post(kChatPath, chat_with(R"("n":2)"), "key-bobby")).status, 200);
}

TEST_F(Compiling, ADrainGivesThePlacesBack) {
  Wire first(rig), queued(rig);
  first.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  queued.send(constrained("key-bobby", "b1"));
  EXPECT_EQ(waiting(), 2);
  rig.service.start_draining();
  rig.service.abort_all({ErrorCode::shutting_down, "The daemon is shutting down.", {}, {}});
  EXPECT_EQ(waiting(), 1) << "work that has begun runs to its end";
  gate.open();
  run_until([&] { return rig.service.off_loop() == 0; });
  EXPECT_EQ(waiting(), 0);
}

// The client waits from its admission on.
TEST_F(Compiling, TheReceiptCountsTheTimeOfTheCompile) {
  auto bounded = settings();
  bounded->tree = tree_of(R"(rules:
  - {id: fast, because: b, when: {fact: app.slo.ttft, lt: 500ms}, use: vulkan}
default: {because: b, use: cpu}
)");
  bounded->apps[0].slo.ttft = std::chrono::milliseconds(50'000);
  rig.service.reload(bounded);
  Wire first(rig);
  first.send(constrained("key-alice", "a1"));
  gate.await_entered(1);
  constexpr std::chrono::milliseconds kCompile(20);
  std::this_thread::sleep_for(kCompile);
  gate.open();
  finish(first);
  ASSERT_EQ(first.answer().status, 200);
  Wire asks(rig);
  asks.send(get("/v1/route/receipts/" + first.answer().field("x-request-id")));
  const json receipt = json::parse(asks.answer().body);
  EXPECT_GE(receipt["timings"]["queue_ms"].get<double>(), kCompile.count()) << receipt;
  EXPECT_GE(receipt["timings"]["total_ms"].get<double>(), kCompile.count()) << receipt;
  int left = -1;
  for (const json& fact : receipt["facts"])
    if (fact["name"] == "app.slo.ttft") left = fact["value"].get<int>();
  EXPECT_GT(left, 0) << receipt;
  EXPECT_LE(left, 50'000 - kCompile.count()) << receipt;
}

TEST_F(Compiling, TheServiceEndsWhileAConstraintIsCompiled) {
  auto other = std::make_unique<Rig>(settings(), make_hardware(true), nullptr, kWithToyCodec, &wait_at_gate);
  other->waits_for_other_threads = false;
  {
    Wire first(*other), waits(*other);
    first.send(constrained("key-alice", "a1"));
    gate.await_entered(1);
    waits.send(constrained("key-alice", "a2"));
  }
  std::thread opener([&] { gate.open(); });
  other.reset();
  opener.join();
  EXPECT_EQ(gate.marks(), (std::vector<std::string>{"a1"}));
}

}  // namespace
}  // namespace flyball::testing
