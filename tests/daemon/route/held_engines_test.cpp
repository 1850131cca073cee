// The dispatcher tells the fleet which engines yield to the answers that people wait for, and how long.
#include <gmock/gmock.h>

#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kYieldingPolicy = R"(profiles:
  behind: {because: b, place: behind}
  yielding: {because: b, engine: own, yields: true}
  pinned: {because: b, engine: own, place: ahead}
rules:
  - {id: yielding, because: b, when: {fact: request.max_tokens, eq: 3}, use: 'cpu:yielding'}
  - {id: behind, because: b, when: {fact: request.max_tokens, eq: 5}, use: 'cpu:behind'}
  - {id: pinned, because: b, when: {fact: request.max_tokens, eq: 7}, use: 'cpu:pinned'}
  - {id: card, because: b, when: {fact: request.max_tokens, eq: 9}, use: vulkan}
default: {because: b, use: [cpu, vulkan]}
)";

// Vulkan computes on a card; OpenCL, which has none here, on the cores.
struct HeldEngines : ::testing::Test {
  std::unique_ptr<Rig> rig = make_rig();
  const std::vector<std::string> cores{"cpu", "opencl"}, card{"vulkan"}, nobody;

  std::unique_ptr<Rig> make_rig(config::WorkloadClass kind = config::WorkloadClass::chat) {
    auto settings = make_settings();
    settings->tree = tree_of(kYieldingPolicy);
    settings->apps[0].workload.kind = kind;
    fleet::MemoryStatus memory;
    memory.pools = {{"machine", 1 << 30, 0, 1 << 30, 0, 0, {}},
                    {"card", 1 << 30, 0, 1 << 30, 0, 0, {{"vulkan", 1 << 30}}}};
    auto made = std::make_unique<Rig>(settings, make_hardware(true), nullptr, api::all_codecs(),
                                      &api::ConstraintVerdicts::compile, memory);
    made->cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
    return made;
  }
  static std::string chat(const std::string& more = "") {
    return post(kChatPath,
                R"({"model":"demo","messages":[{"role":"user","content":"Hi"}],"stream":true)" + more + "}");
  }
  FakeBackend& engine(const std::string& id) { return rig->fleet.backend("demo", id); }
  const std::vector<std::vector<std::string>>& holds() const { return rig->fleet.holds; }
  void emit(Wire& wire, std::uint32_t tokens, std::size_t sequences = SIZE_MAX) {
    rig->cpu().emit(tokens, sequences);
    wire.run();
  }
};

TEST_F(HeldEngines, StandStillFromAnAnswersStartToItsEnd) {
  rig->fleet.hold_acquires = true;
  Wire wire(*rig);
  wire.send(chat());
  EXPECT_THAT(holds(), IsEmpty()) << "its engine loads";
  ASSERT_EQ(rig->fleet.held.size(), 1U);
  rig->fleet.held[0](&rig->cpu());
  wire.run();
  EXPECT_THAT(holds(), ElementsAre(cores)) << "its prompt is computed";
  emit(wire, 3);
  EXPECT_THAT(holds(), ElementsAre(cores));
  emit(wire, 2);
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_THAT(holds(), ElementsAre(cores, nobody));
}

TEST_F(HeldEngines, StandStillUntilTheLastOfSeveralAnswersEnds) {
  Wire wire(*rig);
  wire.send(chat(R"(,"n":2)"));
  ASSERT_EQ(rig->cpu().live(), 2U);
  emit(wire, 5, 1);
  ASSERT_EQ(rig->cpu().live(), 1U);
  EXPECT_THAT(holds(), ElementsAre(cores));
  emit(wire, 5);
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_THAT(holds(), ElementsAre(cores, nobody));
}

TEST_F(HeldEngines, StandStillUntilTheLastOfTwoRequestsEnds) {
  Wire one(*rig), other(*rig);
  one.send(chat());
  other.send(chat());
  ASSERT_EQ(rig->cpu().live(), 2U);
  one.hang_up();
  EXPECT_THAT(holds(), ElementsAre(cores));
  other.hang_up();
  EXPECT_THAT(holds(), ElementsAre(cores, nobody));
}

