// The worker protocol's bytes: every message survives the way, every malformed one is refused with its place.
#include "backends/worker/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "backends/worker/wire.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::worker {
namespace {

std::string payload_of(const auto& message) {
  return encode(message)->substr(kFrameHeaderBytes);
}

std::string payload_of(WireWriter& writer) {
  return writer.framed().substr(kFrameHeaderBytes);
}

CompletionRequest full_request() {
  CompletionRequest q;
  q.id = "r-1";
  q.prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"hé"}])"), test::packed("[]"),
                        test::packed("{}"), false, true};
  q.wanted = Wanted::prompt_tokens;
  q.sampling.temperature = 0.25F;
  q.sampling.top_k = -3;
  q.sampling.seed = std::numeric_limits<std::uint64_t>::max();
  q.sampling.top_logprobs = -1;
  q.sampling.logit_bias = {{0, -100.0F}, {77, 1.5F}};
  q.max_tokens = 4'000'000'000U;
  q.total_tokens = 3'000'000'000U;
  q.stop = {"", "\n\n"};
  q.ignore_eos = true;
  q.marks_control = true;
  q.constraint = Constraint{Constraint::Kind::choice, test::packed(R"(["yes","no"])"), true};
  q.resume_tokens = {1, 2, 300'000};
  q.resume_text_bytes = 1ULL << 40;
  q.empty_answer = q.echo = true;
  q.resume_echo = 17;
  q.owner = "app-7";
  q.kept = "rules";
  q.kept_limit = 1ULL << 33;
  q.settings = {std::chrono::milliseconds(20), config::QueuePlace::behind};
  return q;
}

TEST(WorkerCodec, StartSurvivesTheWay) {
  const CompletionRequest q = full_request();
  const auto back = decode_to_worker(payload_of(ToWorker{Start{9, q}}));
  ASSERT_TRUE(back) << back.error().message;
  const auto& start = std::get<Start>(*back);
  EXPECT_EQ(start.ticket, 9U);
  const CompletionRequest& r = start.request;
  EXPECT_EQ(r.id, q.id);
  const auto& chat = std::get<ChatPrompt>(r.prompt);
  EXPECT_EQ(chat.messages.bytes(), std::get<ChatPrompt>(q.prompt).messages.bytes());
  EXPECT_EQ(test::text_of(chat.tools), "[]");
  EXPECT_EQ(test::text_of(chat.template_args), "{}");
  EXPECT_FALSE(chat.add_generation_prompt);
  EXPECT_TRUE(chat.control_tokens_in_content);
  EXPECT_EQ(r.wanted, Wanted::prompt_tokens);
  EXPECT_EQ(r.sampling.temperature, 0.25F);
  EXPECT_EQ(r.sampling.top_k, -3);
  EXPECT_EQ(r.sampling.top_p, 1.0F);
  EXPECT_EQ(r.sampling.seed, q.sampling.seed);
  EXPECT_EQ(r.sampling.top_logprobs, -1);
  EXPECT_EQ(r.sampling.logit_bias, q.sampling.logit_bias);
  EXPECT_EQ(r.max_tokens, q.max_tokens);
  EXPECT_EQ(r.total_tokens, q.total_tokens);
  EXPECT_EQ(r.stop, q.stop);
  EXPECT_TRUE(r.ignore_eos);
  EXPECT_TRUE(r.marks_control);
  ASSERT_TRUE(r.constraint);
  EXPECT_EQ(r.constraint->kind, Constraint::Kind::choice);
  EXPECT_EQ(test::text_of(r.constraint->source), R"(["yes","no"])");
  EXPECT_TRUE(r.constraint->compact);
  EXPECT_EQ(r.resume_tokens, q.resume_tokens);
  EXPECT_EQ(r.resume_text_bytes, q.resume_text_bytes);
  EXPECT_TRUE(r.empty_answer);
  EXPECT_TRUE(r.echo);
  EXPECT_EQ(r.resume_echo, 17U);
  EXPECT_EQ(r.owner, "app-7");
  EXPECT_EQ(r.kept, "rules");
  EXPECT_EQ(r.kept_limit, 1ULL << 33);
  EXPECT_EQ(r.settings, q.settings);
}

