// Layers over devices: who gets which, what each is said to need, and what is said where they do not fit.
#include "backends/graph/layer_split.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/model/synthetic.hpp"

namespace flyball::graph {
namespace {

using testing::HasSubstr;
using testing::Not;

PartSizes equal_layers(std::size_t n, std::uint64_t weights, std::uint64_t kv) {
  PartSizes sizes;
  sizes.layers.assign(n, weights);
  sizes.layer_kv = kv;
  return sizes;
}

std::vector<std::uint32_t> counts(const Result<std::vector<PlannedPart>>& split) {
  std::vector<std::uint32_t> out;
  for (const PlannedPart& planned : split.value()) out.push_back(planned.part.n_layers());
  return out;
}

TEST(LayerSplit, GoesByFreeMemory) {
  using Counts = std::vector<std::uint32_t>;
  const auto sizes = equal_layers(32, 90, 10);
  const auto over = [&](std::vector<DeviceRoom> devices) { return counts(split_layers(sizes, devices)); };
  EXPECT_EQ(over({{"a", 10'000}}), Counts{32});
  EXPECT_EQ(over({{"a", 10'000}, {"b", 10'000}}), (Counts{16, 16}));
  EXPECT_EQ(over({{"a", 24'000}, {"b", 8'000}}), (Counts{24, 8}));
  EXPECT_EQ(over({{"a", 8'000}, {"b", 8'000}, {"c", 16'000}}), (Counts{8, 8, 16}));
  // One that holds next to nothing still gets a layer: it was named.
  EXPECT_EQ(over({{"a", 100'000}, {"b", 101}}), (Counts{31, 1}));
}

TEST(LayerSplit, CountsTheEndsAndTheScratch) {
  auto sizes = equal_layers(10, 90, 10);
  sizes.embedding = 300;
  sizes.output = 400;
  sizes.scratch = 50;
  sizes.output_scratch = 100;
  const auto split = split_layers(sizes, std::vector<DeviceRoom>{{"a", 1000}, {"b", 1000}}).value();
  ASSERT_EQ(split.size(), 2U);
  const PlannedPart &a = split[0], &b = split[1];
  EXPECT_EQ(a.part.begin, 0U);
  EXPECT_EQ(a.part.end, 6U);
  EXPECT_TRUE(a.part.embeds && !a.part.projects);
  EXPECT_EQ(b.part.begin, 6U);
  EXPECT_EQ(b.part.end, 10U);
  EXPECT_TRUE(!b.part.embeds && b.part.projects);
  EXPECT_EQ(a.memory.weight_bytes, 300U + 6 * 90);
  EXPECT_EQ(a.memory.kv_bytes, 60U);
  EXPECT_EQ(a.memory.scratch_bytes, 50U);
  EXPECT_EQ(b.memory.weight_bytes, 400U + 4 * 90);
  EXPECT_EQ(b.memory.kv_bytes, 40U);
  EXPECT_EQ(b.memory.scratch_bytes, 150U);
}

TEST(LayerSplit, SaysWhichDeviceNeedsAndHasWhat) {
  const auto sizes = equal_layers(10, 90, 10);
  const auto split = split_layers(sizes, std::vector<DeviceRoom>{{"one", 5000}, {"two", 99}});
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code, ErrorCode::insufficient_memory);
  EXPECT_THAT(split.error().message, HasSubstr("two needs 100 bytes for 1 of 10 layers (weights 90 bytes, KV "
                                               "cache 10 bytes, scratch 0 bytes) and has 99 bytes."));
  EXPECT_THAT(split.error().message, Not(HasSubstr("one needs"))) << "it has enough";
  const auto neither = split_layers(sizes, std::vector<DeviceRoom>{{"one", 300}, {"two", 500}});
  ASSERT_FALSE(neither);
  EXPECT_THAT(neither.error().message, HasSubstr("one needs"));
  EXPECT_THAT(neither.error().message, HasSubstr("two needs"));
}

TEST(LayerSplit, DevicesInTheMachinesMemoryShareIt) {
  std::vector<DeviceRoom> rooms{{"a", 900, true}, {"b", 500, false}, {"c", 100, true}};
  share_machine_memory(rooms, 600);
  EXPECT_EQ(rooms[0].free_bytes, 300U) << "half of what the machine has left";
  EXPECT_EQ(rooms[1].free_bytes, 500U) << "its own";
  EXPECT_EQ(rooms[2].free_bytes, 100U) << "what it says itself is less";
  share_machine_memory({}, 600);
}

// A cache of all layers lies where the layers lie: each device limits it by its own layers' share.
TEST(LayerSplit, TheCacheIsLimitedByTheFullestDevice) {
  const auto room = [](std::uint64_t machine, std::vector<DevicePart> parts) {
    return kv_room(parts, machine);
  };
  EXPECT_EQ(room(6400, {{{"a", 960, true}, 8}}).bytes, 960U);
  EXPECT_EQ(room(3200, {{{"a", 960, true}, 8}}).bytes, 800U) << "a quarter of the machine's";
  EXPECT_EQ(room(4000, {{{"a", 6400, false}, 8}}).bytes, 5600U) << "seven eighths of its own";
  // Two of eight layers in the machine's memory: a cache of four times what they may have.
  const KvRoom mixed = room(4000, {{{"a", 1'000'000, true}, 2}, {{"b", 4800, false}, 6}});
  EXPECT_EQ(mixed.bytes, 4000U);
  EXPECT_EQ(mixed.device, "a");
  EXPECT_EQ(room(4000, {{{"a", 1'000'000, true}, 2}, {{"b", 2400, false}, 6}}).device, "b");
  EXPECT_EQ(room(4000, {{{"a", 1'000'000, true}, 2}, {{"b", 1'000'000, true}, 6}}).bytes, 1000U)
      << "both in the same memory";
}

TEST(LayerSplit, NeedsALayerForEachDevice) {
  const auto sizes = equal_layers(1, 1, 1);
  EXPECT_EQ(split_layers(sizes, std::vector<DeviceRoom>(2)).error().code, ErrorCode::unsupported_value);
  EXPECT_EQ(split_layers(sizes, {}).error().code, ErrorCode::unsupported_value);
}

// No other split has room for a larger cache, by trying all of them.
TEST(LayerSplit, LeavesMostForTheCache) {
  std::mt19937 random(3);
  int fits = 0;
  for (int round = 0; round < 300; ++round) {
    PartSizes sizes;
    for (std::size_t i = 3 + random() % 8; i > 0; --i) sizes.layers.push_back(1 + random() % 100);
    sizes.embedding = random() % 100;
    sizes.output = random() % 100;
    sizes.scratch = random() % 10;
    sizes.output_scratch = random() % 20;
    sizes.layer_kv = 1 + random() % 20;
    const std::vector<DeviceRoom> rooms{{"a", 100 + random() % 400}, {"b", 100 + random() % 400}, {"c", 300}};
    const auto n = static_cast<std::uint32_t>(sizes.layers.size());
    const auto caches = [&](std::uint32_t first, std::uint32_t second) {
      const std::uint32_t ends[] = {0, first, second, n};
      double least = 1e9;
      for (std::size_t d = 0; d < 3; ++d) {
        std::uint64_t bytes = sizes.scratch + (d == 0 ? sizes.embedding : 0) +
                              (d == 2 ? sizes.output + sizes.output_scratch : 0);
        for (std::uint32_t i = ends[d]; i < ends[d + 1]; ++i) bytes += sizes.layers[i];
        const double kv = static_cast<double>(sizes.layer_kv) * (ends[d + 1] - ends[d]);
        least = std::min(least, (static_cast<double>(rooms[d].free_bytes) - static_cast<double>(bytes)) / kv);
      }
      return least;
    };
    double best = -1e9;
    for (std::uint32_t a = 1; a + 2 <= n; ++a)
      for (std::uint32_t b = a + 1; b + 1 <= n; ++b) best = std::max(best, caches(a, b));
    const auto split = split_layers(sizes, rooms);
    ASSERT_EQ(split.has_value(), best >= 1) << best;
    if (!split) continue;
    ++fits;
    EXPECT_NEAR(caches((*split)[0].part.end, (*split)[1].part.end), best, 1e-9);
  }
  EXPECT_GT(fits, 50);
  EXPECT_LT(fits, 280);
}

TEST(LayerSplit, SizesAreTheFiles) {
  for (const char* shape : {"dim=64,layers=3,heads=4,kv_heads=2,ffn=96,vocab=320",
                            "arch=qwen3moe,dim=64,layers=3,heads=4,kv_heads=2,experts=4,experts_used=2,"
                            "expert_ffn=32,vocab=320"}) {
    const auto bytes = model::synthetic_bytes(model::parse_synthetic_shape(shape).value()).value();
    const auto file = model::ModelFile::from_bytes(bytes).value();
    const auto sizes = part_sizes(*file, 3000, 32, 4);
    ASSERT_EQ(sizes.layers.size(), 3U);
    std::uint64_t weights = sizes.embedding + sizes.output;
    for (const std::uint64_t layer : sizes.layers) weights += layer;
    // Devices have the embedding table and the output matrix, even where the file has one for both.
    const std::uint64_t twice =
        file->config().tied_embeddings ? file->weights().of(model::WeightRole::output).matrix_bytes() : 0;
    EXPECT_EQ(weights, file->weight_bytes() + twice);
    EXPECT_EQ(sizes.layer_kv, 1000U);
    EXPECT_EQ(sizes.scratch + sizes.output_scratch, scratch_bytes(file->config(), 32, 4));
  }
}

}  // namespace
}  // namespace flyball::graph
