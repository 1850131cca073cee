// The fact backend.<id>.shares_card of machines that exist in words alone.
#include "policy/cards.hpp"

#include <gtest/gtest.h>

#include <string>

namespace flyball::policy {
namespace {

// "yn": vulkan shares its card, and opencl does not; "?": unknown.
std::string shared(std::int64_t cards, const char* unavailable = nullptr) {
  Facts facts;
  if (cards >= 0) facts.set("hardware.gpu.discrete_count", cards, "test");
  if (unavailable != nullptr) facts.set("backend." + std::string(unavailable) + ".available", false, "test");
  derive(facts);
  std::string out;
  for (const char* id : {"vulkan", "opencl"}) {
    const Fact* const fact = facts.get("backend." + std::string(id) + ".shares_card");
    out += fact == nullptr ? "?" : std::get<bool>(fact->value) ? "y" : "n";
  }
  EXPECT_EQ(facts.get("backend.cpu.shares_card"), nullptr);
  return out;
}

TEST(SharedCards, AreThoseOfMoreEnginesThanCards) {
  EXPECT_EQ(shared(-1), "??");
  EXPECT_EQ(shared(0), "nn") << "what they compute on is no card";
  EXPECT_EQ(shared(1), "yy");
  EXPECT_EQ(shared(2), "nn");
  EXPECT_EQ(shared(1, "opencl"), "n?") << "one engine is left";
}

TEST(SharedCards, KeepsWhatIsSet) {
  Facts facts;
  facts.set("hardware.gpu.discrete_count", std::int64_t{2}, "probe");
  facts.set("backend.vulkan.shares_card", true, "probe");
  derive(facts);
  EXPECT_TRUE(facts.is_true(*find_fact("backend.vulkan.shares_card")));
  EXPECT_FALSE(facts.is_true(*find_fact("backend.opencl.shares_card")));
  EXPECT_EQ(facts.get("backend.opencl.shares_card")->from.size(), 1U) << "a receipt says from what";
}

}  // namespace
}  // namespace flyball::policy
