// From probe reports to facts: which machine counts as what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/probe/device_memory.hpp"
#include "daemon/probe/hardware_facts.hpp"
#include "daemon/route/preload.hpp"

namespace flyball::route {
namespace {

DeviceReport device(const char* name, const char* kind, const char* vendor, std::uint64_t gib,
                    bool dispatched = true) {
  DeviceReport report;
  report.id = std::string(name) + "#0 (Test)";
  report.name = name;
  report.vendor = vendor;
  report.kind = kind;
  report.driver = "driver 1";
  report.memory_bytes = gib << 30;
  report.unified = report.kind != "discrete";
  report.dispatched = dispatched;
  report.error = dispatched ? "" : "crashed";
  return report;
}

std::vector<std::string> engines(const fleet::DeviceMemory& memory) {
  std::vector<std::string> out;
  for (const fleet::EngineMemory& engine : memory.backends) out.push_back(engine.backend);
  return out;
}

probe::HardwareReport machine(std::vector<DeviceReport> vulkan, std::vector<DeviceReport> opencl = {}) {
  probe::HardwareReport report;
  report.cpu = {"Test CPU", "avx2", 4, 8, 32ULL << 30, 20ULL << 30, 11.11, 22.22};
  report.devices[config::kVulkan].devices = std::move(vulkan);
  report.devices[config::kOpenCl].devices = std::move(opencl);
  return report;
}

std::vector<fleet::DeviceMemory> pools_of(const probe::HardwareReport& report,
                                          std::vector<std::string> opencl, std::vector<std::string> vulkan) {
  config::PerKind<std::vector<std::string>> ids;
  ids[config::kOpenCl] = std::move(opencl);
  ids[config::kVulkan] = std::move(vulkan);
  return probe::device_memory(report, ids);
}

config::PerKind<config::DeviceNames> opencl_names(config::DeviceNames opencl) {
  config::PerKind<config::DeviceNames> names;
  names[config::kOpenCl] = std::move(opencl);
  return names;
}

policy::Facts seen(const probe::HardwareReport& report, config::DeviceNames opencl = {}) {
  return probe::facts_of(report, opencl_names(std::move(opencl)));
}

template <class T>
T value(const policy::Facts& facts, const char* name) {
  const policy::Fact* fact = facts.get(name);
  EXPECT_NE(fact, nullptr) << name;
  return fact ? std::get<T>(fact->value) : T{};
}

TEST(HardwareFacts, ALaptopWithoutGpu) {
  const auto facts = seen(
      machine({device("llvmpipe", "software", "other", 2)}, {device("pthread-cpu", "software", "other", 7)}));
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.count"), 0);
  EXPECT_EQ(value<std::string>(facts, "hardware.gpu.kind"), "software");
  EXPECT_EQ(value<std::string>(facts, "hardware.gpu.vendor"), "none");
  EXPECT_FALSE(value<bool>(facts, "hardware.memory.unified"));
  EXPECT_EQ(facts.get("hardware.gpu.memory"), nullptr);
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.cpu.cores"), 4);
  EXPECT_EQ(value<double>(facts, "hardware.cpu.bandwidth"), 22.2);
  EXPECT_TRUE(value<bool>(facts, "backend.cpu.available"));
  EXPECT_FALSE(value<bool>(facts, "backend.vulkan.available"));
  EXPECT_EQ(value<std::string>(facts, "backend.vulkan.reason"),
            "no GPU ran the probe's kernel by Vulkan; device found: llvmpipe (software)");
  EXPECT_EQ(value<std::string>(facts, "backend.vllm.reason"), "no upstream of this kind is configured");
  EXPECT_EQ(facts.get("hardware.gpu.count")->source, "probe");
}

TEST(HardwareFacts, NothingAtAll) {
  const auto facts = seen(machine({}));
  EXPECT_EQ(value<std::string>(facts, "hardware.gpu.kind"), "none");
  EXPECT_EQ(value<std::string>(facts, "backend.opencl.reason"), "no GPU ran the probe's kernel by OpenCL");
}

TEST(HardwareFacts, OpenClNeedsAGpuOrADeviceThatIsNamed) {
  const auto gpu = machine({}, {device("RTX 3090", "discrete", "nvidia", 24)});
  EXPECT_TRUE(value<bool>(seen(gpu), "backend.opencl.available"));
  EXPECT_EQ(value<std::string>(seen(gpu, {"Arc"}), "backend.opencl.reason"),
            "no OpenCL device called Arc ran the probe's kernel; device found: RTX 3090");
  const auto broken = machine({}, {device("RTX 3090", "discrete", "nvidia", 24, false)});
  EXPECT_FALSE(value<bool>(seen(broken), "backend.opencl.available"));
  EXPECT_FALSE(value<bool>(seen(broken, {"RTX"}), "backend.opencl.available"));
  const auto software = machine({}, {device("pthread-cpu", "software", "other", 7)});
  EXPECT_EQ(value<std::string>(seen(software), "backend.opencl.reason"),
            "no GPU ran the probe's kernel by OpenCL; device found: pthread-cpu (software)");
  EXPECT_TRUE(value<bool>(seen(software, {"pthread"}), "backend.opencl.available"));
}

// One GPU is opened where config.yaml names none.
TEST(HardwareFacts, TheMemoryUsedIsThatOfTheDevicesThatAreOpened) {
  const auto two =
      machine({}, {device("RTX 3090", "discrete", "nvidia", 24), device("RTX 3060", "discrete", "nvidia", 12),
                   device("UHD 770", "integrated", "intel", 64)});
  const auto used = [&](std::vector<std::string> names) {
    return value<std::int64_t>(seen(two, std::move(names)), "hardware.gpu.memory_used") >> 30;
  };
  EXPECT_EQ(used({}), 24);
  EXPECT_EQ(used({"3060"}), 12);
  EXPECT_EQ(used({"3090", "3060"}), 36);
  EXPECT_EQ(value<std::int64_t>(seen(two), "hardware.gpu.memory_total") >> 30, 36);
  EXPECT_EQ(seen(two, {"UHD"}).get("hardware.gpu.memory_used"), nullptr);
  EXPECT_EQ(seen(machine({})).get("hardware.gpu.memory_used"), nullptr);
}

// The engine opens these and no others.
TEST(HardwareFacts, TheOpenClDeviceIsTheBestThatComputes) {
  const auto report =
      machine({}, {device("UHD 770", "integrated", "intel", 64), device("RTX 4090", "discrete", "nvidia", 24),
                   device("RTX 5090", "discrete", "nvidia", 32, false),
                   device("pthread-cpu", "software", "other", 500)});
  using Ids = std::vector<std::string>;
  const auto named = [&](Ids names) {
    return probe::approved_devices(report, opencl_names(std::move(names)))[config::kOpenCl];
  };
  EXPECT_EQ(named({}), Ids{"RTX 4090#0 (Test)"});
  EXPECT_EQ(named({"UHD"}), Ids{"UHD 770#0 (Test)"});
  EXPECT_EQ(named({"pthread"}), Ids{"pthread-cpu#0 (Test)"});
  EXPECT_EQ(named({"4090#0"}), Ids{"RTX 4090#0 (Test)"});
  EXPECT_FALSE(named({"5090"}));
  // Several: each once, in the order in which they are named.
  EXPECT_EQ(named({"UHD", "RTX"}), (Ids{"UHD 770#0 (Test)", "RTX 4090#0 (Test)"}));
  EXPECT_EQ(named({"(Test)", "(Test)"}), (Ids{"RTX 4090#0 (Test)", "UHD 770#0 (Test)"}));
  EXPECT_EQ(named({"RTX", "RTX"}).error(),
            "no OpenCL device called RTX ran the probe's kernel, beside those already taken; device found: "
            "UHD 770, "
            "RTX 4090, pthread-cpu (software)");
}

TEST(HardwareFacts, ADiscreteDeviceHasItsOwnMemory) {
  const auto report =
      machine({}, {device("UHD 770", "integrated", "intel", 64), device("RTX 4090", "discrete", "nvidia", 24),
                   device("pthread-cpu", "software", "other", 500)});
  EXPECT_TRUE(probe::has_own_memory(report.devices[config::kOpenCl], "RTX 4090#0 (Test)"));
  EXPECT_FALSE(probe::has_own_memory(report.devices[config::kOpenCl], "UHD 770#0 (Test)"));
  EXPECT_FALSE(probe::has_own_memory(report.devices[config::kOpenCl], "pthread-cpu#0 (Test)"));
  EXPECT_FALSE(probe::has_own_memory(report.devices[config::kOpenCl], ""));
}

TEST(HardwareFacts, EnginesOnTheSameDevicesDrawFromOneMemory) {
  constexpr std::uint64_t kGiB = 1ULL << 30U;
  const auto card = device("RTX 4090", "discrete", "nvidia", 24);
  const auto report = machine({card, device("UHD 770", "integrated", "intel", 64)}, {card, card});
  using Ids = std::vector<std::string>;
  auto memory = pools_of(report, {"RTX 4090#0 (Test)"}, {"RTX 4090#0 (Test)"});
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_EQ(memory[0].name, "RTX 4090");
  EXPECT_EQ(memory[0].bytes, 24 * kGiB);
  EXPECT_EQ(engines(memory[0]), (Ids{"opencl", "vulkan"}));
  memory = pools_of(report, {"RTX 4090#0 (Test)", "RTX 4090#0 (Test)"}, {"RTX 4090#0 (Test)"});
  ASSERT_EQ(memory.size(), 1U) << "what vulkan holds of its card is not there for opencl";
  EXPECT_EQ(memory[0].name, "RTX 4090, RTX 4090");
  EXPECT_EQ(memory[0].bytes, 48 * kGiB);
  EXPECT_EQ(engines(memory[0]), (Ids{"opencl", "vulkan"}));
  EXPECT_TRUE(pools_of(report, {}, {"UHD 770#0 (Test)"}).empty()) << "it works in the machine's";
}

TEST(HardwareFacts, EnginesOnDifferentCardsHavePoolsOfTheirOwn) {
  constexpr std::uint64_t kGiB = 1ULL << 30U;
  const std::vector<DeviceReport> cards = {device("RTX 4090", "discrete", "nvidia", 24),
                                           device("RTX 3060", "discrete", "nvidia", 12)};
  const auto report = machine(cards, cards);
  const std::string large = "RTX 4090#0 (Test)", small = "RTX 3060#0 (Test)";
  auto memory = pools_of(report, {large}, {small});
  ASSERT_EQ(memory.size(), 2U);
  EXPECT_EQ(memory[0].bytes, 24 * kGiB);
  EXPECT_EQ(memory[1].bytes, 12 * kGiB);
  EXPECT_EQ(engines(memory[1]), std::vector<std::string>{"vulkan"});
  memory = pools_of(report, {small}, {large});
  ASSERT_EQ(memory.size(), 2U);
  memory = pools_of(report, {large, small}, {small});
  ASSERT_EQ(memory.size(), 1U);
  EXPECT_EQ(memory[0].name, "RTX 3060, RTX 4090");
  EXPECT_EQ(memory[0].bytes, 36 * kGiB);
  EXPECT_EQ(memory[0].backends[0].bytes, 36 * kGiB);
  EXPECT_EQ(memory[0].backends[1].bytes, 12 * kGiB) << "it opens the small one alone";
}

// Two cards of a name, one for each engine: two memories, or one, by what the drivers tell.
TEST(HardwareFacts, CardsAreToldApartByWhatBothDriversTell) {
  const auto pools = [](const char* vulkan_pci, const char* vulkan_uuid, const char* opencl_pci,
                        const char* opencl_uuid) {
    auto by_vulkan = device("RTX 4090", "discrete", "nvidia", 24), by_opencl = by_vulkan;
    by_vulkan.pci = vulkan_pci;
    by_vulkan.uuid = vulkan_uuid;
    by_opencl.pci = opencl_pci;
    by_opencl.uuid = opencl_uuid;
    by_opencl.name = "NVIDIA RTX 4090 as another driver calls it";
    if (by_vulkan.pci.empty() && by_vulkan.uuid.empty()) by_opencl.name = by_vulkan.name;
    return pools_of(machine({by_vulkan}, {by_opencl}), {by_opencl.id}, {by_vulkan.id});
  };
  const char *const here = "0000:41:00.0", *const there = "0000:42:00.0";
  EXPECT_EQ(pools(here, "", here, "").size(), 1U);
  EXPECT_EQ(pools(here, "", here, "")[0].bytes, 24ULL << 30U) << "one card";
  EXPECT_EQ(pools(here, "", there, "").size(), 2U);
  EXPECT_EQ(pools(here, "a", here, "b").size(), 1U) << "drivers make UUIDs as they like";
  EXPECT_EQ(pools("", "a", here, "a").size(), 1U);
  EXPECT_EQ(pools(here, "a", "", "b").size(), 2U);
  EXPECT_EQ(pools("", "", here, "a").size(), 1U) << "a name, where nothing is told in common";
}

TEST(HardwareFacts, ANumberedDeviceIsThatOne) {
  auto report = machine({}, {device("GPU", "discrete", "acme", 8), device("GPU", "discrete", "acme", 80)});
  report.devices[config::kOpenCl].devices[0].id = "GPU#1 (Test)";
  report.devices[config::kOpenCl].devices[1].id = "GPU#10 (Test)";
  const auto named = [&](const char* name) {
    const auto ids = probe::opened_devices(report, opencl_names({name}))[config::kOpenCl];
    return ids.empty() ? "none" : ids.front();
  };
  EXPECT_EQ(named("#1"), "GPU#1 (Test)");
  EXPECT_EQ(named("GPU#10"), "GPU#10 (Test)");
  EXPECT_EQ(named("gpu#10"), "GPU#10 (Test)");
  EXPECT_EQ(named("0 (Test)"), "none");
  EXPECT_EQ(named("GPU"), "GPU#10 (Test)") << "the one with more memory";
}

// The devices that both engine kinds open of a machine whose APIs show these: "Vulkan's | OpenCL's", each by
// the first word of its id.
std::string opened(const probe::HardwareReport& report, config::DeviceNames vulkan = {},
                   config::DeviceNames opencl = {}) {
  config::PerKind<config::DeviceNames> names;
  names[config::kVulkan] = std::move(vulkan);
  names[config::kOpenCl] = std::move(opencl);
  const auto ids = probe::opened_devices(report, names);
  std::string text;
  for (const std::string& id : ids[config::kVulkan]) text += id.substr(0, id.find(' ')) + " ";
  text += "|";
  for (const std::string& id : ids[config::kOpenCl]) text += " " + id.substr(0, id.find(' '));
  return text;
}

// A device of an id that is unlike all others' of its API, as the probe makes it.
DeviceReport card(const char* name, int nth, std::uint64_t gib, const char* pci = "") {
  DeviceReport report = device(name, "discrete", "nvidia", gib);
  report.id = device_id(name, nth, "Test");
  report.pci = pci;
  return report;
}

TEST(OpenedDevices, VulkanTakesTheSecondCard) {
  const DeviceReport big = card("4090", 0, 24), small = card("3060", 0, 12);
  EXPECT_EQ(opened(machine({big, small}, {big, small})), "3060#0 | 4090#0");
  EXPECT_EQ(opened(machine({small, big}, {big, small})), "3060#0 | 4090#0") << "in any order";
  EXPECT_EQ(opened(machine({big, small}, {small, big})), "3060#0 | 4090#0");
  const DeviceReport middle = card("3090", 0, 16);
  EXPECT_EQ(opened(machine({small, middle, big}, {big, small, middle})), "3090#0 | 4090#0")
      << "the best of the others";
  auto broken = small;
  broken.dispatched = false;
  EXPECT_EQ(opened(machine({big, broken}, {big, small})), "4090#0 | 4090#0") << "it ran no kernel";
  EXPECT_EQ(opened(machine({big, small}, {})), "4090#0 |") << "OpenCL opens none";
  EXPECT_EQ(opened(machine({big, small}, {small})), "4090#0 | 3060#0") << "OpenCL shows one";
}

TEST(OpenedDevices, OneCardIsOpenedByBothKinds) {
  const DeviceReport one = card("4090", 0, 24);
  EXPECT_EQ(opened(machine({one}, {one})), "4090#0 | 4090#0");
  const DeviceReport uhd = device("UHD", "integrated", "intel", 64);
  const DeviceReport llvmpipe = device("llvmpipe", "software", "other", 64);
  EXPECT_EQ(opened(machine({uhd, one, llvmpipe}, {one, uhd})), "4090#0 | 4090#0")
      << "neither an integrated GPU nor a software device is a second card";
  EXPECT_EQ(opened(machine({uhd}, {one, uhd})), "UHD#0 | 4090#0") << "Vulkan has no card";
  EXPECT_EQ(opened(machine({uhd, one}, {uhd})), "4090#0 | UHD#0");
  EXPECT_EQ(opened(machine({llvmpipe}, {one})), "| 4090#0");
}

TEST(HardwareFacts, EnginesOnOneCardShareIt) {
  const DeviceReport big = card("4090", 0, 24), small = card("3060", 0, 12);
  const DeviceReport uhd = device("UHD", "integrated", "intel", 64);
  const auto shared = [](const probe::HardwareReport& report, config::DeviceNames opencl = {}) {
    const auto facts = seen(report, std::move(opencl));
    std::string out;
    for (const char* id : {"vulkan", "opencl"}) {
      const policy::Fact* const fact = facts.get("backend." + std::string(id) + ".shares_card");
      out += fact == nullptr ? "?" : std::get<bool>(fact->value) ? "y" : "n";
    }
    return out;
  };
  EXPECT_EQ(shared(machine({big}, {big})), "yy");
  EXPECT_EQ(shared(machine({big, small}, {big, small})), "nn");
  EXPECT_EQ(shared(machine({big, small}, {big, small}), {"3060", "4090"}), "yy") << "OpenCL has both";
  EXPECT_EQ(shared(machine({big}, {})), "n?") << "OpenCL has none";
  EXPECT_EQ(shared(machine({uhd}, {uhd})), "nn") << "an integrated GPU is no card";
  EXPECT_EQ(shared(machine({uhd}, {uhd, big})), "nn");
  EXPECT_EQ(shared(machine({}, {})), "??");
}

TEST(OpenedDevices, TheConfigurationComesFirst) {
  const DeviceReport big = card("4090", 0, 24), small = card("3060", 0, 12);
  const auto two = machine({big, small}, {big, small});
  EXPECT_EQ(opened(two, {"4090"}), "4090#0 | 4090#0") << "named for Vulkan";
  EXPECT_EQ(opened(two, {"3060"}), "3060#0 | 4090#0");
  EXPECT_EQ(opened(two, {}, {"3060"}), "4090#0 | 3060#0") << "named for OpenCL";
  EXPECT_EQ(opened(two, {}, {"4090"}), "3060#0 | 4090#0");
  EXPECT_EQ(opened(two, {}, {"3060", "4090"}), "4090#0 | 3060#0 4090#0") << "OpenCL leaves none";
  EXPECT_EQ(opened(two, {"3060"}, {"3060"}), "3060#0 | 3060#0");
  EXPECT_EQ(opened(two, {}, {"Arc"}), "4090#0 |") << "OpenCL's is missing";
}

// Each API calls a card by a name of its own, and two drivers show the same one.
TEST(OpenedDevices, AnotherVendorsCardIsKnownByItsPciAddress) {
  const char *const here = "0000:41:00.0", *const there = "0000:42:00.0";
  const auto vulkan = std::vector{card("RADV", 0, 24, here), card("AMDVLK", 0, 24, here)};
  EXPECT_EQ(opened(machine(vulkan, {card("gfx1100", 0, 24, here)})), "RADV#0 | gfx1100#0");
  auto both = vulkan;
  both.push_back(card("Arc", 0, 16, there));
  EXPECT_EQ(opened(machine(both, {card("gfx1100", 0, 24, here)})), "Arc#0 | gfx1100#0");
  EXPECT_EQ(opened(machine(both, {card("gfx1100", 0, 24, here), card("A770", 0, 48, there)})),
            "RADV#0 | A770#0");
}

// Nothing tells two cards of a name apart but their count and order, if the drivers tell no more.
TEST(OpenedDevices, TwoCardsOfANameAreTwo) {
  const DeviceReport first = card("4090", 0, 24), second = card("4090", 1, 24);
  const auto two = machine({first, second}, {first, second});
  EXPECT_EQ(opened(two), "4090#1 | 4090#0");
  EXPECT_EQ(opened(two, {}, {"4090#1"}), "4090#0 | 4090#1");
  EXPECT_EQ(pools_of(two, {first.id}, {second.id}).size(), 2U) << "the memory agrees";
  EXPECT_EQ(pools_of(two, {first.id}, {first.id}).size(), 1U);
  EXPECT_EQ(pools_of(two, {second.id}, {second.id}).size(), 1U);
  EXPECT_EQ(pools_of(two, {first.id, second.id}, {second.id})[0].bytes, 48ULL << 30U);
  // Vulkan shows them in the other order, and says so.
  EXPECT_EQ(opened(machine({card("4090", 0, 24, "0000:42:00.0"), card("4090", 1, 24, "0000:41:00.0")},
                           {card("4090", 0, 24, "0000:41:00.0"), card("4090", 1, 24, "0000:42:00.0")})),
            "4090#0 | 4090#0");
}

TEST(OpenedDevices, CardsOfANameThatOneApiCountsOtherwiseAreOne) {
  const DeviceReport first = card("4090", 0, 24), second = card("4090", 1, 24), third = card("4090", 2, 24);
  EXPECT_EQ(opened(machine({first, second}, {first})), "4090#0 | 4090#0");
  EXPECT_EQ(opened(machine({first}, {first, second})), "4090#0 | 4090#0");
  EXPECT_EQ(opened(machine({first, second, third}, {first, second})), "4090#0 | 4090#0");
  EXPECT_EQ(pools_of(machine({first, second}, {first}), {first.id}, {second.id}).size(), 1U);
  // Two drivers of each API that show one card: by each driver it is one.
  auto by_another = second;
  by_another.driver = "driver 2";
  EXPECT_EQ(opened(machine({first, by_another}, {first, by_another})), "4090#0 | 4090#0");
}

TEST(Preload, StartsWhatThePolicyWouldAsk) {
  const auto tree = policy::parse_policy(config::default_policy_yaml(), "policy.yaml").value();
  config::ModelEntry model;
  model.id = "m";
  config::AppManifest chat, other;
  chat.id = "chat";
  other.id = "other";
  other.models = {"another"};
  const auto with_gpu = seen(machine({device("RTX 4090", "discrete", "nvidia", 24)},
                                     {device("RTX 4090", "discrete", "nvidia", 24)}));
  const auto without = seen(machine({}));
  const std::vector apps{chat, other};
  EXPECT_EQ(preload_targets(tree, with_gpu, apps, model, {}), std::vector<std::string>{"opencl"});
  EXPECT_EQ(preload_targets(tree, without, apps, model, {}), std::vector<std::string>{"cpu"});
  EXPECT_EQ(preload_targets(tree, with_gpu, {&other, 1}, model, {}), std::vector<std::string>{"cpu"});
  model.aliases = {"another"};
  EXPECT_EQ(preload_targets(tree, with_gpu, {&other, 1}, model, {}), std::vector<std::string>{"opencl"});
}

// Engines that start with the daemon for one model that matters.
struct CriticalTargets : testing::Test {
  policy::Tree tree =
      policy::parse_policy(
          "schema: flyball.policy/v1\n"
          "profiles:\n"
          "  pinned: {because: b, engine: own, keep_loaded: true}\n"
          "  plain: {because: b, engine: own}\n"
          "rules:\n"
          "  - {id: quick, because: b, when: {fact: workload.objective, eq: latency}, use: 'cpu:plain'}\n"
          "  - {id: one, because: b, when: {fact: workload.fixed_critical, eq: true}, use: ['cpu:pinned', "
          "cpu]}\n"
          "default: {because: b, use: cpu}\n",
          "policy.yaml")
          .value();
  policy::Facts hardware = seen(machine({}));
  config::ModelEntry model;
  std::vector<config::AppManifest> apps = std::vector<config::AppManifest>(1);

