// Words to facts, what a description leaves open, and advice where it stands apart from the decision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "backends/model/family.hpp"
#include "config/capabilities.hpp"
#include "config/config.hpp"
#include "config/engine_kinds.hpp"
#include "policy/advice.hpp"
#include "policy/fact_text.hpp"
#include "policy/machines.hpp"
#include "policy/scenario.hpp"

namespace flyball::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Facts words(std::string_view text) {
  Facts facts;
  const auto ok = read_scenario(text, facts);
  EXPECT_TRUE(ok) << ok.error().message;
  return facts;
}
std::int64_t integer(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  EXPECT_TRUE(fact) << name;
  return fact ? std::get<std::int64_t>(fact->value) : -1;
}
std::string text(const Facts& facts, std::string_view name) {
  const Fact* fact = facts.get(name);
  return fact ? std::get<std::string>(fact->value) : "unknown";
}

TEST(Scenario, WordsSetFacts) {
  const Facts facts =
      words("Two RTX 3090s with 128 GiB memory, a 70B model, 50 users, 8K, 1.5K prompts; private");
  EXPECT_EQ(integer(facts, "hardware.gpu.discrete_count"), 2);
  EXPECT_EQ(integer(facts, "hardware.gpu.memory"), 24LL << 30);
  EXPECT_EQ(text(facts, "hardware.gpu.vendor"), "nvidia");
  EXPECT_EQ(integer(facts, "hardware.memory.total"), 128LL << 30);
  EXPECT_EQ(integer(facts, "model.parameters"), 70'000'000'000);
  EXPECT_EQ(integer(facts, "model.bytes"), 39'375'000'000);
  EXPECT_EQ(integer(facts, "workload.concurrency"), 50);
  EXPECT_EQ(integer(facts, "model.context"), 8192);
  EXPECT_EQ(integer(facts, "workload.prompt_tokens"), 1536);
  EXPECT_EQ(text(facts, "app.privacy"), "local_only");
  EXPECT_EQ(facts.get("model.moe"), nullptr);
  ASSERT_TRUE(facts.get("app.privacy"));
  EXPECT_EQ(facts.get("app.privacy")->source, "words");
}

// A comma parts what is said: a number belongs to its own phrase.
TEST(Scenario, TheLongestRowThatFits) {
  EXPECT_EQ(integer(words("batch 16"), "workload.batch_size"), 16);
  const Facts parted = words("batch, 16 users");
  EXPECT_EQ(text(parted, "workload.class"), "batch");
  EXPECT_EQ(integer(parted, "workload.concurrency"), 16);
  EXPECT_EQ(integer(words("RTX PRO 6000"), "hardware.gpu.memory"), 96LL << 30);
  EXPECT_EQ(integer(words("8x H100"), "hardware.gpu.discrete_count"), 8);
  EXPECT_EQ(integer(words("two macs"), "hardware.cluster.nodes"), 2);
}

Reading read(std::string_view text) {
  Facts facts;
  auto reading = read_scenario(text, facts);
  EXPECT_TRUE(reading) << reading.error().message;
  return reading.value_or(Reading{});
}

TEST(Scenario, WordsThatSayNothingAreSkippedAndNamed) {
  EXPECT_THAT(read("RTX 4090, caht, foo42 please").skipped, ElementsAre("caht", "foo42"));
  EXPECT_THAT(read("mac, 50").skipped, ElementsAre("50"));
  EXPECT_THAT(read("9999999 users").skipped, ElementsAre("9999999"));
  EXPECT_THAT(read("mac \xff\xfe, \"'$(x)\x1b[31m").skipped, testing::Contains("??"));
  EXPECT_THAT(read("chat, 24 GB").notes, ElementsAre(HasSubstr("say VRAM or RAM")));
  EXPECT_TRUE(read("").understood.empty());
  Facts facts;
  const auto too_long = read_scenario(std::string(2001, ' '), facts);
  ASSERT_FALSE(too_long);
  EXPECT_THAT(too_long.error().message, HasSubstr("the limit is 2000"));
}

TEST(Scenario, OneSlipOfALongWordIsCorrectedAndNamed) {
  EXPECT_THAT(read("one radeno").notes, ElementsAre("\"radeno\" is read as \"radeon\""));
  EXPECT_EQ(text(words("one radeno"), "hardware.gpu.vendor"), "amd");
  EXPECT_THAT(read("one arx").skipped, ElementsAre("arx"));  // too short to guess at
}

TEST(Scenario, CountsMayBeGluedAndStandOnEitherSide) {
  for (const char* said : {"2x3090", "2 x 3090", "2x RTX3090", "two RTX 3090s", "3090 x2", "RTX 3090x2",
                           "2\xC3\x97\x33\x30\x39\x30"}) {
    const Facts facts = words(said);
    EXPECT_EQ(integer(facts, "hardware.gpu.discrete_count"), 2) << said;
    EXPECT_EQ(integer(facts, "hardware.gpu.memory"), 24LL << 30) << said;
  }
  EXPECT_EQ(integer(words("2xMacStudio"), "hardware.cluster.nodes"), 2);
  EXPECT_EQ(integer(words("8xH100"), "hardware.gpu.discrete_count"), 8);
  EXPECT_EQ(words("a 100 users").get("hardware.gpu.vendor"), nullptr);  // no A100
  EXPECT_EQ(words("2018 macbook").get("hardware.cluster.nodes"), nullptr);
}

TEST(Scenario, ACountMayStandBeforeASizeAndBehindIt) {
  for (const char* said :
       {"2 x 24GB GPUs", "two 24 GB cards", "2x 24gb rtx 3090", "two of the 24gb 3090s",
        "rtx 3090 24gb 2 of them", "rtx 3090 24GB x2", "rtx 3090, 24GB, x2", "3090 (24gb) 2x", "2x 24gb vram",
        "a pair of 3090s", "couple of 3090s, 48gb total", "2x3090 48gb"}) {
    const Facts facts = words(said);
    EXPECT_EQ(integer(facts, "hardware.gpu.discrete_count"), 2) << said;
    EXPECT_EQ(integer(facts, "hardware.gpu.memory"), 24LL << 30) << said;
    EXPECT_EQ(facts.get("hardware.memory.total"), nullptr) << said;
    EXPECT_TRUE(read(said).skipped.empty()) << said;
  }
  EXPECT_EQ(integer(words("rtx 3060 12GB x2"), "hardware.gpu.memory"), 12LL << 30);
  EXPECT_EQ(integer(words("2x32GB RAM and a 4090"), "hardware.memory.total"), 64LL << 30);
  EXPECT_EQ(integer(words("2x32GB RAM and a 4090"), "hardware.gpu.discrete_count"), 1);
  EXPECT_EQ(integer(words("two 64gb mac studios"), "hardware.cluster.nodes"), 2);
  EXPECT_EQ(integer(words("4090, 50 users, 10 of them at once"), "hardware.gpu.discrete_count"), 1);
  EXPECT_THAT(read("4x24gb").skipped, ElementsAre("4", "24gb"));
}

TEST(Scenario, EachIsOfTheMachineOrCardBeforeIt) {
  for (const char* said :
       {"four mac studios with 64gb each", "4 macs, 64gb each", "4x mac mini m4 pro 64gb each",
        "4 servers with 64gb each", "4 macs, 256gb total"}) {
    const Facts facts = words(said);
    EXPECT_EQ(integer(facts, "hardware.cluster.nodes"), 4) << said;
    EXPECT_EQ(integer(facts, "hardware.memory.total"), 64LL << 30) << said;
    EXPECT_EQ(facts.get("hardware.gpu.memory"), nullptr) << said;
  }
  EXPECT_EQ(integer(words("2 x RTX A5000 (24GB each)"), "hardware.gpu.memory"), 24LL << 30);
  for (const char* said :
       {"2 servers with 4x H100 each", "8 H100 across 2 servers", "2 servers with 8 H100 in total"}) {
    const Facts facts = words(said);
    EXPECT_EQ(integer(facts, "hardware.cluster.nodes"), 2) << said;
    EXPECT_EQ(integer(facts, "hardware.gpu.discrete_count"), 4) << said;
  }
  EXPECT_THAT(read("3 H100 across 2 servers").notes, ElementsAre(HasSubstr("1 in each are taken")));
}

TEST(Scenario, ATotalOfRamIsNoMemoryOfCards) {
  for (const char* said : {"128 gb total ram", "128gb ram total and a 3090", "128 gb total ram, 2x3090",
                           "laptop with 128 gb in total"}) {
    const Facts facts = words(said);
    EXPECT_EQ(integer(facts, "hardware.memory.total"), 128LL << 30) << said;
    EXPECT_EQ(facts.get("hardware.gpu.memory_total"), nullptr) << said;
  }
  EXPECT_EQ(integer(words("48gb total vram, 2 cards"), "hardware.gpu.memory_total"), 48LL << 30);
  EXPECT_EQ(integer(words("48gb across two cards"), "hardware.gpu.memory_total"), 48LL << 30);
  EXPECT_THAT(read("4090, 64 gb total").skipped, ElementsAre("64 gb total"));
  EXPECT_EQ(words("4090, 64 gb total").get("hardware.gpu.memory_total"), nullptr);
}

TEST(Scenario, ASizeThatACardWasNotSoldWithIsAskedFor) {
  for (const char* said : {"rtx 3060 16gb", "2080 ti 22gb", "4060 laptop 8gb"}) {
    EXPECT_THAT(read(said).notes, ElementsAre(HasSubstr("say VRAM or RAM"))) << said;
    EXPECT_EQ(words(said).get("hardware.memory.total"), nullptr) << said;
  }
  EXPECT_EQ(integer(words("rtx 4070 laptop 32gb"), "hardware.memory.total"), 32LL << 30);
  EXPECT_EQ(integer(words("2080 ti 22gb vram"), "hardware.gpu.memory"), 22LL << 30);
}

TEST(Scenario, RangesAndMagnitudesAreOneNumber) {
  const std::pair<const char*, std::int64_t> loads[] = {{"10-20 users", 20},
                                                        {"10 to 20 users", 20},
                                                        {"10\xE2\x80\x93\x32\x30 users", 20},
                                                        {"between 10 and 20 users", 20},
                                                        {"1.5k users", 1500},
                                                        {"2k concurrent users", 2000},
                                                        {"a hundred users", 100},
                                                        {"two hundred people", 200},
                                                        {"half a dozen devs", 6},
                                                        {"a hundred requests at once", 100},
                                                        {"5 to 8 agents in parallel", 8}};
  for (const auto& [said, load] : loads) {
    EXPECT_EQ(integer(words(said), "workload.concurrency"), load) << said;
    EXPECT_TRUE(read(said).skipped.empty()) << said;
  }
  EXPECT_THAT(read("10 - 20 users").notes, ElementsAre("\"10-20 users\" is a range: 20 is taken"));
  EXPECT_EQ(integer(words("8-16k context"), "model.context"), 16384);
  EXPECT_EQ(integer(words("16-24 GB vram"), "hardware.gpu.memory"),
            16LL << 30);  // the load fits into the less
  EXPECT_EQ(integer(words("2-4 gpus"), "hardware.gpu.discrete_count"), 2);
  // A dash behind the number of a product makes no range.
  for (const char* said : {"Raspberry Pi 5 - 8GB", "Ryzen 7 - 32GB RAM"}) {
    EXPECT_TRUE(read(said).notes.empty()) << said;
    EXPECT_EQ(integer(words(said), "hardware.memory.total"), (said[1] == 'a' ? 8LL : 32LL) << 30) << said;
  }
  EXPECT_EQ(integer(words("qwen3-30b-a3b, 8 users"), "model.parameters"), 30'000'000'000);
  EXPECT_THAT(read("20-10 users").skipped, ElementsAre("20"));
  EXPECT_EQ(integer(words("a few hundred users"), "workload.concurrency"), 32);  // as "hundreds of users"
  for (const char* said : {"batch of 32", "batch size 32", "batch size of 32"})
    EXPECT_EQ(integer(words(said), "workload.batch_size"), 32) << said;
  for (const char* said : {"500 users per month", "a thousand requests", "10k users a day"})
    EXPECT_EQ(words(said).get("workload.concurrency"), nullptr) << said;
}

TEST(Scenario, AModelAndItsSizeAreOneModel) {
  for (const char* said : {"deepseek r1 671b", "deepseek-r1:671b", "the 671b deepseek r1",
                           "deepseek v3 0324 671b", "deepseek r1 q4_k_m 671b"}) {
    const Reading reading = read(said);
    ASSERT_THAT(reading.models, testing::SizeIs(1)) << said;
    EXPECT_EQ(reading.models.front().parameters, 671'000'000'000) << said;
    EXPECT_EQ(text(words(said), "model.architecture"), "deepseek2") << said;
  }
  EXPECT_THAT(read("tinyllama 1.1b").models, testing::SizeIs(1));
  EXPECT_THAT(read("gpt oss 20b and gpt oss 120b").models, testing::SizeIs(2));
  for (const char* said : {"deepseek r1 32b", "32b deepseek r1"}) {  // a dense one, distilled
    const Facts facts = words(said);
    EXPECT_EQ(integer(facts, "model.parameters"), 32'000'000'000) << said;
    EXPECT_EQ(facts.get("model.moe"), nullptr) << said;
    EXPECT_EQ(facts.get("model.architecture"), nullptr) << said;
    EXPECT_THAT(read(said).models, testing::SizeIs(1)) << said;
    EXPECT_THAT(read(said).notes, ElementsAre(HasSubstr("another model than the one of 671B"))) << said;
  }
  EXPECT_EQ(integer(words("llama 4 scout 17b"), "model.parameters"),
            109'000'000'000);  // 17B of them at a time
  EXPECT_THAT(read("llama 70b or qwen 32b").models, testing::SizeIs(1));
  EXPECT_THAT(read("llama 70b or qwen 32b").notes, ElementsAre(HasSubstr("the advice is for 70b")));
}

TEST(Scenario, AMacOfIntelsTimeIsNoAppleSilicon) {
  for (const char* said : {"2015 macbook pro", "macbook pro (2015)", "mac pro xeon", "mac mini 2018 i7",
                           "imac 2020", "2021 mac pro", "intel mac mini", "macbook pro intel"}) {
    const Facts facts = words(said);
    EXPECT_EQ(facts.get("hardware.gpu.integrated_count"), nullptr) << said;
    EXPECT_EQ(facts.get("hardware.gpu.vendor"), nullptr) << said;
    EXPECT_EQ(text(facts, "hardware.os"), "macos") << said;
  }
  for (const char* said : {"2021 macbook pro", "2020 m1 macbook air", "2023 mac pro m2 ultra", "mac studio"})
    EXPECT_EQ(text(words(said), "hardware.gpu.vendor"), "apple") << said;
  EXPECT_EQ(words("2020 macbook air").get("hardware.gpu.vendor"), nullptr);
  EXPECT_THAT(read("2020 macbook air").notes,
              ElementsAre(HasSubstr("an Intel processor or an M1: say which")));
  EXPECT_EQ(text(words("mac pro 2019 with a radeon rx 580"), "hardware.gpu.vendor"), "amd");
}

TEST(Scenario, OfTwoMachinesTheFirstIsAnsweredAndTheOtherNamed) {
  struct Row {
    const char *said, *other, *vendor;
  };
  constexpr Row kRows[] = {
      {"a mac mini and a 4090 pc", "4090 pc", "apple"},
      {"a 4090 pc and a mac mini", "mac mini", "nvidia"},
      {"macbook pro m3 and a desktop with a 3090 and 64gb ram", "desktop 3090 64gb ram", "apple"},
      {"mac mini 4090", "4090", "apple"},
      {"jetson orin nano and an m2 air", "m2 air", "nvidia"},
      {"pc with a 4090 and a laptop with a 7900 xtx", "laptop 7900 xtx", "nvidia"},
      {"a mac studio for chat and a 4090 server for batch jobs", "4090 server", "apple"},
      {"m1 max 64gb and m2 ultra 192gb", "m2 ultra 192gb", "apple"},
      {"a mac mini and a windows 4090 pc, and the mac mini has 64gb", "windows 4090 pc", "apple"},
      {"one 3090 in my desktop and one 7900 xtx in my server", "one 7900 xtx server", "nvidia"},
  };
  for (const Row& row : kRows) {
    const Facts facts = words(row.said);
    EXPECT_EQ(text(facts, "hardware.gpu.vendor"), row.vendor) << row.said;
    EXPECT_THAT(read(row.said).skipped, testing::Contains(row.other)) << row.said;
    EXPECT_THAT(read(row.said).notes, testing::Contains(HasSubstr("is another machine and is skipped")))
        << row.said;
    const bool discrete = facts.get("hardware.gpu.discrete_count") != nullptr;
    EXPECT_NE(discrete, facts.get("hardware.gpu.integrated_count") != nullptr) << row.said;
  }
  EXPECT_EQ(integer(words("m1 max 64gb and m2 ultra 192gb"), "hardware.memory.total"), 64LL << 30);
  EXPECT_EQ(
      integer(words("a mac mini and a windows 4090 pc, and the mac mini has 64gb"), "hardware.memory.total"),
      64LL << 30);
  EXPECT_EQ(text(words("a mac mini and a windows 4090 pc"), "hardware.os"), "macos");
  EXPECT_EQ(words("a mac mini and a pc without a GPU").get("hardware.gpu.count"), nullptr);
  const Facts alternative = words("4090 or a mac studio with 64gb, 32 gb ram");
  EXPECT_EQ(text(alternative, "hardware.gpu.vendor"), "nvidia");
  EXPECT_EQ(integer(alternative, "hardware.memory.total"), 32LL << 30);
  for (const char* one :
       {"a 4090 and a 3090 in my pc", "4090 and 64gb ram in my desktop", "laptop with i7 and a 4090",
        "mac mini server", "gaming pc with a ryzen 7 and two 3090", "desktop mac", "strix halo mini pc",
        "m4 max with a 40 core gpu", "apple m4 ipad pro", "linux box server with a 3090", "1x4090+1x3090",
        "windows laptop and an rtx 4070 in it"})
    EXPECT_THAT(read(one).notes, testing::Not(testing::Contains(HasSubstr("another machine")))) << one;
  EXPECT_EQ(words("a 4090 server").get("hardware.cluster.nodes"), nullptr);  // no 4090 of them
}

TEST(Scenario, APriceIsNoCardAndNoYear) {
  for (const char* said :
       {"$3090", "3090 euros", "budget of 1080", "\xE2\x82\xAC\x32\x30\x36\x30", "1060\xE2\x82\xAC"}) {
    EXPECT_EQ(words(said).get("hardware.gpu.discrete_count"), nullptr) << said;
    EXPECT_FALSE(read(said).understood.empty()) << said;
  }
  EXPECT_EQ(integer(words("2k usd, 4090"), "hardware.gpu.discrete_count"), 1);
  EXPECT_EQ(integer(words("budget 3090 build"), "hardware.gpu.discrete_count"), 1);
  EXPECT_EQ(integer(words("3090 \xE2\x82\xAC\x37\x30\x30"), "hardware.gpu.discrete_count"), 1);
  EXPECT_EQ(words("amd 5700g apu").get("hardware.memory.total"), nullptr);  // no 5700 GB
  EXPECT_THAT(read("rtx 2000 ada").skipped, ElementsAre("2000", "ada"));
}

TEST(Scenario, ASizeBelongsToTheMachineBesideIt) {
  const Facts both = words("2x3090, 128 GB, 70B");  // no 3090 has 128 GB
  EXPECT_EQ(integer(both, "hardware.gpu.memory"), 24LL << 30);
  EXPECT_EQ(integer(both, "hardware.memory.total"), 128LL << 30);
  EXPECT_EQ(integer(words("3080, 12 GB"), "hardware.gpu.memory"), 12LL << 30);
  EXPECT_EQ(words("3080").get("hardware.gpu.memory"), nullptr);
  EXPECT_EQ(integer(words("4GB gtx 1650"), "hardware.gpu.memory"), 4LL << 30);
  EXPECT_EQ(integer(words("4090 laptop"), "hardware.gpu.memory"), 16LL << 30);
  EXPECT_EQ(integer(words("laptop with an RTX 4070"), "hardware.gpu.memory"), 8LL << 30);
  EXPECT_EQ(words("RTX 3080 laptop").get("hardware.gpu.memory"), nullptr);  // no row has it
}

TEST(Scenario, AVolumeIsNoConcurrency) {
  for (const char* said : {"20 requests a day", "10k emails a day", "a million documents",
                           "3 requests per second", "every 5 minutes"}) {
    EXPECT_EQ(words(said).get("workload.concurrency"), nullptr) << said;
    EXPECT_EQ(words(said).get("model.context"), nullptr) << said;
    EXPECT_TRUE(read(said).skipped.empty()) << said;
  }
  EXPECT_EQ(integer(words("20 requests"), "workload.concurrency"), 20);
  EXPECT_EQ(integer(words("200 employees, maybe 5 at the same time"), "workload.concurrency"), 5);
  EXPECT_EQ(integer(words("family of five"), "workload.concurrency"), 5);
}

TEST(Scenario, ModelsHaveSizesAndQuantizations) {
  const Facts qwen = words("qwen3 32b q4_k_m");
  EXPECT_EQ(integer(qwen, "model.parameters"), 32'000'000'000);
  EXPECT_EQ(integer(qwen, "model.bytes"), 19'400'000'000);
  EXPECT_EQ(text(qwen, "model.quantization"), "Q4_K_M");
  EXPECT_EQ(text(qwen, "model.format"), "gguf");
  EXPECT_EQ(integer(words("mixtral 8x7b"), "model.parameters"), 46'700'000'000);
  EXPECT_EQ(integer(words("llama 3.1 8b awq"), "model.parameters"), 8'000'000'000);
  EXPECT_EQ(words("qwen3-30b-a3b").get("model.moe")->value, FactValue(true));
  EXPECT_EQ(words("bge-reranker-v2-m3").get("hardware.gpu.vendor"), nullptr);  // no Apple M3
  EXPECT_THAT(read("70B and 8B").models, testing::SizeIs(2));
  EXPECT_EQ(read("two 32B models").models.at(0).count, 2);
}

TEST(Scenario, AnAlternativeIsNotAdded) {
  EXPECT_EQ(integer(words("4090 or 3090"), "hardware.gpu.discrete_count"), 1);
  EXPECT_EQ(integer(words("4x H200 vs 8 A100"), "hardware.gpu.discrete_count"), 4);
  EXPECT_THAT(read("4090 or 3090").notes, ElementsAre(HasSubstr("the advice is for 4090")));
}

TEST(Scenario, WhatIsDeniedIsNotSet) {
  EXPECT_EQ(words("NOT a mac, one 3070").get("hardware.os"), nullptr);
  EXPECT_EQ(integer(words("NOT a mac, one 3070"), "hardware.gpu.discrete_count"), 1);
  EXPECT_EQ(words("my model isn't in MLX or GGUF yet").get("model.format"), nullptr);
}

// Every row of the vocabulary sets what it says, alone and with a number.
TEST(Scenario, EveryRowIsRead) {
  for (const ScenarioWord& row : scenario_vocabulary()) {
    std::string phrase(row.words.substr(0, row.words.find('|')));
    if (const std::size_t at = phrase.find('#'); at != std::string::npos) phrase.replace(at, 1, "3");
    const Facts facts = words(phrase);
    std::string_view rest = row.facts;
    while (!rest.empty()) {
      std::string_view name = rest.substr(0, rest.find('='));
      const bool guess = name.ends_with('~');
      if (guess) name.remove_suffix(1);
      const bool nodes = name == "hardware.cluster.nodes" && row.words.starts_with("mac|");  // counted alone
      if (name == "topic" || nodes || row.words == "a#b") {
        rest = rest.substr(std::min(rest.size(), rest.find(' ')));
        if (!rest.empty()) rest.remove_prefix(1);
        continue;
      }
      ASSERT_TRUE(find_fact(name)) << row.words << ": " << name;
      ASSERT_TRUE(facts.get(name)) << row.words << ": " << name;
      const bool counted = row.facts.substr(row.facts.find(name)).starts_with(std::string(name) + "=#") &&
                           row.words.find('#') == std::string_view::npos;
      EXPECT_EQ(facts.get(name)->source, guess || counted ? "guess" : "words") << row.words << ": " << name;
      rest = rest.substr(std::min(rest.size(), rest.find(' ')));
      if (!rest.empty()) rest.remove_prefix(1);
    }
  }
}

// The machine that is described, and no other: what one word says, the next does not take back.
TEST(Scenario, EveryWordCounts) {
  const auto machine = [](std::string_view text) {
    Facts facts = words(text);
    const auto ok = complete_scenario(facts);
    EXPECT_TRUE(ok) << text << ": " << ok.error().message;
    return facts;
  };
  const auto gpus = [&](std::string_view text) {
    const Facts facts = machine(text);
    const Fact* vendor = facts.get("hardware.gpu.vendor");
    return std::to_string(integer(facts, "hardware.gpu.discrete_count")) + " discrete, " +
           std::to_string(integer(facts, "hardware.gpu.integrated_count")) + " integrated of " +
           std::to_string(integer(facts, "hardware.gpu.count")) + ", " +
           (vendor ? std::get<std::string>(vendor->value) : "unknown");
  };
  const std::string one = "1 discrete, 0 integrated of 1, nvidia";
  EXPECT_EQ(gpus("laptop with an RTX 4070, chat"), one);
  EXPECT_EQ(gpus("RTX 4070 laptop"), one);
  EXPECT_EQ(gpus("NVIDIA GeForce RTX 4090"), one);
  EXPECT_EQ(gpus("an RTX 4090 GPU"), one);
  EXPECT_EQ(gpus("laptop, chat"), "0 discrete, 0 integrated of 0, none");
  EXPECT_EQ(gpus("laptop, no GPU"), "0 discrete, 0 integrated of 0, none");
  EXPECT_EQ(gpus("laptop with integrated gpu"), "0 discrete, 1 integrated of 1, intel");
  EXPECT_EQ(gpus("laptop, integrated graphics and an RTX 4070"), "1 discrete, 1 integrated of 2, nvidia");
  EXPECT_EQ(gpus("APU"), "0 discrete, 1 integrated of 1, amd");
  EXPECT_EQ(gpus("two NVIDIA RTX 3090"), "2 discrete, 0 integrated of 2, nvidia");
  EXPECT_EQ(gpus("RTX 3090, two GPUs"), "2 discrete, 0 integrated of 2, nvidia");
  EXPECT_EQ(gpus("4x NVIDIA H100, 2 users"), "4 discrete, 0 integrated of 4, nvidia");
  EXPECT_EQ(integer(machine("4x NVIDIA H100, 2 users"), "hardware.gpu.memory_total"), 320LL << 30);
  EXPECT_EQ(machine("laptop with integrated gpu").get("backend.vulkan.available")->value, FactValue(true));

  EXPECT_EQ(integer(machine("two M4 Max Mac Studios, 128 GiB memory"), "hardware.cluster.nodes"), 2);
  EXPECT_EQ(integer(machine("cluster of macs"), "hardware.cluster.nodes"), 2);
  EXPECT_EQ(integer(machine("a cluster, 4 machines"), "hardware.cluster.nodes"), 4);
  EXPECT_EQ(text(machine("M2, linux"), "hardware.os"), "linux");
  EXPECT_EQ(text(machine("M2"), "hardware.os"), "macos");
  EXPECT_EQ(integer(machine("production, 50 users"), "workload.concurrency"), 50);
  EXPECT_EQ(integer(machine("16K prompts, long context"), "workload.prompt_tokens"), 16384);

  // A size right behind a machine is its memory, and corrects what the name is taken for.
  EXPECT_EQ(integer(machine("RTX 4090 24 GiB"), "hardware.gpu.memory"), 24LL << 30);
  EXPECT_EQ(integer(machine("two A100 with 40 GB"), "hardware.gpu.memory_total"), 80LL << 30);
  EXPECT_EQ(integer(machine("RTX 4090, 48 GiB VRAM"), "hardware.gpu.memory"), 48LL << 30);
  EXPECT_EQ(integer(machine("M4 Max 64 GB, chat"), "hardware.memory.total"), 64LL << 30);
  EXPECT_EQ(integer(machine("laptop 16 GB"), "hardware.memory.total"), 16LL << 30);
}

TEST(Scenario, OfContradictoryWordsTheFirstHold) {
  EXPECT_THAT(read("two RTX 3090, four GPUs").notes,
              ElementsAre(HasSubstr("contradict each other (hardware.gpu.discrete_count")));
  EXPECT_THAT(read("RTX 4090 and a Radeon").notes, ElementsAre(HasSubstr("contradict each other")));
  EXPECT_THAT(read("chat, batch").notes, ElementsAre(HasSubstr("chat and batch; the advice is for chat")));
  EXPECT_TRUE(read("two RTX 3090, 2 GPUs").notes.empty());
  EXPECT_TRUE(read("windows and linux").notes.empty());
  const Reading none = read("no GPU, RTX 4090");
  EXPECT_TRUE(none.undecided);
  EXPECT_THAT(none.notes, ElementsAre(HasSubstr("neither is taken")));
  EXPECT_EQ(words("no GPU, RTX 4090").get("hardware.gpu.vendor"), nullptr);
  const Facts mixed = words("one RTX 4090 and one RTX 3060 12GB");  // two cards, each with its memory
  EXPECT_EQ(integer(mixed, "hardware.gpu.discrete_count"), 2);
  EXPECT_EQ(integer(mixed, "hardware.gpu.memory_total"), 36LL << 30);
}

TEST(Scenario, ContradictoryFactsAreErrors) {
  const auto message = [](std::string_view text, std::initializer_list<const char*> settings) {
    Facts facts;
    EXPECT_TRUE(read_scenario(text, facts));
    Result<void> ok;
    for (const char* setting : settings)
      if (ok) ok = set_fact(setting, "test", facts);
    if (ok) ok = complete_scenario(facts);
    return ok ? std::string("accepted") : ok.error().message;
  };
  EXPECT_EQ(message("one RTX 4090", {"hardware.gpu.count=0"}),
            "hardware.gpu.count is 0, of 1 discrete and 0 integrated GPUs");
  EXPECT_EQ(message("", {"hardware.gpu.count=2", "hardware.gpu.discrete_count=1"}), "accepted");
  EXPECT_EQ(message("", {"hardware.memory.unified=true", "hardware.gpu.discrete_count=1"}),
            "hardware.memory.unified is true, with 1 discrete and 1 integrated GPUs");
  EXPECT_EQ(message("laptop", {"hardware.gpu.discrete_count=1"}), "accepted");
  const std::string huge = "hardware.gpu.integrated_count=9000000000000000000";
  EXPECT_THAT(message("", {huge.c_str(), "hardware.gpu.discrete_count=9000000000000000000"}),
              HasSubstr("is no number"));
}

TEST(Scenario, WhatIsLeftOpenIsCompleted) {
  Facts rtx = words("two RTX 4090, 30B");
  ASSERT_TRUE(complete_scenario(rtx));
  EXPECT_EQ(integer(rtx, "hardware.gpu.count"), 2);
  EXPECT_EQ(integer(rtx, "hardware.gpu.memory_total"), 48LL << 30);
  EXPECT_EQ(rtx.get("hardware.memory.unified")->value, FactValue(false));
  EXPECT_EQ(rtx.get("model.fits_gpu")->value, FactValue(true));
  EXPECT_EQ(rtx.get("model.fits_gpu")->source, "derived");
  EXPECT_EQ(rtx.get("backend.opencl.available")->value, FactValue(true));
  EXPECT_EQ(rtx.get("backend.vllm.available")->value, FactValue(false));
  EXPECT_EQ(text(rtx, "app.privacy"), "any");
  Facts mac = words("mac");
  ASSERT_TRUE(complete_scenario(mac));
  EXPECT_EQ(mac.get("hardware.memory.unified")->value, FactValue(true));
  EXPECT_EQ(mac.get("backend.opencl.available")->value, FactValue(false));
  Facts open;  // nothing is known of its GPUs, and nothing is made up
  ASSERT_TRUE(complete_scenario(open));
  EXPECT_EQ(open.get("hardware.gpu.count"), nullptr);
  EXPECT_EQ(open.get("backend.opencl.available")->value, FactValue(false));
  Facts strange;  // as far as numbers go
  ASSERT_TRUE(set_fact("hardware.gpu.memory=9000000000000000000", "test", strange));
  ASSERT_TRUE(set_fact("hardware.gpu.discrete_count=9000000000000000000", "test", strange));
  ASSERT_TRUE(complete_scenario(strange));
  EXPECT_EQ(strange.get("hardware.gpu.memory_total"), nullptr);
}

TEST(FactText, ValuesOfEveryType) {
  const auto message = [](const char* assignment) {
    Facts facts;
    const auto ok = set_fact(assignment, "test", facts);
    return ok ? std::string("set") : ok.error().message;
  };
  EXPECT_EQ(message("model.moe=true"), "set");
  EXPECT_EQ(message("hardware.memory.total=16GiB"), "set");
  EXPECT_EQ(message("app.slo.ttft=500ms"), "set");
  EXPECT_EQ(message("hardware.cpu.bandwidth=12.5"), "set");
  EXPECT_EQ(message("workload.modalities=text,image"), "set");
  EXPECT_THAT(message("workload.modalities=text,imgae"), HasSubstr("did you mean \"image\"?"));
  EXPECT_THAT(message("model.moe=yes"), HasSubstr("expected true or false"));
  EXPECT_THAT(message("workload.concurrency=-1"),
              HasSubstr("workload.concurrency is never negative, got -1"));
  EXPECT_THAT(message("hardware.cpu.bandwidth=-0.5"), HasSubstr("never negative"));
  EXPECT_THAT(message("hardware.gpu.count=one"), HasSubstr("expected a whole number"));
  EXPECT_THAT(message("hardware.gpu.cuont=1"), HasSubstr("did you mean \"hardware.gpu.count\"?"));
  EXPECT_THAT(message("hardware.gpu.count"),
              HasSubstr("expected hardware.gpu.count=VALUE, and VALUE a whole number"));
}

// ---- advice: a rule that names an engine and has no target ------------------------------------------------

Tree advised_tree(const std::string& rules) {
  auto tree = parse_policy(
      "schema: flyball.policy/v1\n"
      "constraints: {stay: {because: b, when: {fact: app.privacy, eq: local_only}, deny: [remote]}}\n"
      "rules:\n" +
          rules + "default: {because: b, engine: llama_cpp, use: cpu}\n",
      "p.yaml");
  EXPECT_TRUE(tree) << tree.error().where << ": " << tree.error().message;
  return std::move(*tree);
}
std::string outcome(const Tree& tree, const char* privacy) {
  Facts facts;
  facts.set("backend.cpu.available", true, "test");
  facts.set("app.privacy", std::string(privacy), "test");
  const Decision d = decide(tree, facts);
  return to_string(*d.target) + " by " + d.rule->id + ", " + d.advice->engine + " by " + d.advice->id;
}

TEST(Advice, TheFirstTrueRuleThatNamesAnEngine) {
  const std::string advice = "  - {id: says, because: b, engine: exo}\n";
  const std::string server = "  - {id: server, because: b, engine: vllm, use: vllm}\n";
  const std::string local = "  - {id: local, because: b, engine: mlx, use: cpu}\n";
  EXPECT_EQ(outcome(advised_tree(local), "any"), "cpu by local, mlx by local");
  EXPECT_EQ(outcome(advised_tree(advice + local), "any"), "cpu by local, exo by says");
  EXPECT_EQ(outcome(advised_tree(server + local), "any"), "cpu by local, vllm by server");
  EXPECT_EQ(outcome(advised_tree(server + local), "local_only"),
            "cpu by local, mlx by local");  // denied, not advised
  EXPECT_EQ(outcome(advised_tree(advice), "any"), "cpu by default, exo by says");
  EXPECT_EQ(outcome(advised_tree(server), "local_only"), "cpu by default, llama_cpp by default");
}

TEST(Advice, MistakesWithTheirPlace) {
  const auto error = [](const std::string& rule) {
    const auto tree = parse_policy(
        "schema: flyball.policy/v1\nrules:\n  - " + rule + "\ndefault: {because: b, use: cpu}\n", "p.yaml");
    return tree ? std::string("loads") : tree.error().where + " " + tree.error().message;
  };
  EXPECT_THAT(error("{id: a, because: b, engine: exlamav2, use: cpu}"),
              HasSubstr("p.yaml:3:33 the engine catalogue has no \"exlamav2\"; did you mean \"exllamav2\"?"));
  EXPECT_THAT(error("{id: a, because: b, engine: ollama}"),
              HasSubstr("p.yaml:3:33 engine \"ollama\": denied"));
  EXPECT_THAT(error("{id: a, because: b, engine: mlx, rules: [{id: c, because: b, use: cpu}]}"),
              HasSubstr("engine belongs to a rule with `use`, or stands alone"));
  EXPECT_THAT(error("{id: a, because: b, engine: mlx, on_unavailable: fail}"),
              HasSubstr("on_unavailable belongs to a rule with `use`"));
  EXPECT_EQ(error("{id: a, because: b, engine: mlx}"), "loads");
}

// What the shipped policy says of classes and what the catalogue says of them are one.
TEST(ShippedAdvice, WhereARuleHasAnEngineAndATargetHereTheOneStandsForTheOther) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  std::size_t n = 0;
  const auto check = [&](const auto& self, const Rule& rule) -> void {
    if (rule.id == "unified_memory") return;  // the rules of unified_memory_systems name its systems
    for (const Rule& child : rule.rules) self(self, child);
    if (rule.use.empty()) return;
    ++n;
    const EngineEntry* engine = shipped_engines().find(rule.engine);
    ASSERT_TRUE(engine) << rule.id;
    EXPECT_TRUE(std::ranges::any_of(engine->here, [&](const Target& target) {
      return target.backend == config::kind_of(rule.use.front().backend);
    })) << rule.id;
  };
  for (const Rule& rule : tree->rules) check(check, rule);
  check(check, tree->fallback);
  EXPECT_GT(n, 20U);
  EXPECT_TRUE(lint(*tree).empty());
}

TEST(ShippedAdvice, ExpertsAndFormatsAreMinded) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  ASSERT_TRUE(tree);
  const auto mind = [&](const char* machine) {
    Facts facts = in_catalogue(words(machine), tree->targets);
    EXPECT_TRUE(complete_scenario(facts));
    return warnings(decide(*tree, facts), facts);
  };
  EXPECT_THAT(mind("laptop, mixtral"),
              ElementsAre(HasSubstr("the documents say that llama.cpp loads"),
                          HasSubstr("cpu engine computes the routed experts of a mixture alone")));
  EXPECT_THAT(mind("RTX 4090, mixtral"), ElementsAre(HasSubstr("opencl engine keeps all experts")));
  EXPECT_THAT(mind("RTX 4090, mixtral, EXL2"),
              ElementsAre(HasSubstr("ExLlamaV2 does not run"), HasSubstr("opencl")));
  EXPECT_TRUE(mind("laptop, chat").empty());
  EXPECT_THAT(mind("Radeon, GPTQ"), ElementsAre("llama.cpp does not read weights in the format gptq"));
  EXPECT_TRUE(mind("RTX 4090, GPTQ").empty());
  EXPECT_TRUE(mind("RTX 4090, GGUF").empty());
}

// ---- what is claimed of this house ------------------------------------------------------------------------

struct Answered {
  Advice advice;
  std::string text;
};
Answered answer(std::string_view words) {
  const auto tree = parse_policy(config::default_policy_yaml(), "policy.yaml");
  Facts facts(tree->targets);
  const auto reading = read_scenario(words, facts);
  EXPECT_TRUE(tree && reading && complete_scenario(facts)) << words;
  const Decision decision = decide(*tree, facts);
  Answered out{advise(decision, facts, *reading), ""};
  out.text = advice_text(out.advice, decision, facts);
  return out;
}

TEST(ShippedAdvice, ATargetStandsForASystemOnlyWhereTheTableSaysYes) {
  for (const char* served : {"RTX 4090, chat", "RTX 4090, json", "laptop, chat", "two RTX 3090, 70B",
                             "Radeon 7900 XTX", "linux, RTX 4090"}) {
    EXPECT_TRUE(answer(served).advice.stands_for) << served;
    EXPECT_THAT(answer(served).text, HasSubstr("stands for it")) << served;
  }
  const std::pair<const char*, const char*> unserved[] = {
      {"RTX 4090, embeddings", "Flyball does not serve embeddings."},
      {"RTX 4090, vision", "Flyball does not serve images: prompts are text."},
      {"laptop, voice", "Flyball does not serve speech: prompts are text."},
      {"RTX 4090, AWQ", "Flyball does not read AWQ weights"},
      {"RTX 4090, EXL2", "Flyball does not read EXL2 weights"},
      {"RTX 4090, fine-tuning", "Flyball does not serve fine-tuning."},
      {"RTX 4090, speculative decoding", "Flyball does not serve draft models"},
      {"laptop with 8 GB, 70B", "does not fit into 8.0 GiB of the machine"},
      {"mac, chat", "Flyball itself runs on Linux, not on macOS."},
      {"windows, RTX 4090", "Flyball itself runs on Linux, not on Windows."},
      {"8x H200, deepseek v3", "Flyball does not run models of this architecture (deepseek2)."},
      {"H100, gpt-oss 120b", "Flyball does not run models of this architecture (gpt-oss)."},
      {"RTX 4090, browser", "Flyball itself runs on Linux, not in a browser."},
  };
  for (const auto& [words, reason] : unserved) {
    EXPECT_FALSE(answer(words).advice.stands_for) << words;
    EXPECT_THAT(answer(words).text, testing::Not(HasSubstr("stands for it"))) << words;
    EXPECT_THAT(answer(words).text, HasSubstr(reason)) << words;
  }
}

TEST(ShippedAdvice, TheArchitecturesOfTheTableAreThoseThatModelFilesMayHave) {
  for (const model::Family& family : model::families())
    EXPECT_EQ(config::runs_architecture(config::kCpu.id, family.name).served, config::Served::yes)
        << family.name;
  for (const ScenarioModel& model : scenario_models()) {
    if (model.architecture.empty()) continue;
    const config::Served served = config::runs_architecture(config::kCpu.id, model.architecture).served;
    EXPECT_EQ(served == config::Served::yes, model::find_family(model.architecture) != nullptr)
        << model.names;
  }
}

TEST(ShippedAdvice, ASystemThatIsNamedGetsItsVerdict) {
  for (const char* id :
       {"core_ml", "ratchet", "koboldcpp", "gpt4all", "text_generation_webui", "transformers_mps", "candle",
        "airllm", "apple_foundation_models", "ds4", "ollama", "exo"}) {
    const EngineEntry& engine = *shipped_engines().find(id);
    EXPECT_THAT(answer("RTX 4090, " + engine.name + "?").text,
                HasSubstr(engine.name + ", by the documents: "));
  }
  const auto engine_of = [](const char* words) {
    const Advice advice = answer(words).advice;
    return advice.engine ? advice.engine->id : std::string();
  };
  EXPECT_EQ(engine_of("KoboldCpp for roleplay, RTX 3070"), "koboldcpp");
  EXPECT_EQ(engine_of("KoboldCpp, RTX 3070"), "exllamav2");
  EXPECT_EQ(engine_of("DS4 for deepseek, RTX 3090"), "exllamav2");  // DS4 is Metal's
  EXPECT_EQ(engine_of("Ollama for roleplay, RTX 3070"), "exllamav2");
  EXPECT_EQ(engine_of("three mac studios, deepseek v3"), "exo");
  EXPECT_EQ(engine_of("three mac studios, 8B"), "mlx");
  const std::string transformers = "transformers with MPS, M3 Pro 36GB, ";
  for (const char* taken : {"my model isn't in MLX or GGUF yet", "not ported to MLX", "for a prototype"})
    EXPECT_EQ(engine_of((transformers + taken).c_str()), "transformers_mps") << taken;
  for (const char* ordinary : {"haven't decided yet", "I ported my app"})
    EXPECT_EQ(engine_of((transformers + ordinary).c_str()), "mlx") << ordinary;
}

TEST(ShippedAdvice, NothingIsClaimedOfNothing) {
  EXPECT_EQ(answer("42").advice.engine, nullptr);
  EXPECT_THAT(answer("42").text, HasSubstr("Nothing was understood"));
  EXPECT_THAT(answer("42").text, HasSubstr("Skipped: \"42\"."));
  EXPECT_EQ(answer("20 requests a day").advice.engine, nullptr);
  EXPECT_THAT(answer("20 requests a day").text, HasSubstr("No machine is named"));
  EXPECT_THAT(answer("no gpu, rtx 4090").text, HasSubstr("contradict each other about the GPU"));
  EXPECT_EQ(answer("a reranker").advice.engine, nullptr);
}

TEST(ShippedAdvice, LimitsOfFeaturesThatAreAskedForAreSaid) {
  const std::pair<const char*, const char*> limits[] = {
      {"RTX 4090, tool calling", "Flyball serves functions as tools, with every tool_choice"},
      {"RTX 4090, tools", "Flyball serves functions as tools, with every tool_choice"},
      {"RTX 4090, logprobs", "Flyball serves up to 20 top_logprobs for each token."},
      {"RTX 4090, 32K context", "Flyball serves the context that the model was made for"},
  };
  for (const auto& [words, limit] : limits) {
    EXPECT_TRUE(answer(words).advice.stands_for) << words;
    EXPECT_THAT(answer(words).text, HasSubstr(limit)) << words;
  }
  EXPECT_THAT(answer("RTX 4090, chat").text, testing::Not(HasSubstr("Flyball serves")));
  EXPECT_THAT(answer("mac, tools").text,
              testing::Not(HasSubstr("Flyball serves")));  // it serves nothing there
}

TEST(ShippedAdvice, ASystemThatNeedsAGpuIsNotAdvisedWithoutOne) {
  EXPECT_EQ(answer("two raspberry pi 5 8gb").advice.engine->id, "llama_cpp");
  EXPECT_THAT(answer("two raspberry pi 5 8gb").text,
              HasSubstr("NVIDIA Dynamo needs a GPU, by the documents"));
  EXPECT_EQ(answer("4 nodes with 8 A100 each").advice.engine->id, "dynamo");
}

TEST(ShippedAdvice, SeveralMachinesServeAModelTogetherOnlyElsewhere) {
  const Answered both = answer("2 servers with 2x H100 each, linux, 405B");
  EXPECT_EQ(both.advice.fit.fits, Fits::yes);
  EXPECT_FALSE(both.advice.stands_for);
  EXPECT_THAT(both.text,
              HasSubstr("Flyball runs a model on one machine, and one of these does not hold it."));
  EXPECT_THAT(answer("2 servers with 4x H100 each, 405B").text, testing::Not(HasSubstr("does not hold it")));
}

// A word that is corrected to another one, which is corrected back, would never end.
TEST(Scenario, NoWordOfTheVocabularyIsTakenForASlip) {
  const auto read_each = [](std::string_view alternatives) {
    std::string text(alternatives);
    for (char& c : text)
      if (c == '|' || c == '#') c = ' ';
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      Facts facts;
      const auto reading = read_scenario(word, facts);
      ASSERT_TRUE(reading) << word;
      for (const std::string& note : reading->notes)
        EXPECT_EQ(note.find("is read as"), std::string::npos) << word << ": " << note;
    }
  };
  for (const ScenarioWord& word : scenario_vocabulary()) read_each(word.words);
  for (const ScenarioModel& model : scenario_models()) read_each(model.names);
  for (const Machine& machine : shipped_machines())
    for (const std::string& name : machine.names) read_each(name);
}

TEST(Scenario, ANegationDeniesWhatFollowsIt) {
  const auto counts = [](const char* words) {
    Facts facts;
    EXPECT_TRUE(read_scenario(words, facts)) << words;
    const Fact* const count = facts.get("hardware.gpu.discrete_count");
    return count == nullptr ? -1 : std::get<std::int64_t>(count->value);
  };
  for (const char* words :
       {"no idea what to use for my 4090", "can't decide, 4090", "no internet, a 4090",
        "no more than 10 users at once on an L40S", "no cloud, 4090", "not a mac but a 4090"})
    EXPECT_EQ(counts(words), 1) << words;
  EXPECT_EQ(counts("no 4090"), -1);
}

}  // namespace
}  // namespace flyball::policy
