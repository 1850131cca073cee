// The table of cards and machines: the shipped one, and each kind of mistake in another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "policy/machines.hpp"

namespace flyball::policy {
namespace {

using testing::HasSubstr;

const Machine* machine(std::string_view name) {
  for (const Machine& one : shipped_machines())
    if (std::ranges::find(one.names, name) != one.names.end()) return &one;
  return nullptr;
}

TEST(Machines, ShippedRowsHaveUniqueNamesNumbersAndSources) {
  EXPECT_GE(shipped_machines().size(), 140U);
  EXPECT_LE(shipped_machines().size(), 150U);
  std::set<std::string> names;
  for (const Machine& one : shipped_machines()) {
    for (const std::string& name : one.names) {
      EXPECT_TRUE(names.insert(name).second) << name;
      EXPECT_TRUE(std::ranges::none_of(name, [](unsigned char c) { return std::isupper(c); })) << name;
    }
    EXPECT_TRUE(std::ranges::is_sorted(one.memory)) << one.names.front();
    EXPECT_LE(one.memory.back(), 512) << one.names.front();
    EXPECT_LE(std::ranges::max(one.bandwidth), 8000) << one.names.front();
    EXPECT_GT(one.source.size(), 10U) << one.names.front();
    EXPECT_EQ(one.vendor == "nvidia", !one.generation.empty()) << one.names.front();
    EXPECT_EQ(one.kind == Machine::Class::no_gpu, one.vendor == "none") << one.names.front();
  }
}

TEST(Machines, ANameWithSeveralSizesSaysNone) {
  ASSERT_TRUE(machine("3080") && machine("4070 ti super") && machine("strix halo") && machine("pi 5"));
  EXPECT_EQ(machine("3080")->only_memory(), 0);
  EXPECT_TRUE(machine("3080")->has_memory(10));
  EXPECT_FALSE(machine("3080")->has_memory(24));
  EXPECT_EQ(machine("4070 ti super")->only_memory(), 16);
  EXPECT_EQ(machine("strix halo")->kind, Machine::Class::unified);
  EXPECT_EQ(machine("pi 5")->kind, Machine::Class::no_gpu);
}

TEST(Machines, MistakesAreNamedWithTheirLine) {
  const auto error = [](const std::string& row) {
    const auto parsed = parse_machines(
        "names\tvendor\tclass\tmemory_gib\tbandwidth_gbps\tgeneration\tsource\n" + row, "m.tsv");
    return parsed ? std::string("loads") : parsed.error().where + " " + parsed.error().message;
  };
  EXPECT_EQ(error("a|b\tnvidia\tdiscrete\t8/16\t300\tada\ts\n"), "loads");
  EXPECT_EQ(error("a\tnvidia\tdiscrete\t8\t300\tada\n"), "m.tsv:2 6 columns, expected 7");
  EXPECT_EQ(error("a\tnvida\tdiscrete\t8\t300\tada\ts\n"), "m.tsv:2 unknown vendor \"nvida\"");
  EXPECT_EQ(error("a\tnvidia\tcard\t8\t300\tada\ts\n"), "m.tsv:2 unknown class \"card\"");
  EXPECT_EQ(error("a\tnvidia\tdiscrete\t8\t300\tada\t\n"), "m.tsv:2 a column is empty");
  for (const char* size : {"eight", "0", "-8", "8/", "1e9", "inf", "nan"})
    EXPECT_THAT(error("a\tnvidia\tdiscrete\t" + std::string(size) + "\t300\tada\ts\n"),
                HasSubstr("is no list of positive numbers"))
        << size;
  EXPECT_EQ(error("a\tnvidia\tdiscrete\t8\t300\tada\ts\nb|a\tnvidia\tdiscrete\t8\t300\tada\ts\n"),
            "m.tsv:3 the name \"a\" stands in line 2, too");
  const auto headless = parse_machines("a\tb\n", "m.tsv");
  ASSERT_FALSE(headless);
  EXPECT_EQ(headless.error().where, "m.tsv:1");
}

}  // namespace
}  // namespace flyball::policy
