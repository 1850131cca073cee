// Kept prefixes: when engines are asked for them, and when engines are left alone.
#include "daemon/route/kept_prefixes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "daemon/api/kept_prompt.hpp"
#include "daemon/api/views.hpp"
#include "daemon/predict/predictor.hpp"
#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;
using route::KeptState;
using route::KeptWish;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Compute = config::KeptPrefix::Compute;

KeptWish wish(const std::string& app, const std::string& name, const std::string& text = "some text",
              Compute compute = Compute::load, const std::string& model = "demo") {
  predict::KeptPrompt content;
  content.prompt = TextPrompt{text};
  std::ranges::copy_n(text.begin(), std::min(text.size(), content.digest.size()), content.digest.begin());
  return {.app = app,
          .name = name,
          .model = model,
          .compute = compute,
          .content = std::make_shared<const predict::KeptPrompt>(std::move(content)),
          .limit = 1000};
}

using Named = std::pair<std::string, std::string>;  // app, prefix

struct Keeper : ::testing::Test {
  boost::asio::io_context io;
  FakeFleet fleet{io};
  std::uint64_t processes = 0;
  predict::Predictor predictor;
  std::time_t now = 1'000'000;
  route::KeptPrefixes kept{io, fleet, predictor, [this] { return now; }};

  void run() {
    io.restart();
    io.poll();
  }
  // "app/name" of all that the engine was asked for.
  std::vector<std::string> asked(const std::string& model = "demo", const std::string& backend = "cpu") {
    std::vector<std::string> out;
    for (const CompletionRequest& one : fleet.backend(model, backend).started)
      out.push_back(one.owner + "/" + one.kept);
    return out;
  }
  KeptState state(const std::string& app, const std::string& name) {
    for (const route::KeptPrefixRecord& one : kept.records(app))
      if (one.name == name) return one.state;
    ADD_FAILURE() << "there is no " << name;
    return KeptState::failed;
  }
  void manual(FakeBackend& engine) {
    engine.script = [](const CompletionRequest&) { return Script{.manual = true}; };
  }
  void fails(FakeBackend& engine, ErrorCode code, const std::string& param = {}) {
    engine.script = [this, code, param](const CompletionRequest&) { return failure(code, param); };
  }
  // Only the prefix of this name fails.
  void fails_at(FakeBackend& engine, const std::string& name, ErrorCode code) {
    engine.script = [this, name, code](const CompletionRequest& request) {
      return request.kept == name ? failure(code, "keep") : Script{};
    };
  }
  static Script failure(ErrorCode code, const std::string& param) {
    Script script;
    script.fail_after = 0;
    script.error = {code, "It failed.", param, {}};
    return script;
  }
};

TEST_F(Keeper, AsksAnEngineThatHasLoadedTheModel) {
  kept.want({wish("a", "rules"), wish("a", "other", "text", Compute::load, "small")});
  EXPECT_EQ(state("a", "rules"), KeptState::not_loaded);
  run();
  EXPECT_THAT(fleet.acquired, IsEmpty()) << "no engine is loaded for a prefix";
  fleet.open("demo", "cpu");
  EXPECT_EQ(state("a", "rules"), KeptState::computing);
  run();
  EXPECT_THAT(asked(), ElementsAre("a/rules"));
  EXPECT_EQ(state("a", "rules"), KeptState::kept);
  EXPECT_EQ(state("a", "other"), KeptState::not_loaded);
  EXPECT_THAT(fleet.acquired, IsEmpty());
  const CompletionRequest& request = fleet.backend("demo", "cpu").started[0];
  EXPECT_EQ(request.wanted, Wanted::kept_prefix);
  EXPECT_EQ(request.kept_limit, 1000U);
  EXPECT_EQ(request.settings.place, config::QueuePlace::behind);
  EXPECT_EQ(std::get<TextPrompt>(request.prompt).text, "some text");
}

TEST_F(Keeper, AppsTakeTurnsAndOnePrefixIsComputedAtATime) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  manual(engine);
  kept.want({wish("b", "1"), wish("a", "1"), wish("a", "2"), wish("a", "3"), wish("b", "2")});
  fleet.open("demo", "cpu");
  for (std::size_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(engine.live(), 1U);
    EXPECT_EQ(engine.started.size(), i);
    engine.emit(1);
    run();
  }
  EXPECT_THAT(asked(), ElementsAre("a/1", "b/1", "a/2", "b/2", "a/3"));
}

