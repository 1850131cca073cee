// The tool set that declared tools and a choice come to, by the rule that all APIs share.
#include "daemon/api/declared_tools.hpp"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/harness/packed.hpp"

namespace flyball::api {
namespace {

// "a", "b" (strict) and "c".
DeclaredTools three_tools() {
  DeclaredTools out;
  EXPECT_TRUE(out.add("a"));
  EXPECT_TRUE(out.add("b", true));
  EXPECT_TRUE(out.add("c"));
  out.json =
      test::packed(R"([{"function":{"name":"a"}},{"function":{"name":"b"}},{"function":{"name":"c"}}])");
  return out;
}

std::string names_of(const ToolSet& set) {
  std::string out;
  for (const auto& [key, tool] : set.tools.view().members()) out += tool.find("function").find("name").text();
  return out;
}

TEST(DeclaredTools, AnEarlierToolKeepsItsName) {
  DeclaredTools tools = three_tools();
  EXPECT_FALSE(tools.add("b"));
  EXPECT_EQ(tools.all().size(), 3U);
  EXPECT_EQ(tools.find("b"), 1U);
  EXPECT_FALSE(tools.find("d"));
}

TEST(DeclaredTools, AChoiceOfAllHasTheClientsPlaces) {
  const auto set = choose_tools(
      three_tools(), {.choice = ToolSet::Choice::required, .named = "c", .parallel = false}, "input_schema");
  ASSERT_TRUE(set);
  EXPECT_EQ(names_of(*set), "abc");
  EXPECT_EQ(set->choice, ToolSet::Choice::required);
  EXPECT_EQ(set->named, "c");
  EXPECT_FALSE(set->parallel);
  EXPECT_TRUE(set->strict);
  EXPECT_EQ(set->schema_place(2), "tools[2].input_schema");
}

TEST(DeclaredTools, AllowedToolsKeepTheirPlacesInTheRequest) {
  const auto set = choose_tools(three_tools(), {.allowed = {true, false, true}}, "parameters");
  ASSERT_TRUE(set);
  EXPECT_EQ(names_of(*set), "ac");
  EXPECT_EQ(set->schema_place(1), "tools[2].parameters");
  EXPECT_FALSE(set->strict) << "the strict tool is not among them";
  EXPECT_TRUE(choose_tools(three_tools(), {.allowed = {false, true, false}}, "parameters")->strict);
}

TEST(DeclaredTools, NoToolIsLeftWhereNoneIsDeclaredOrChosen) {
  EXPECT_EQ(choose_tools({}, {}, "parameters"), nullptr);
  EXPECT_EQ(choose_tools(three_tools(), {.choice = ToolSet::Choice::none}, "parameters"), nullptr);
  EXPECT_TRUE(lacks_demanded_tools({}, {.choice = ToolSet::Choice::required}));
  EXPECT_FALSE(lacks_demanded_tools({}, {}));
  EXPECT_FALSE(lacks_demanded_tools(three_tools(), {.choice = ToolSet::Choice::required}));
}

}  // namespace
}  // namespace flyball::api