TEST(WorkerCodec, EchoesAreOfThePromptAlone) {
  Delta delta;
  delta.text = "ab";
  delta.echoed = 2;
  delta.logprobs = {{7, "a", 0.0F, {}}, {8, "b", -0.5F, {}}};
  delta.logprobs[0].known = false;
  const auto decoded = [](const Delta& d) {
    return decode_to_daemon(payload_of(ToDaemon{TicketEvent{1, d}}));
  };
  const auto back = decoded(delta);
  ASSERT_TRUE(back) << back.error().message;
  const Delta& got = std::get<Delta>(std::get<TicketEvent>(*back).event);
  EXPECT_EQ(got.echoed, 2U);
  EXPECT_FALSE(got.logprobs.at(0).known);
  EXPECT_TRUE(got.logprobs.at(1).known);

  Delta beside_tokens = delta;
  beside_tokens.tokens = {9};
  Delta too_few = delta;
  too_few.logprobs.pop_back();
  Delta of_an_answer = delta;
  of_an_answer.echoed = 0;
  for (const Delta& bad : {beside_tokens, too_few, of_an_answer}) EXPECT_FALSE(decoded(bad));
  CompletionRequest no_echo;
  no_echo.resume_echo = 1;
  EXPECT_FALSE(decode_to_worker(payload_of(ToWorker{Start{1, no_echo}})));
}

