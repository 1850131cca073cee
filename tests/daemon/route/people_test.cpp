// Counts people's answers by the cores and cards that compute them.
#include "daemon/route/people.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flyball::route {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct PeopleTest : ::testing::Test {
  std::vector<People::Kinds> told;
  // OpenCL has a card; Vulkan computes beside the processor, in its memory.
  std::shared_ptr<People> people = std::make_shared<People>(
      predict::DeviceGroups{{"opencl"}}, [this](const People::Kinds& kinds) { told.push_back(kinds); });
};

TEST_F(PeopleTest, AreToldWhenTheFirstAnswerBeginsAndTheLastEnds) {
  {
    const auto one = people->at("cpu");
    const auto other = people->at("vulkan");
    EXPECT_THAT(people->kinds(), ElementsAre("cpu", "vulkan"))
        << "what computes in one memory slows each other";
  }
  EXPECT_THAT(told, ElementsAre(ElementsAre("cpu", "vulkan"), IsEmpty()));
}

TEST_F(PeopleTest, OfACardAreApart) {
  const auto card = people->at("opencl:pinned");
  EXPECT_THAT(people->kinds(), ElementsAre("opencl"));
  const auto cores = people->at("cpu:pinned");
  EXPECT_THAT(people->kinds(), ElementsAre("cpu", "vulkan", "opencl"));
}

TEST_F(PeopleTest, MoveWithTheirAnswer) {
  auto place = people->at("cpu");
  place = people->at("cpu:pinned");
  EXPECT_EQ(told.size(), 1U) << "the cores are the same";
  place = people->at("opencl");
  EXPECT_THAT(people->kinds(), ElementsAre("opencl"));
  auto elsewhere = std::move(place);
  place = {};
  EXPECT_THAT(people->kinds(), ElementsAre("opencl"));
  elsewhere = {};
  EXPECT_THAT(people->kinds(), IsEmpty());
}

}  // namespace
}  // namespace flyball::route