TEST_F(Keeper, OneForTheFirstUseWaitsForARequestOfItsApp) {
  kept.want({wish("a", "rules", "text", Compute::first_use)});
  fleet.open("demo", "cpu");
  fleet.open("demo", "vulkan");
  kept.used("b", "demo", "cpu");
  kept.used("a", "small", "cpu");
  run();
  EXPECT_THAT(asked(), IsEmpty());
  EXPECT_EQ(state("a", "rules"), KeptState::waiting);
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_THAT(asked(), ElementsAre("a/rules"));
  EXPECT_THAT(asked("demo", "vulkan"), IsEmpty());
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_EQ(asked().size(), 1U) << "it is kept";
}

TEST_F(Keeper, TheRequestThatLoadedTheEngineIsAFirstUse) {
  kept.want({wish("a", "rules", "text", Compute::first_use), wish("b", "rules", "text", Compute::first_use)});
  kept.used("a", "demo", "cpu");
  fleet.open("demo", "cpu");
  run();
  EXPECT_THAT(asked(), ElementsAre("a/rules"));
}

TEST_F(Keeper, AReloadAsksForChangedTextsAndDropsWhatIsGone) {
  fleet.open("demo", "cpu");
  const KeptWish same = wish("a", "same");
  kept.want({same, wish("a", "changes"), wish("a", "goes"), wish("b", "goes")});
  run();
  FakeBackend& engine = fleet.backend("demo", "cpu");
  ASSERT_EQ(engine.started.size(), 4U);
  engine.started.clear();
  kept.want({wish("a", "same"), wish("a", "changes", "another text")});
  run();
  EXPECT_THAT(asked(), ElementsAre("a/changes"));
  EXPECT_EQ(std::get<TextPrompt>(engine.started[0].prompt).text, "another text");
  EXPECT_THAT(engine.dropped, ElementsAre(Named("a", "changes"), Named("a", "goes"), Named("b", "goes")));
  EXPECT_EQ(kept.records().size(), 2U);
}

TEST_F(Keeper, AChangedTextThatFailsLeavesNothingOfTheOldOne) {
  fleet.open("demo", "cpu");
  kept.want({wish("a", "rules", "old")});
  run();
  FakeBackend& engine = fleet.backend("demo", "cpu");
  ASSERT_EQ(engine.kept.size(), 1U);
  fails(engine, ErrorCode::context_length_exceeded);
  kept.want({wish("a", "rules", "new")});
  EXPECT_THAT(engine.kept, IsEmpty()) << "it is dropped before the new one is asked for";
  run();
  // A heartbeat may bring the old text once more.
  engine.kept.push_back({.owner = "a", .name = "rules", .tokens = 64, .tokens_in_memory = 64});
  engine.kept.back().uses = 3;
  const auto records = kept.records_at("a", "demo", "cpu");
  EXPECT_EQ(records.at(0).state, KeptState::failed);
  EXPECT_EQ(records.at(0).tokens_in_memory, 0U) << "these were the old text's";
  EXPECT_EQ(records.at(0).uses, 0U);
}

// The engine counts 100 tokens at most.
TEST_F(Keeper, AReloadThatFitsAsAWholeIsKeptInAnyOrder) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  std::map<std::string, std::size_t> sizes;  // by name, as the engine holds them
  engine.script = [&](const CompletionRequest& request) {
    for (const auto& [owner, name] : engine.dropped) sizes.erase(name);
    engine.dropped.clear();
    const std::size_t size = std::stoul(std::get<TextPrompt>(request.prompt).text);
    std::size_t sum = size;
    for (const auto& [name, has] : sizes) sum += name == request.kept ? 0 : has;
    if (sum > 100) return failure(ErrorCode::token_limit_exceeded, "keep");
    sizes[request.kept] = size;
    return Script{};
  };
  fleet.open("demo", "cpu");
  kept.want({wish("a", "1", "20"), wish("a", "2", "80")});
  run();
  kept.want({wish("a", "1", "80"), wish("a", "2", "20")});
  run();
  EXPECT_EQ(state("a", "1"), KeptState::kept);
  EXPECT_EQ(state("a", "2"), KeptState::kept);
}