  CriticalTargets() {
    model.id = "m";
    apps[0].id = "brain";
    apps[0].workload.fixed_critical = true;
    apps[0].models = {"m"};
  }
  std::vector<std::string> found(bool is_default = false) {
    return critical_targets(tree, hardware, apps, model, is_default, {});
  }
};

TEST_F(CriticalTargets, AreKeptLoadedForAnAppWithThatModelAlone) {
  EXPECT_EQ(found(), std::vector<std::string>{"cpu:pinned"});
  apps.push_back(apps[0]);
  apps[1].id = "another";
  EXPECT_EQ(found(), std::vector<std::string>{"cpu:pinned"}) << "each once";
}

TEST_F(CriticalTargets, AreNoneOfAnAppThatMayUseSeveralModels) {
  apps[0].models = {"m", "other"};
  EXPECT_TRUE(found().empty());
  EXPECT_TRUE(found(true).empty()) << "nobody knows which of them matters";
}

TEST_F(CriticalTargets, AreThoseOfTheDefaultModelForAnAppThatNamesNone) {
  apps[0].models.clear();
  EXPECT_TRUE(found(false).empty());
  EXPECT_EQ(found(true), std::vector<std::string>{"cpu:pinned"});
}

TEST_F(CriticalTargets, AreNoneOfAnotherModel) {
  apps[0].models = {"other"};
  EXPECT_TRUE(found(true).empty());
}

TEST_F(CriticalTargets, AreNoneOfAnAppThatDeclaresNothing) {
  apps[0].workload.fixed_critical.reset();
  EXPECT_TRUE(found().empty());
  apps[0].workload.fixed_critical = false;
  EXPECT_TRUE(found().empty());
}

TEST_F(CriticalTargets, AreNoEnginesThatAreNotKeptLoaded) {
  apps[0].workload.objective = "latency";
  EXPECT_TRUE(found().empty()) << "cpu:plain ends for want of work";
}

TEST_F(CriticalTargets, AreNoneWhereThePolicyFallsBackToASharedEngine) {
  hardware = policy::in_catalogue(hardware, tree.targets);
  hardware.set("backend.cpu:pinned.available", false, "test");
  EXPECT_TRUE(found().empty());
}

// The shipped policy asks for as much memory as both engines need.
TEST_F(CriticalTargets, OfTheShippedPolicyFitBesideTheSharedEngine) {
  tree = policy::parse_policy(config::default_policy_yaml(), "policy.yaml").value();
  BackendInfo file;
  file.weight_bytes = 1000;
  const auto with_room = [&](std::uint64_t free) {
    fleet::MemoryStatus memory;
    memory.pools = {{"machine", 1 << 20, 0, free, 0, 0, {}}};
    return critical_targets(tree, hardware, apps, model, false, memory, &file);
  };
  EXPECT_TRUE(with_room(1000).empty());
  EXPECT_EQ(with_room(1 << 20), std::vector<std::string>{"cpu:pinned"});
}

// As its requests will be: by what is free, too.
TEST(Preload, KnowsWhatMemoryIsFree) {
  const auto tree = policy::parse_policy(
      "schema: flyball.policy/v1\n"
      "rules: [{id: room, because: b, when: {fact: backend.opencl.memory_free, gte: 100}, use: opencl}]\n"
      "default: {because: b, use: cpu}\n",
      "policy.yaml");
  ASSERT_TRUE(tree) << tree.error().message;
  config::ModelEntry model;
  model.id = "m";
  const std::vector<config::AppManifest> apps(1);
  const auto hardware = seen(machine({}, {device("RTX 4090", "discrete", "nvidia", 24)}));
  fleet::MemoryStatus memory;
  memory.pools = {{"machine", 1000, 0, 1000, 0, 0, {}}, {"card", 200, 0, 100, 0, 0, {{"opencl", 200}}}};
  EXPECT_EQ(preload_targets(*tree, hardware, apps, model, memory), std::vector<std::string>{"opencl"});
  memory.pools[1].free = 99;
  EXPECT_EQ(preload_targets(*tree, hardware, apps, model, memory), std::vector<std::string>{"cpu"});
  EXPECT_EQ(preload_targets(*tree, hardware, apps, model, {}), std::vector<std::string>{"cpu"});
}

// Both probes crashed, and the facts said that there is no GPU.
TEST(HardwareFacts, WhereADriverDidNotAnswerNoGpuIsNotKnown) {
  probe::HardwareReport report = machine({}, {});
  report.devices[config::kVulkan] = {{}, "the driver crashed: Segmentation fault", false};
  report.devices[config::kOpenCl] = report.devices[config::kVulkan];
  EXPECT_EQ(seen(report).get("hardware.gpu.count"), nullptr);
  EXPECT_EQ(seen(report).get("hardware.gpu.kind"), nullptr);
  EXPECT_EQ(seen(report).get("hardware.memory.unified"), nullptr);
  EXPECT_EQ(value<std::int64_t>(seen(report), "hardware.cpu.cores"), 4);
  report.devices[config::kOpenCl] = {};  // it found none; the one that crashed may have one
  EXPECT_EQ(seen(report).get("hardware.gpu.count"), nullptr);
  report.devices[config::kOpenCl].devices = {device("RTX 4090", "discrete", "nvidia", 24)};
  EXPECT_EQ(value<std::int64_t>(seen(report), "hardware.gpu.count"), 1);
}

TEST(HardwareFacts, AnApuIsUnifiedMemory) {
  const auto facts = seen(
      machine({device("Radeon 780M", "integrated", "amd", 16), device("llvmpipe", "software", "other", 2)}));
  EXPECT_TRUE(value<bool>(facts, "hardware.memory.unified"));
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.count"), 1);
  EXPECT_EQ(value<std::string>(facts, "hardware.gpu.kind"), "integrated");
}

TEST(HardwareFacts, ADiscreteGpuBesideAnIntegratedOneIsNotUnified) {
  const auto facts = seen(
      machine({device("UHD 770", "integrated", "intel", 16), device("RTX 4090", "discrete", "nvidia", 24)},
              {device("RTX 4090", "discrete", "nvidia", 24)}));
  EXPECT_FALSE(value<bool>(facts, "hardware.memory.unified"));
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.count"), 2);
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.discrete_count"), 1);
  EXPECT_EQ(value<std::string>(facts, "hardware.gpu.vendor"), "nvidia");
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.memory"), 24LL << 30);
}

TEST(HardwareFacts, GpusThatOneApiDoesNotShowStillCount) {
  const auto facts = seen(machine(
      {}, {device("RTX 3090", "discrete", "nvidia", 24), device("RTX 3090", "discrete", "nvidia", 24)}));
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.discrete_count"), 2);
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.memory_total"), 48LL << 30);
}

TEST(HardwareFacts, AGpuThatDoesNotComputeIsNone) {
  const auto facts = seen(machine({device("RTX 4090", "discrete", "nvidia", 24, false)}));
  EXPECT_EQ(value<std::int64_t>(facts, "hardware.gpu.count"), 0);
  EXPECT_EQ(value<std::string>(facts, "hardware.gpu.kind"), "none");
}

}  // namespace
}  // namespace flyball::route