TEST(WorkerCodec, SettingsThatAreNotSetStayUnset) {
  const auto back = decode_to_worker(payload_of(ToWorker{Start{1, CompletionRequest{}}}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<Start>(*back).request.settings, config::RequestSettings{});
}

TEST(WorkerCodec, SettingsAreSentWithinTheirLimits) {
  CompletionRequest q;
  q.settings = {std::chrono::hours(1), config::QueuePlace::ahead};
  const auto back = decode_to_worker(payload_of(ToWorker{Start{1, q}}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<Start>(*back).request.settings,
            (config::RequestSettings{config::kMaxStepBudget, config::QueuePlace::ahead}));
}

struct WrongSetting {
  const char* field;
  std::uint64_t step_budget, place;
};
void PrintTo(const WrongSetting& one, std::ostream* out) {
  *out << one.field;
}
class WrongSettings : public testing::TestWithParam<WrongSetting> {};

TEST_P(WrongSettings, AreRefused) {
  const WrongSetting& wrong = GetParam();
  const std::string unset = payload_of(ToWorker{Start{1, CompletionRequest{}}});
  WireWriter w;
  for (const std::uint64_t v : {wrong.step_budget, wrong.place}) w.u64(v);
  const auto back = decode_to_worker(unset.substr(0, unset.size() - 2) + payload_of(w));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().param, wrong.field);
}

INSTANTIATE_TEST_SUITE_P(Table, WrongSettings,
                         testing::Values(WrongSetting{"step budget", 10'001, 0}, WrongSetting{"place", 0, 3}),
                         [](const auto& row) {
                           std::string name = row.param.field;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// Seeds of another version reach none of the fields behind the one that has changed.
TEST(WorkerCodec, SeedsOfTheFuzzerAreOfThisVersion) {
  const std::filesystem::path folder = std::string(FLYBALL_SOURCE_DIR) + "/tests/fuzz/corpus/worker_frame/";
  const auto bytes_of = [&](const char* name) {
    std::ifstream in(folder / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (const char* name : {"hello", "start_chat", "start_text", "start_tokens", "start_infill",
                           "start_constraint", "start_structural_tag", "start_kept_prefix", "cancel", "pause",
                           "resume", "drop_prefix", "hold", "drain", "grant"})
    EXPECT_TRUE(decode_to_worker(bytes_of(name))) << name;
  for (const char* name :
       {"hello", "need_memory", "ready", "failed", "load", "kept_prefixes", "delta", "echo", "done", "error"})
    EXPECT_TRUE(decode_to_daemon(bytes_of(name))) << name;
}

TEST(WorkerCodec, AnUnknownWantedIsRefused) {
  CompletionRequest q;
  q.wanted = static_cast<Wanted>(static_cast<int>(kLastWanted) + 1);
  const auto back = decode_to_worker(payload_of(ToWorker{Start{1, q}}));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().param, "wanted");
}

TEST(WorkerCodec, OtherPromptsAndCommandsSurvive) {
  CompletionRequest q;
  for (const bool add_special : {false, true}) {
    q.prompt = TextPrompt{"any \xff bytes", add_special};
    const auto back = decode_to_worker(payload_of(ToWorker{Start{1, q}}));
    ASSERT_TRUE(back) << back.error().message;
    const auto& text = std::get<TextPrompt>(std::get<Start>(*back).request.prompt);
    EXPECT_EQ(text.text, "any \xff bytes");
    EXPECT_EQ(text.add_special, add_special);
  }
  q.prompt = TokenPrompt{{5, 6}};
  EXPECT_EQ(std::get<TokenPrompt>(
                std::get<Start>(*decode_to_worker(payload_of(ToWorker{Start{1, q}}))).request.prompt)
                .tokens,
            (std::vector<Token>{5, 6}));
  q.prompt = InfillPrompt{"any \xff", std::make_shared<const std::string>("bytes \xfe")};
  const auto infill = decode_to_worker(payload_of(ToWorker{Start{1, q}}));
  ASSERT_TRUE(infill) << infill.error().message;
  const auto& gap = std::get<InfillPrompt>(std::get<Start>(*infill).request.prompt);
  EXPECT_EQ(gap.before, "any \xff");
  EXPECT_EQ(*gap.after, "bytes \xfe");
  EXPECT_EQ(std::get<Cancel>(*decode_to_worker(payload_of(ToWorker{Cancel{300}}))).ticket, 300U);
  EXPECT_EQ(std::get<Pause>(*decode_to_worker(payload_of(ToWorker{Pause{3}}))).ticket, 3U);
  EXPECT_EQ(std::get<Resume>(*decode_to_worker(payload_of(ToWorker{Resume{3}}))).ticket, 3U);
  EXPECT_EQ(std::get<Drain>(*decode_to_worker(payload_of(ToWorker{Drain{5000}}))).within_ms, 5000U);
}

TEST(WorkerCodec, LoadSurvives) {
  BackendLoad load;
  load.kv_blocks_used = 3;
  load.prompt_tokens = 1ULL << 40;
  load.completion_tokens = 5;
  load.cached_tokens = 6;
  load.preemptions = 7;
  load.restored_tokens = 8;
  load.spilled_bytes = 1ULL << 41;
  load.spills = true;
  const auto back = std::get<BackendLoad>(*decode_to_daemon(payload_of(ToDaemon{load})));
  EXPECT_EQ(back.kv_blocks_used, 3U);
  EXPECT_EQ(back.prompt_tokens, 1ULL << 40);
  EXPECT_EQ(back.completion_tokens, 5U);
  EXPECT_EQ(back.cached_tokens, 6U);
  EXPECT_EQ(back.preemptions, 7U);
  EXPECT_EQ(back.restored_tokens, 8U);
  EXPECT_EQ(back.spilled_bytes, 1ULL << 41);
  EXPECT_TRUE(back.spills);
}

TEST(WorkerCodec, KeptPrefixesSurvive) {
  const KeptPrefixes kept{
      {{"app", "rules", 4096, 4096, 2048, 4096, 7, 28'672}, {"b", "n", 16, 0, 0, 0, 0, 1ULL << 40}}};
  const auto back = decode_to_daemon(payload_of(ToDaemon{kept}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<KeptPrefixes>(*back).states, kept.states);
  const auto drop = decode_to_worker(payload_of(ToWorker{DropPrefix{"app", "rules"}}));
  ASSERT_TRUE(drop) << drop.error().message;
  EXPECT_EQ(std::get<DropPrefix>(*drop).owner, "app");
  EXPECT_EQ(std::get<DropPrefix>(*drop).name, "rules");
  EXPECT_TRUE(std::get<Hold>(*decode_to_worker(payload_of(ToWorker{Hold{true}}))).held);
  EXPECT_FALSE(std::get<Hold>(*decode_to_worker(payload_of(ToWorker{Hold{false}}))).held);
}

TEST(WorkerCodec, MarksOutsideOfTheTextAreRefused) {
  for (const std::vector<ControlSpan>& control :
       {std::vector<ControlSpan>{{0, 4}}, {{1, 1}}, {{2, 1}}, {{0, 2}, {1, 3}}, {{4, 5}}}) {
    Delta d{"abc", {}, {}};
    d.control = control;
    const auto back = decode_to_daemon(payload_of(ToDaemon{TicketEvent{4, d}}));
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error().param, "control span");
  }
}

TEST(WorkerCodec, EventsSurvive) {
  Delta d;
  d.text = "héllo";
  d.control = {{0, 1}, {3, 6}};
  d.form = AnswerForm{CallFormat::minimax_m2, ReasoningFormat::brackets, true};
  d.tokens = {1, 2};
  d.prompt_tokens = 900;
  d.cached_tokens = 800;
  d.prompt = {7, 300'000, 7};
  d.logprobs = {{1, "\xc3", -0.5F, {{"\xc3", -0.5F}, {"a", -2.0F}}, false}};
  const auto back = decode_to_daemon(payload_of(ToDaemon{TicketEvent{4, d}}));
  ASSERT_TRUE(back) << back.error().message;
  const auto& e = std::get<TicketEvent>(*back);
  const auto& delta = std::get<Delta>(e.event);
  EXPECT_EQ(e.ticket, 4U);
  EXPECT_EQ(delta.text, d.text);
  EXPECT_EQ(delta.control, d.control);
  EXPECT_EQ(delta.form, d.form);
  EXPECT_EQ(delta.tokens, d.tokens);
  EXPECT_EQ(delta.prompt_tokens, 900U);
  EXPECT_EQ(delta.cached_tokens, 800U);
  EXPECT_EQ(delta.prompt, d.prompt);
  ASSERT_EQ(delta.logprobs.size(), 1U);
  EXPECT_EQ(delta.logprobs[0].bytes, "\xc3");
  EXPECT_EQ(delta.logprobs[0].top, d.logprobs[0].top);
  EXPECT_FALSE(delta.logprobs[0].in_text);

  Done done;
  done.reason = FinishReason::cancelled;
  done.usage = {7, 8, 9};
  done.timings = {1, 2, 1ULL << 50, 4, 5};
  done.stop_text = "END";
  done.kept = "rules";
  done.kept_tokens = 6;
  const auto done_back = std::get<Done>(
      std::get<TicketEvent>(*decode_to_daemon(payload_of(ToDaemon{TicketEvent{4, done}}))).event);
  EXPECT_EQ(done_back.reason, FinishReason::cancelled);
  EXPECT_EQ(done_back.usage.cached_tokens, 9U);
  EXPECT_EQ(done_back.timings.decode_us, 1ULL << 50);
  EXPECT_EQ(done_back.timings.compile_us, 4U);
  EXPECT_EQ(done_back.timings.mask_us, 5U);
  EXPECT_EQ(done_back.stop_text, "END");
  EXPECT_EQ(done_back.kept, "rules");
  EXPECT_EQ(done_back.kept_tokens, 6U);

  const Error error{ErrorCode::context_length_exceeded, "too long", "messages", "/messages/0"};
  const auto error_back = std::get<Error>(
      std::get<TicketEvent>(*decode_to_daemon(payload_of(ToDaemon{TicketEvent{4, error}}))).event);
  EXPECT_EQ(error_back.code, error.code);
  EXPECT_EQ(error_back.message, error.message);
  EXPECT_EQ(error_back.param, error.param);
  EXPECT_EQ(error_back.where, error.where);
}

// An impossible token's log-probability is -inf in the engine; it must not read as a protocol error.
TEST(WorkerCodec, InfiniteLogprobIsClamped) {
  Delta d;
  d.logprobs = {{1, "a", -std::numeric_limits<float>::infinity(), {}}};
  const auto back = decode_to_daemon(payload_of(ToDaemon{TicketEvent{1, d}}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<Delta>(std::get<TicketEvent>(*back).event).logprobs[0].logprob, -9999.0F);
}

// Names come from model files: the worker cleans them, because the daemon refuses what is not UTF-8.
TEST(WorkerCodec, HostileNamesAreCleaned) {
  BackendInfo info;
  info.model_name = std::string("\xff\xfe evil");
  info.architecture = std::string(10'000, 'x') + "é";
  const auto back = decode_to_daemon(payload_of(ToDaemon{Ready{info}}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(std::get<Ready>(*back).info.model_name, "?? evil");
  EXPECT_EQ(std::get<Ready>(*back).info.architecture.size(), 4096U);
}

TEST(WorkerCodec, WhatTheModelIsArrives) {
  BackendInfo info;
  info.parameters = 30'000'000'000;
  info.weight_bytes = 17'000'000'000;
  info.mixture_of_experts = true;
  info.token_weight_bytes = 1'700'000'000;
  info.kv_type = "q8_0";
  info.digest = "0f";
  info.devices = {{"A#0 (P)", 0, 3, 7'000'000'000, 1, 2},
                  {"A#1 (P)", 3, 1, 3, 4, 5'000'000'000, "read in place"}};
  const auto back = decode_to_daemon(payload_of(ToDaemon{Ready{info}}));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(std::get<Ready>(*back).info.mixture_of_experts);
  EXPECT_EQ(std::get<Ready>(*back).info.token_weight_bytes, info.token_weight_bytes);
  EXPECT_FALSE(std::get<Ready>(*back).info.has_chat_template);
  EXPECT_EQ(std::get<Ready>(*back).info.kv_type, "q8_0");
  EXPECT_EQ(std::get<Ready>(*back).info.digest, "0f");
  EXPECT_EQ(std::get<Ready>(*back).info.weight_bytes, info.weight_bytes);
  const auto& devices = std::get<Ready>(*back).info.devices;
  ASSERT_EQ(devices.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(to_string(devices[i]), to_string(info.devices[i]));
    EXPECT_EQ(devices[i].weight_bytes, info.devices[i].weight_bytes);
    EXPECT_EQ(devices[i].kv_bytes, info.devices[i].kv_bytes);
    EXPECT_EQ(devices[i].scratch_bytes, info.devices[i].scratch_bytes);
  }
}

TEST(WorkerCodec, AnEngineHasSomeDevicesAtTheMost) {
  BackendInfo info;
  info.devices.resize(kMaxDevices);
  EXPECT_TRUE(decode_to_daemon(payload_of(ToDaemon{Ready{info}})));
  info.devices.resize(kMaxDevices + 1);
  EXPECT_FALSE(decode_to_daemon(payload_of(ToDaemon{Ready{info}})));
}

// They go to logs and terminals: no forged line, no escape sequence.
TEST(WorkerCodec, NamesAndErrorsAreOneLine) {
  BackendInfo info;
  info.model_name = "a\n2026-01-01 error forged\x1b[2J\x7f\u009b2J \u00e9";
  const auto ready = decode_to_daemon(payload_of(ToDaemon{Ready{info}}));
  ASSERT_TRUE(ready) << ready.error().message;
  EXPECT_EQ(std::get<Ready>(*ready).info.model_name, "a 2026-01-01 error forged [2J   2J \u00e9");
  const auto failed = decode_to_daemon(
      payload_of(ToDaemon{Failed{Error{ErrorCode::model_invalid, "one\r\ntwo", "p\tq", "w\n"}}}));
  ASSERT_TRUE(failed);
  EXPECT_EQ(std::get<Failed>(*failed).error.message, "one  two");
  EXPECT_EQ(std::get<Failed>(*failed).error.param, "p q");
  EXPECT_EQ(std::get<Failed>(*failed).error.where, "w ");
}

TEST(WorkerCodec, TextThatIsNotUtf8IsRefused) {
  const auto back = decode_to_daemon(payload_of(ToDaemon{TicketEvent{1, Delta{"\xed\xa0\x80", {}, {}}}}));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().param, "text");
}

TEST(WorkerCodec, EveryTruncationIsRefused) {
  const std::string start = payload_of(ToWorker{Start{9, full_request()}});
  for (std::size_t n = 0; n < start.size(); ++n) {
    EXPECT_FALSE(decode_to_worker(std::string_view(start).substr(0, n))) << n;
  }
  EXPECT_FALSE(decode_to_worker(start + "x"));
}

TEST(WorkerCodec, DirectionsAreNotInterchangeable) {
  EXPECT_FALSE(decode_to_daemon(payload_of(ToWorker{Start{9, full_request()}})));
  EXPECT_FALSE(decode_to_worker(payload_of(ToDaemon{Ready{}})));
}

TEST(WorkerCodec, AnotherVersionIsRefused) {
  const auto back = decode_to_worker(payload_of(ToWorker{Hello{kProtocolVersion + 1, 1000}}));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().param, "protocol version");
}

TEST(WorkerCodec, CountsBeyondTheFrameAreRefusedBeforeAllocating) {
  WireWriter w;
  w.u64(19);         // delta
  w.u64(1);          // ticket
  w.bytes("");       // text
  w.u64(0);          // marks
  w.u64(0);          // no form
  w.u64(4'000'000);  // tokens claimed, none sent
  const auto back = decode_to_daemon(payload_of(w));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().param, "tokens");
}

TEST(WorkerCodec, AFrameSharesTheLongValuesOfItsMessage) {
  const std::string longest(WireWriter::kSharedBytes, 'x');
  CompletionRequest q = full_request();
  q.prompt = ChatPrompt{test::packed("[\"" + longest + "\"]"), test::packed("[\"short\"]"),
                        test::packed("{\"a\":\"" + longest + "\"}"), false, true};
  const ChatPrompt& chat = std::get<ChatPrompt>(q.prompt);
  const std::vector<const void*> shared = {chat.messages.shared().get(), chat.template_args.shared().get()};
  const ToWorker message = Start{1, q};
  const auto pieces = encode_in_pieces(message);
  ASSERT_TRUE(pieces);
  std::string sent;
  std::vector<const void*> found;
  for (const FramePiece& piece : *pieces) {
    EXPECT_FALSE(piece.bytes().empty());
    sent += piece.bytes();
    if (piece.shared) found.push_back(piece.shared.get());
  }
  EXPECT_EQ(found, shared);
  EXPECT_EQ(sent, *encode(message));
  FrameBuffer frames;
  frames.append(sent);
  const auto payload = frames.next();
  ASSERT_TRUE(payload && *payload);
  const auto back = decode_to_worker(**payload);
  ASSERT_TRUE(back) << back.error().message;
  const auto& read = std::get<ChatPrompt>(std::get<Start>(*back).request.prompt);
  EXPECT_EQ(read.messages.bytes(), chat.messages.bytes());
  EXPECT_EQ(read.tools.bytes(), chat.tools.bytes());
  EXPECT_EQ(read.template_args.bytes(), chat.template_args.bytes());
}

TEST(WorkerCodec, TooLargeARequestIsAnError) {
  CompletionRequest q;
  q.prompt = TextPrompt{std::string(kMaxFrameBytes + 1, 'x')};
  const auto frame = encode(ToWorker{Start{1, std::move(q)}});
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, ErrorCode::body_too_large);
}

TEST(WorkerCodec, RandomBytesNeverPassForLong) {
  std::mt19937 random(7);
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    (void)decode_to_worker(bytes);
    (void)decode_to_daemon(bytes);
  }
  // A flipped bit in a good message is either refused or another good message; it never crashes.
  const std::string good = payload_of(ToWorker{Start{9, full_request()}});
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    (void)decode_to_worker(bad);
  }
}

TEST(WireReader, IntegersHaveOneSpelling) {
  for (const std::string& bytes :
       {std::string("\x80\x00", 2), std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")}) {
    WireReader r(bytes);
    r.u64(UINT64_MAX, "n");
    EXPECT_FALSE(r.ok());
  }
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, UINT64_MAX}) {
    WireWriter w;
    w.u64(n);
    const std::string payload = payload_of(w);
    WireReader r(payload);
    EXPECT_EQ(r.u64(UINT64_MAX, "n"), n);
    EXPECT_TRUE(r.finish());
  }
  for (const std::int32_t n : {0, -1, 1, INT32_MIN, INT32_MAX}) {
    WireWriter w;
    w.i32(n);
    const std::string payload = payload_of(w);
    WireReader r(payload);
    EXPECT_EQ(r.i32("n"), n);
  }
}

TEST(WireReader, NotANumberIsRefused) {
  WireWriter w;
  w.f32(std::numeric_limits<float>::quiet_NaN());
  const std::string payload = payload_of(w);
  WireReader r(payload);
  r.f32("x");
  EXPECT_FALSE(r.ok());
}

TEST(IsUtf8, KnowsTheEdges) {
  EXPECT_TRUE(is_utf8("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const char* bad : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "\x80",
                          "\xf8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(FrameBuffer, CutsFramesOutOfAnyPieces) {
  std::string stream;
  for (int i = 1; i <= 50; ++i) {
    WireWriter w;
    w.bytes(std::string(static_cast<std::size_t>(i) * 37, 'x'));
    stream += w.framed();
  }
  for (const std::size_t piece : {1U, 3U, 1000U, 100'000U}) {
    FrameBuffer frames;
    int n = 0;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      frames.append(std::string_view(stream).substr(at, piece));
      while (true) {
        auto payload = frames.next();
        ASSERT_TRUE(payload);
        if (!*payload) break;
        ++n;
      }
    }
    EXPECT_EQ(n, 50);
    EXPECT_EQ(frames.buffered(), 0U);
  }
}

TEST(FrameBuffer, RefusesEmptyAndOversizeFramesFromTheLengthAlone) {
  for (const std::string& head : {std::string(4, '\0'), std::string("\x01\x00\x00\x02", 4)}) {
    FrameBuffer frames;
    frames.append(head);
    EXPECT_FALSE(frames.next());
  }
}

TEST(WorkerCodec, MemoryIsAskedForAndGranted) {
  const MemoryNeed need{1ULL << 40, 3, 1000, 10};
  const auto asked = decode_to_daemon(payload_of(ToDaemon{NeedMemory{need}}));
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(std::get<NeedMemory>(*asked).need.weight_bytes, 1ULL << 40);
  EXPECT_EQ(std::get<NeedMemory>(*asked).need.least_bytes(), (1ULL << 40) + 13);
  EXPECT_EQ(std::get<NeedMemory>(*asked).need.most_bytes(), (1ULL << 40) + 1003);
  const auto granted = decode_to_worker(payload_of(ToWorker{Grant{1ULL << 35}}));
  ASSERT_TRUE(granted) << granted.error().message;
  EXPECT_EQ(std::get<Grant>(*granted).kv_bytes, 1ULL << 35);
  EXPECT_FALSE(decode_to_worker(payload_of(ToWorker{Grant{UINT64_MAX}}))) << "more than any machine has";
}

}  // namespace
}  // namespace flyball::worker