TEST_F(Keeper, APrefixThatFoundNoRoomIsDueAgainWhenAnotherIsDropped) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  for (const ErrorCode code :
       {ErrorCode::insufficient_memory, ErrorCode::token_limit_exceeded, ErrorCode::overloaded}) {
    const KeptWish small = wish("a", "small"), large = wish("a", "large"), other = wish("b", "own");
    fails_at(engine, "large", code);
    kept.want({small, large, other});
    fleet.open("demo", "cpu", ++processes);
    run();
    ASSERT_EQ(state("a", "large"), KeptState::failed) << to_string(code);
    engine.started.clear();
    kept.want({small, large});
    run();
    if (code == ErrorCode::token_limit_exceeded) {
      EXPECT_THAT(asked(), IsEmpty()) << "the limit is the app's, and the one that went was another's";
    } else {
      EXPECT_THAT(asked(), ElementsAre("a/large")) << to_string(code);
    }
    engine.started.clear();
    kept.want({large});
    run();
    EXPECT_THAT(asked(), ElementsAre("a/large")) << to_string(code);
    kept.want({});
    fleet.close("demo", "cpu");
  }
}

TEST_F(Keeper, APrefixThatFoundNoRoomIsDueAgainWhenAnotherShrinks) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  fails_at(engine, "large", ErrorCode::insufficient_memory);
  engine.kept_tokens = 64;
  kept.want({wish("a", "large"), wish("a", "small")});
  fleet.open("demo", "cpu");
  run();
  ASSERT_EQ(state("a", "large"), KeptState::failed);
  engine.started.clear();
  now += 2 * 86'400;
  engine.kept_tokens = 48;
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_THAT(asked(), ElementsAre("a/small", "a/large"));
}

TEST_F(Keeper, AnEngineThatIsFullOfPrefixesIsNotAskedAgainAndGoesOnWithOthers) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  fails_at(engine, "one-more", ErrorCode::overloaded);
  kept.want({wish("a", "one-more"), wish("b", "rules")});
  fleet.open("demo", "cpu");
  run();
  EXPECT_EQ(state("a", "one-more"), KeptState::failed);
  EXPECT_EQ(state("b", "rules"), KeptState::kept) << "the engine does not rest for it";
  EXPECT_THAT(kept.records("a").at(0).why, HasSubstr("keeps no further prefix"));
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_THAT(asked(), ElementsAre("a/one-more", "b/rules"));
}

TEST_F(Keeper, ARequestOnAnotherDayHasThePrefixAskedForAgain) {
  fleet.open("demo", "cpu");
  kept.want({wish("a", "rules"), wish("b", "rules")});
  run();
  ASSERT_EQ(asked().size(), 2U);
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_EQ(asked().size(), 2U) << "it is the same day";
  now += 86'400;
  run();
  EXPECT_EQ(asked().size(), 2U) << "nobody uses it";
  kept.used("a", "demo", "cpu");
  EXPECT_EQ(kept.records("a").at(0).tokens_in_memory, kFakeKeptTokens) << "it is there meanwhile";
  run();
  EXPECT_THAT(asked(), ElementsAre("a/rules", "b/rules", "a/rules"));
  EXPECT_EQ(state("a", "rules"), KeptState::kept);
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_EQ(asked().size(), 3U);
}

TEST_F(Keeper, AnAppIsNotToldHowMuchOthersKeep) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  fails(engine, ErrorCode::insufficient_memory, "keep");
  fleet.open("demo", "cpu");
  kept.want({wish("a", "rules")});
  run();
  const auto record = kept.records("a").at(0);
  EXPECT_EQ(record.cause, "It failed.") << "the engine's words, for the operator";
  EXPECT_EQ(record.why, "The engine has no room for the prefix: all kept prefixes may take half of its KV.");
  const auto reason = [&](bool all) {
    return json::parse(api::prefixes_view({record}, all).body)["prefixes"][0]["reason"];
  };
  EXPECT_EQ(reason(true), record.cause);
  EXPECT_EQ(reason(false), record.why);
}