TEST_F(HeldEngines, GoOnWhereTheClientLeaves) {
  Wire wire(*rig);
  wire.send(chat());
  emit(wire, 2);
  EXPECT_THAT(holds(), ElementsAre(cores));
  wire.hang_up();
  EXPECT_THAT(holds(), ElementsAre(cores, nobody));
}

TEST_F(HeldEngines, GoOnWhereTheAnswerFails) {
  rig->cpu().script = [](const CompletionRequest&) {
    return Script{.fail_after = 2, .error = {ErrorCode::internal, "It computed nonsense.", {}, {}}};
  };
  Wire wire(*rig);
  wire.send(chat());
  EXPECT_THAT(holds(), ElementsAre(cores, nobody));
}

TEST_F(HeldEngines, GoOnWhereTheEngineRefusesTheRequest) {
  rig->cpu().script = [](const CompletionRequest&) {
    return Script{.refuse = Error{ErrorCode::invalid_value, "It cannot be.", {}, {}}};
  };
  Wire wire(*rig);
  wire.send(chat());
  EXPECT_THAT(holds(), ElementsAre(cores, nobody));
}

TEST_F(HeldEngines, StandStillAgainWhenAnEngineThatDiedIsBack) {
  rig->cpu().script = [n = 0](const CompletionRequest&) mutable {
    return n++ == 0 ? Script{.fail_after = 2} : Script{};
  };
  Wire wire(*rig);
  wire.send(chat());
  EXPECT_EQ(text_of(frames(wire.answer())), "t0 t1 t2 t3 ");
  ASSERT_EQ(rig->cpu().started.size(), 2U);
  EXPECT_THAT(holds(), ElementsAre(cores, nobody, cores, nobody)) << "they go on while it starts";
}

TEST_F(HeldEngines, AreThoseWhereTheAnswerMovesTo) {
  rig->cpu().script = [](const CompletionRequest&) {
    return Script{.fail_after = 2, .error = {ErrorCode::device_lost, "It is gone.", {}, {}}};
  };
  Wire wire(*rig);
  wire.send(chat());
  EXPECT_EQ(text_of(frames(wire.answer())), "t0 t1 t2 t3 ");
  ASSERT_EQ(rig->vulkan().started.size(), 1U);
  EXPECT_THAT(holds(), ElementsAre(cores, nobody, card, nobody));
}

TEST_F(HeldEngines, AreThoseOfTheCardWhereThatComputes) {
  Wire wire(*rig);
  wire.send(chat(R"(,"max_tokens":9)"));
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_THAT(holds(), ElementsAre(card, nobody));
}

TEST_F(HeldEngines, YieldToAnEngineOfItsOwnToo) {
  Wire wire(*rig);
  wire.send(chat(R"(,"max_tokens":7)"));
  ASSERT_EQ(engine("cpu:pinned").started.size(), 1U);
  EXPECT_THAT(holds(), ElementsAre(cores, nobody));
}

TEST_F(HeldEngines, DoNotYieldToOneAnother) {
  Wire wire(*rig);
  wire.send(chat(R"(,"max_tokens":3)"));
  ASSERT_EQ(engine("cpu:yielding").started.size(), 1U);
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_THAT(holds(), IsEmpty());
}

TEST_F(HeldEngines, DoNotYieldToWorkBehindPeople) {
  Wire wire(*rig);
  wire.send(chat(R"(,"max_tokens":5)"));
  emit(wire, 5);
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_THAT(holds(), IsEmpty());
}

TEST_F(HeldEngines, DoNotYieldToBatchWork) {
  rig = make_rig(config::WorkloadClass::batch);
  Wire wire(*rig);
  wire.send(chat());
  emit(wire, 5);
  EXPECT_EQ(wire.answer().status, 200);
  EXPECT_THAT(holds(), IsEmpty());
}

}  // namespace
}  // namespace flyball::testing