TEST_F(Keeper, AReloadCancelsThePrefixThatIsComputedFromAnOldText) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  manual(engine);
  fleet.open("demo", "cpu");
  kept.want({wish("a", "rules", "old")});
  ASSERT_EQ(engine.live(), 1U);
  kept.want({wish("a", "rules", "new")});
  EXPECT_EQ(engine.cancelled, 1U);
  ASSERT_EQ(engine.live(), 1U);
  EXPECT_EQ(std::get<TextPrompt>(engine.started.back().prompt).text, "new");
  kept.want({});
  EXPECT_EQ(engine.live(), 0U);
  EXPECT_THAT(engine.dropped, ElementsAre(Named("a", "rules"), Named("a", "rules")));
}

TEST_F(Keeper, AFailureStaysUntilAReloadOrAnotherLoad) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  fails(engine, ErrorCode::token_limit_exceeded);
  const KeptWish rules = wish("a", "rules");
  kept.want({rules});
  fleet.open("demo", "cpu");
  run();
  EXPECT_EQ(state("a", "rules"), KeptState::failed);
  EXPECT_EQ(kept.records("a")[0].why, "It failed.");
  kept.used("a", "demo", "cpu");
  kept.want({rules});  // the settings were replaced, and no manifest was read
  run();
  EXPECT_EQ(engine.started.size(), 1U);
  kept.want({wish("a", "rules")});
  run();
  EXPECT_EQ(engine.started.size(), 2U) << "a reload tries again";
  fleet.close("demo", "cpu");
  fleet.open("demo", "cpu", 2);
  run();
  EXPECT_EQ(engine.started.size(), 3U) << "and so does another load";
}

TEST_F(Keeper, AnotherProcessIsAskedAnew) {
  kept.want({wish("a", "rules"), wish("a", "later", "text", Compute::first_use)});
  fleet.open("demo", "cpu", 1);
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_EQ(asked().size(), 2U);
  fleet.close("demo", "cpu");
  fleet.open("demo", "cpu", 1);
  run();
  EXPECT_EQ(asked().size(), 2U) << "it only gave way, and holds what it held";
  fleet.close("demo", "cpu");
  fleet.open("demo", "cpu", 2);
  run();
  EXPECT_THAT(asked(), ElementsAre("a/rules", "a/later", "a/rules"));
  EXPECT_EQ(state("a", "later"), KeptState::waiting);
}

TEST_F(Keeper, AClosingEngineLosesItsTicketAndIsAskedForNothing) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  manual(engine);
  kept.want({wish("a", "rules"), wish("b", "rules")});
  fleet.open("demo", "cpu");
  ASSERT_EQ(engine.live(), 1U);
  fleet.close("demo", "cpu");
  EXPECT_EQ(engine.live(), 0U) << "before the call returns";
  EXPECT_EQ(state("a", "rules"), KeptState::waiting);
  kept.used("a", "demo", "cpu");
  kept.want({wish("a", "rules", "new")});
  run();
  EXPECT_EQ(engine.started.size(), 1U);
  EXPECT_THAT(engine.dropped, IsEmpty());
  fleet.open("demo", "cpu");
  EXPECT_EQ(engine.live(), 1U);
  EXPECT_THAT(engine.dropped, ElementsAre(Named("a", "rules"), Named("b", "rules")))
      << "it was told once it was open";
}

TEST_F(Keeper, AnEngineThatDiesTwiceOverAPrefixIsNotAskedForItAgain) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  fails(engine, ErrorCode::worker_died);
  kept.want({wish("a", "rules")});
  for (std::uint64_t process = 1; process <= 3; ++process) {
    fleet.open("demo", "cpu", process);
    run();
    fleet.close("demo", "cpu");
  }
  EXPECT_EQ(engine.started.size(), 2U);
  EXPECT_EQ(state("a", "rules"), KeptState::failed);
  kept.want({wish("a", "rules")});
  fleet.open("demo", "cpu", 4);
  run();
  EXPECT_EQ(engine.started.size(), 3U) << "a reload forgives";
}

TEST_F(Keeper, ABusyEngineIsLeftAloneForAWhile) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  fails(engine, ErrorCode::overloaded);
  kept.want({wish("a", "rules"), wish("b", "rules")});
  fleet.open("demo", "cpu");
  run();
  kept.used("a", "demo", "cpu");
  run();
  EXPECT_EQ(engine.started.size(), 1U);
  EXPECT_EQ(state("a", "rules"), KeptState::waiting);
}

TEST_F(Keeper, NothingIsAskedAfterItsStop) {
  FakeBackend& engine = fleet.backend("demo", "cpu");
  manual(engine);
  kept.want({wish("a", "rules"), wish("b", "rules")});
  fleet.open("demo", "cpu");
  ASSERT_EQ(engine.live(), 1U);
  kept.stop();
  EXPECT_EQ(engine.live(), 0U);
  EXPECT_EQ(fleet.watcher, nullptr);
  kept.used("b", "demo", "cpu");
  run();
  EXPECT_EQ(engine.started.size(), 1U);
}

TEST_F(Keeper, TheRecordHasWhatTheEngineTells) {
  kept.want({wish("a", "rules")});
  fleet.open("demo", "cpu");
  run();
  FakeBackend& engine = fleet.backend("demo", "cpu");
  engine.kept.at(0) = {.owner = "a",
                       .name = "rules",
                       .tokens = 64,
                       .tokens_in_memory = 16,
                       .tokens_on_disk = 48,
                       .tokens_there = 16,
                       .uses = 3,
                       .saved_tokens = 150};
  const auto records = kept.records_at("a", "demo", "cpu");
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].state, KeptState::partly_kept) << "the sums are enough, and some are in both places";
  EXPECT_EQ(records[0].tokens, 64U);
  EXPECT_EQ(records[0].tokens_in_memory, 16U);
  EXPECT_EQ(records[0].tokens_on_disk, 48U);
  EXPECT_EQ(records[0].uses, 3U);
  EXPECT_EQ(records[0].saved_tokens, 150U);
  EXPECT_EQ(records[0].saved_ms, -1) << "nobody knows the engine's speed";
  engine.kept.at(0).tokens_there = 64;
  EXPECT_EQ(kept.records_at("a", "demo", "cpu")[0].state, KeptState::kept) << "the disk has all of it";
  EXPECT_THAT(kept.records_at("b", "demo", "cpu"), IsEmpty());
}

// ---- prompts ----------------------------------------------------------------------------------------------

config::KeptPrefix prefix_of(const std::string& name, const std::string& text,
                             config::KeptPrefix::Role role = config::KeptPrefix::Role::system) {
  config::KeptPrefix out;
  out.name = name;
  out.role = role;
  out.text = std::make_shared<const std::string>(text);
  return out;
}

TEST(KeptPrompt, IsTheBeginningOfAClientsPrompt) {
  Rig rig;
  rig.cpu();
  const KeyedHash hash = KeyedHash::random();
  const std::string text(3000, 'x');
  const auto print = [&](config::KeptPrefix::Role role) {
    const Prompt prompt = api::kept_prompt(rig.settings->apps[0], prefix_of("p", text, role));
    return predict::print_of(prompt, "alice", hash);
  };
  const auto asked = [&](std::string_view path, const std::string& body) {
    Wire wire(rig);
    wire.send(post(path, body));
    EXPECT_EQ(wire.answer().status, 200) << wire.answer().body;
    return predict::print_of(rig.cpu().started.back().prompt, "alice", hash);
  };
  const auto system = print(config::KeptPrefix::Role::system);
  ASSERT_EQ(system.blocks.size(), 3000 / predict::kBlockBytes);
  const std::string user = R"({"role":"user","content":"Hi"})";
  for (const std::string& message :
       {R"({"role":"system","content":")" + text + R"("})",
        R"({"content":")" + text + R"(","role":"system"})",
        R"({"role":"developer","content":[{"type":"text","text":")" + text + R"("}]})"}) {
    const auto chat = asked(kChatPath, R"({"model":"demo","messages":[)" + message + "," + user + "]}");
    EXPECT_EQ(predict::common_bytes(system, chat), system.blocks.size() * predict::kBlockBytes)
        << message.substr(0, 40);
  }
  const auto as_user = print(config::KeptPrefix::Role::user);
  const auto goes_on = asked(
      kChatPath, R"({"model":"demo","messages":[{"role":"user","content":")" + text + R"( What now?"}]})");
  EXPECT_EQ(predict::common_bytes(as_user, goes_on), as_user.blocks.size() * predict::kBlockBytes);
  EXPECT_EQ(predict::common_bytes(as_user, system), 0U);
  const auto as_prompt = print(config::KeptPrefix::Role::prompt);
  const auto completion =
      asked("/v1/completions", R"({"model":"demo","prompt":")" + text + R"( and so on"})");
  EXPECT_EQ(predict::common_bytes(as_prompt, completion), as_prompt.blocks.size() * predict::kBlockBytes);
}

TEST(KeptPrompt, ReadsControlTokensAsTheAppsChatsDo) {
  config::AppManifest app;
  EXPECT_FALSE(std::get<ChatPrompt>(api::kept_prompt(app, prefix_of("p", "x"))).control_tokens_in_content);
  app.chat.control_tokens_in_content = true;
  EXPECT_TRUE(std::get<ChatPrompt>(api::kept_prompt(app, prefix_of("p", "x"))).control_tokens_in_content);
}

TEST(KeptPrompt, IsReadOnceAndIsAllThatIsLeftOfTheText) {
  const auto read = [](const std::string& text, config::KeptPrefix::Role role, bool control = false) {
    auto settings = make_settings();
    settings->apps[0].chat.control_tokens_in_content = control;
    settings->apps[0].keep.push_back(prefix_of("p", text, role));
    api::read_kept_prompts(*settings);
    return settings;
  };
  using Role = config::KeptPrefix::Role;
  const auto one = read("text", Role::system);
  EXPECT_EQ(one->apps[0].keep[0].text, nullptr);
  const auto wishes = api::kept_wishes(*one);
  ASSERT_EQ(wishes.size(), 1U);
  EXPECT_EQ(wishes[0].content, one->kept->at(0)) << "no copy is made";
  const auto& digest = wishes[0].content->digest;
  EXPECT_EQ(digest, read("text", Role::system)->kept->at(0)->digest);
  EXPECT_NE(digest, read("texts", Role::system)->kept->at(0)->digest);
  EXPECT_NE(digest, read("text", Role::user)->kept->at(0)->digest) << "another role is another beginning";
  EXPECT_NE(digest, read("text", Role::system, true)->kept->at(0)->digest);
}

// ---- the daemon -------------------------------------------------------------------------------------------

struct KeptInDaemon : ::testing::Test {
  static std::shared_ptr<settings::Settings> with_prefixes(const std::string& text) {
    auto settings = make_settings();
    settings->apps[0].keep.push_back(prefix_of("rules", text));  // alice's, of the default model
    settings->apps[1].keep.push_back(prefix_of("manual", text));
    api::read_kept_prompts(*settings);
    return settings;
  }
  const std::string text = std::string(40 * 256, 'x');
  Rig rig{with_prefixes(text), make_hardware(true)};
  Answer ask(const std::string& request) {
    Wire wire(rig);
    wire.send(request);
    return wire.answer();
  }
  std::string chat() const {
    return post(kChatPath, R"({"model":"demo","messages":[{"role":"system","content":")" + text +
                               R"("},{"role":"user","content":"Hi"}]})");
  }
  json receipt_of(const Answer& answer) {
    return json::parse(ask(get("/v1/route/receipts/" + answer.field("x-request-id"))).body);
  }
  void run() {
    rig.io.restart();
    rig.io.poll();
  }
};

TEST_F(KeptInDaemon, AReceiptTellsOfTheAppsPrefixesAndOfTheOneThatWasUsed) {
  rig.fleet.open("demo", "cpu");
  run();
  rig.cpu().script = [](const CompletionRequest&) { return Script{.kept = "rules"}; };
  const json receipt = receipt_of(ask(chat()));
  ASSERT_EQ(receipt["kept_prefixes"].size(), 1U) << receipt.dump();
  const json& rules = receipt["kept_prefixes"][0];
  EXPECT_EQ(rules["name"], "rules");
  EXPECT_EQ(rules["engine"], "cpu");
  EXPECT_EQ(rules["state"], "kept");
  EXPECT_EQ(rules["tokens"], kFakeKeptTokens);
  EXPECT_EQ(rules["tokens_in_memory"], kFakeKeptTokens);
  EXPECT_EQ(receipt["kept_prefix"], (json{{"name", "rules"}, {"tokens", 4}}));
  EXPECT_FALSE(receipt.dump().contains("manual")) << "another app's";
}

TEST_F(KeptInDaemon, ARequestThatUsesNoneHasNoneInItsReceipt) {
  const json receipt = receipt_of(ask(chat()));
  EXPECT_EQ(receipt["kept_prefixes"][0]["state"], "waiting") << "the engine is not open to the keeper yet";
  EXPECT_FALSE(receipt.contains("kept_prefix"));
  const json other =
      receipt_of(ask(post(kChatPath, R"({"model":"small","messages":[{"role":"user","content":"x"}]})")));
  EXPECT_FALSE(other.contains("kept_prefixes")) << "the prefix is another model's";
}

TEST_F(KeptInDaemon, TheListIsTheAppsOwnAndTheOperatorsIsWhole) {
  rig.fleet.open("demo", "cpu");
  run();
  const json own = json::parse(ask(get("/v1/prefixes")).body)["prefixes"];
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(own[0]["name"], "rules");
  EXPECT_FALSE(own[0].contains("app"));
  http::Peer peer;
  peer.loopback = true;
  Wire wire(rig, peer);
  wire.send(get("/v1/prefixes", ""));
  const json all = json::parse(wire.answer().body)["prefixes"];
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["app"], "alice");
  EXPECT_EQ(all[0]["state"], "kept");
  EXPECT_EQ(all[1]["app"], "bob");
  EXPECT_EQ(all[1]["state"], "not_loaded");
  EXPECT_FALSE(all[1].contains("engine"));
  EXPECT_EQ(ask(get("/v1/prefixes", "key-of-nobody")).status, 401);
}

TEST_F(KeptInDaemon, AReloadReachesTheEngines) {
  rig.fleet.open("demo", "cpu");
  run();
  ASSERT_EQ(rig.cpu().started.size(), 1U);
  rig.service.reload(with_prefixes("another text"));
  run();
  ASSERT_EQ(rig.cpu().started.size(), 2U);
  rig.service.reload(make_settings());
  run();
  EXPECT_EQ(rig.cpu().started.size(), 2U);
  EXPECT_THAT(rig.cpu().dropped, ElementsAre(Named("alice", "rules"), Named("alice", "rules")))
      << "the old text, and then the new one";
}

TEST_F(KeptInDaemon, SettingsWhosePromptsWereNotReadAgainAskForNothing) {
  rig.cpu().script = [](const CompletionRequest&) {
    Script script;
    script.fail_after = 0;
    script.error = {ErrorCode::token_limit_exceeded, "It failed.", {}, {}};
    return script;
  };
  rig.fleet.open("demo", "cpu");
  run();
  ASSERT_EQ(rig.cpu().started.size(), 1U);
  rig.service.reload(std::make_shared<settings::Settings>(*rig.settings));  // figures were measured
  run();
  EXPECT_EQ(rig.cpu().started.size(), 1U);
  rig.service.reload(with_prefixes(text));
  run();
  EXPECT_EQ(rig.cpu().started.size(), 2U) << "the manifests were read again";
}

// The first request after a load is predicted to find the prefix.
TEST_F(KeptInDaemon, PredictionsCountAKeptPrefixAsCached) {
  const auto cached = [&](const Answer& answer) -> std::int64_t {
    const json receipt = receipt_of(answer);
    for (const json& target : receipt.at("targets"))
      for (const json& fact : target.value("known", json::array()))
        if (target["backend"] == "cpu" && fact["name"] == "cached_tokens")
          return fact.at("value").get<std::int64_t>();
    return -1;
  };
  rig.cpu();
  for (int i = 0; i < 5; ++i)  // the engine's speed is learned
    ask(post(kChatPath,
             R"({"model":"demo","messages":[{"role":"user","content":"Hi )" + std::to_string(i) + R"("}]})"));
  const Answer before = ask(post(kChatPath, R"({"model":"demo","messages":[{"role":"system","content":"z)" +
                                                text + R"("},{"role":"user","content":"Hi"}]})"));
  EXPECT_EQ(cached(before), 0);
  rig.fleet.open("demo", "cpu");
  run();
  EXPECT_GT(cached(ask(chat())), 0);
}

}  // namespace
}  // namespace flyball::testing
