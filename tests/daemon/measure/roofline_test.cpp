// What is predicted of a model on a device of known ceilings, and when the policy hears of it.
#include "daemon/measure/roofline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/measure/assumed_ceilings.hpp"
#include "daemon/measure/book.hpp"

namespace flyball::measure {
namespace {

constexpr std::int64_t kToday = 1'800'000'000;

// 1.1 GB, of which a token reads 1 GB: 2 GFLOP a token.
const ModelSize kDense{1'100'000'000, 1'000'000'000, 1'100'000'000, false, false};
const Ceilings kDevice{20, 200, 800, kToday - 60};

double predicted(const Roofline& roofline, Kind kind, std::uint32_t at) {
  const auto value = roofline.predict(kind, at);
  return value ? value->value : -1;
}

TEST(Roofline, AStepReadsOrComputesWhicheverTakesLonger) {
  const Roofline roofline(kDevice, kDense);
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::decode_tps, 1),
                   20);  // 1 GB at 20 GB/s: 50 ms; 10 ms of arithmetic
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::decode_tps, 4), 80);    // the same 50 ms
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::decode_tps, 10), 100);  // 100 ms of arithmetic
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::decode_tps, 32), 100);
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::prefill_tps, 512), 100);
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::ttft_ms, 512), 5120);
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::ttft_ms, 1), 50);
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::ttft_ms, 257),
                   2610);  // a step of 256, and one that reads for one token
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::load_ms, 0), 310);  // 2.2 GB moved, and 200 ms to start
  EXPECT_EQ(predicted(roofline, Kind::watts, 0), -1);
}

TEST(Roofline, QuantizedProductsAreOfInt8WhereTheDeviceHasThem) {
  ModelSize quantized = kDense;
  quantized.quantized = true;
  EXPECT_DOUBLE_EQ(predicted(Roofline(kDevice, quantized), Kind::prefill_tps, 512), 400);
  Ceilings gpu = kDevice;
  gpu.int8_gops = 0;
  EXPECT_DOUBLE_EQ(predicted(Roofline(gpu, quantized), Kind::prefill_tps, 512), 100);
}

TEST(Roofline, TokensOfAMixtureReadExpertsOfTheirOwn) {
  const ModelSize mixture{8'000'000'000, 1'000'000'000, 8'000'000'000, true, false};
  const Roofline roofline({20, 1e9, 0, kToday}, mixture);
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::decode_tps, 1), 20);
  EXPECT_NEAR(predicted(roofline, Kind::decode_tps, 2), 2 * 20e9 / (8e9 * (1 - 49.0 / 64)), 1e-9);
  EXPECT_NEAR(predicted(roofline, Kind::decode_tps, 1000), 1000 * 2.5, 0.1);  // all experts: 0.4 s
}

TEST(Roofline, SaysWhatItIsFrom) {
  const Roofline roofline(kDevice, kDense);
  const auto basis = [&](Kind kind, std::uint32_t at) {
    return roofline.basis(kind, *roofline.predict(kind, at));
  };
  EXPECT_EQ(basis(Kind::decode_tps, 1), "roofline 20 GB/s / 1 GB");
  EXPECT_EQ(basis(Kind::prefill_tps, 512), "roofline 200 GFLOP/s / 2 GFLOP a token");
  EXPECT_EQ(basis(Kind::load_ms, 0), "1.1 GB read and written at 20 GB/s");
}

// 607 MiB of weights and 3.5 GiB of KV: eight sequences.
TEST(Roofline, ALoadTakesThePagesOfItsWeightsAndKv) {
  ModelSize served{600'000'000, 600'000'000, 600'000'000, false, true, 0};
  Ceilings machine{20, 200, 800, kToday};
  EXPECT_DOUBLE_EQ(predicted(Roofline(machine, served), Kind::load_ms, 0), 260);
  machine.page_gbps = 0.6;
  EXPECT_DOUBLE_EQ(predicted(Roofline(machine, served), Kind::load_ms, 0), 1'260);
  served.kv_bytes = 3'600'000'000;
  const Roofline roofline(machine, served);
  EXPECT_DOUBLE_EQ(predicted(roofline, Kind::load_ms, 0), 7'260);
  EXPECT_EQ(roofline.basis(Kind::load_ms, *roofline.predict(Kind::load_ms, 0)),
            "0.6 GB read and written at 20 GB/s, 4.2 GB of pages taken at 0.6 GB/s");
  machine.load_gbps = 12;  // a path to memory of its own, which nobody zeroes
  EXPECT_DOUBLE_EQ(predicted(Roofline(machine, served), Kind::load_ms, 0), 250);
}

TEST(Roofline, OfWhatIsNotKnownNothing) {
  EXPECT_EQ(predicted(Roofline({}, kDense), Kind::decode_tps, 1), -1);
  EXPECT_EQ(predicted(Roofline(kDevice, {}), Kind::decode_tps, 1), -1);
  const Roofline slow({20, 0, 0, kToday}, kDense);
  EXPECT_DOUBLE_EQ(predicted(slow, Kind::decode_tps, 1), 20);
  EXPECT_EQ(predicted(slow, Kind::prefill_tps, 1), -1);
  EXPECT_EQ(predicted(slow, Kind::ttft_ms, 1), -1);
  // A file's own words, and they do not agree.
  EXPECT_EQ(predicted(Roofline(kDevice, {1, 2, 3, false, false}), Kind::decode_tps, 1), -1);
}

TEST(Roofline, CeilingsAsTheStoreKeepsThem) {
  const std::vector<Figure> kept = {{Kind::read_gbps, 0, 20, kToday - 60},
                                    {Kind::float_gops, 0, 200, kToday - 50}};
  EXPECT_EQ(ceilings_of(kept, kToday).read_gbps, 20);
  EXPECT_EQ(ceilings_of(kept, kToday).float_gops, 200);
  EXPECT_EQ(ceilings_of(kept, kToday).measured_at, kToday - 50);
  EXPECT_EQ(ceilings_of(kept, kToday + kLifetimeSeconds).read_gbps, 0);
  const std::vector<Ceilings> two = {{20, 100, 0, kToday}, {60, 100, 0, kToday - 9}};
  EXPECT_DOUBLE_EQ(in_turn(two).read_gbps, 30);  // each reads its half
  EXPECT_DOUBLE_EQ(in_turn(two).float_gops, 100);
  EXPECT_EQ(in_turn(two).int8_gops, 0);
  EXPECT_EQ(in_turn(two).measured_at, kToday - 9);
  EXPECT_EQ(in_turn(two).load_gbps, 0);
  // One half goes by a path, the other one is read and written in the first device's memory.
  const std::vector<Ceilings> one_has_a_path = {{20, 100, 0, kToday, 0}, {60, 100, 0, kToday, 12}};
  EXPECT_DOUBLE_EQ(in_turn(one_has_a_path).load_gbps, 2 / (1 / 10.0 + 1 / 12.0));
}

// ---- facts ------------------------------------------------------------------------------------------------

config::ModelEntry embedded_demo() {
  config::ModelEntry model;
  model.id = "demo";
  model.embedded = true;
  return model;
}
const Engine kProcessor{"cpu", "a processor", "v1", kDevice}, kGpu{"vulkan", "a device", "d1"};

Book predicting(std::vector<Measured> measured, std::shared_ptr<const PredictionLedger> ledger = nullptr) {
  const std::vector<Engine> engines = {kProcessor, kGpu};
  const config::ModelEntry model = embedded_demo();
  return Book(measured, engines, {&model, 1}, {{{"demo", kDense}}, std::move(ledger)});
}
std::string fact_of(const Book& book, const char* name, std::int64_t now = kToday) {
  policy::Facts facts;
  book.set_facts("demo", now, facts);
  const policy::Fact* fact = facts.get(name);
  if (fact == nullptr) return "unknown";
  const auto* number = std::get_if<double>(&fact->value);
  return std::to_string(number ? std::llround(*number) : std::get<std::int64_t>(fact->value)) + ", " +
         fact->source + ", " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(fact->age).count()) + " s";
}

TEST(Predictions, StandInUntilItIsMeasured) {
  const Book book = predicting({});
  EXPECT_EQ(fact_of(book, "backend.cpu.decode_tps"), "20, predicted: roofline 20 GB/s / 1 GB, 0 s");
  EXPECT_EQ(fact_of(book, "backend.cpu.ttft"),
            "5120, predicted: roofline 200 GFLOP/s / 2 GFLOP a token, 0 s");
  EXPECT_EQ(fact_of(book, "backend.cpu.prefill_tps"),
            "100, predicted: roofline 200 GFLOP/s / 2 GFLOP a token, 0 s");
  EXPECT_EQ(fact_of(book, "backend.cpu.load_time"),
            "310, predicted: 1.1 GB read and written at 20 GB/s, 0 s");
  EXPECT_EQ(fact_of(book, "backend.cpu.watts"), "unknown");
  EXPECT_EQ(fact_of(book, "backend.vulkan.decode_tps"), "unknown");  // its ceilings are not
  EXPECT_TRUE(book.empty()) << "nothing was measured";

  const Subject cpu = subject_of(kProcessor, model_digest(embedded_demo()), embedded_demo());
  const Book measured = predicting({{cpu, {Kind::decode_tps, 1, 12, kToday - 5}}});
  EXPECT_EQ(fact_of(measured, "backend.cpu.decode_tps"), "12, measured, 5 s");
  EXPECT_THAT(fact_of(measured, "backend.cpu.ttft"), ::testing::HasSubstr("predicted"));
  EXPECT_THAT(fact_of(measured, "backend.cpu.decode_tps", kToday + kLifetimeSeconds - 10),
              ::testing::HasSubstr("measured"));
  EXPECT_THAT(fact_of(measured, "backend.cpu.decode_tps", kToday + kLifetimeSeconds),
              ::testing::StartsWith("20, predicted"))
      << "the probe's rates count while the process runs";
}

TEST(Predictions, OfADeviceWhoseCeilingsTheStoreHas) {
  const Book book = predicting({{subject_of(kGpu), {Kind::read_gbps, 0, 40, kToday - 7}}});
  EXPECT_EQ(fact_of(book, "backend.vulkan.decode_tps"), "40, predicted: roofline 40 GB/s / 1 GB, 0 s");
  EXPECT_EQ(fact_of(book, "backend.vulkan.ttft"), "unknown");
  EXPECT_EQ(fact_of(book, "backend.vulkan.decode_tps", kToday + kLifetimeSeconds), "unknown")
      << "they have expired";
  EXPECT_TRUE(book.expected("demo", "vulkan", Kind::decode_tps, 1, kToday));
  EXPECT_FALSE(book.expected("demo", "vulkan", Kind::decode_tps, 1, kToday + kLifetimeSeconds));
  Engine other = kGpu;
  other.driver = "d2";
  EXPECT_EQ(fact_of(predicting({{subject_of(other), {Kind::read_gbps, 0, 40, kToday - 7}}}),
                    "backend.vulkan.decode_tps"),
            "unknown");
}

// ---- devices that were never measured ---------------------------------------------------------------------

Engine gpu_of(std::vector<std::string> kinds) {
  Engine engine = kGpu;
  engine.device_kinds = std::move(kinds);
  return engine;
}
Book assuming(std::vector<std::string> kinds, std::vector<Measured> measured = {},
              std::shared_ptr<const PredictionLedger> ledger = nullptr) {
  const std::vector<Engine> engines = {kProcessor, gpu_of(std::move(kinds))};
  const config::ModelEntry model = embedded_demo();
  return Book(measured, engines, {&model, 1}, {{{"demo", kDense}}, std::move(ledger)});
}

TEST(AssumedCeilings, FollowTheProcessorWhereTheDeviceSharesItsMemory) {
  const auto integrated = assumed_ceilings("integrated", kDevice),
             software = assumed_ceilings("software", kDevice);
  ASSERT_TRUE(integrated && software);
  EXPECT_DOUBLE_EQ(integrated->read_gbps, 20);
  EXPECT_DOUBLE_EQ(integrated->float_gops, 400);
  EXPECT_DOUBLE_EQ(software->read_gbps, 2);
  EXPECT_LT(software->float_gops, kDevice.float_gops);
  EXPECT_FALSE(assumed_ceilings("integrated", {})) << "the processor's rates are unknown";
  Ceilings processor = kDevice;
  processor.page_gbps = 3;
  EXPECT_EQ(assumed_ceilings("integrated", processor)->page_gbps, 3) << "its pages are the machine's";
  EXPECT_EQ(assumed_ceilings("discrete", processor)->page_gbps, 0);
  EXPECT_FALSE(assumed_ceilings("a new kind", kDevice));
  EXPECT_TRUE(assumed_ceilings("discrete", {})) << "it has its own memory";
}

TEST(AssumedCeilings, StandInUntilTheDeviceIsMeasured) {
  const Book book = assuming({"discrete"});
  EXPECT_EQ(fact_of(book, "backend.vulkan.decode_tps"),
            "300, predicted: assumed 300 GB/s of a discrete GPU / 1 GB, 0 s");
  EXPECT_EQ(fact_of(book, "backend.vulkan.prefill_tps"),
            "3000, predicted: assumed 6e+03 GFLOP/s of a discrete GPU / 2 GFLOP a token, 0 s");
  EXPECT_EQ(fact_of(book, "backend.vulkan.load_time"),
            "292, predicted: 1.1 GB carried at assumed 12 GB/s of a discrete GPU, 0 s");
  EXPECT_EQ(book.expected("demo", "vulkan", Kind::decode_tps, 1, kToday)->basis, Basis::assumed);
  EXPECT_EQ(book.expected("demo", "cpu", Kind::decode_tps, 1, kToday)->basis, Basis::roofline);
  EXPECT_TRUE(book.knows_ceilings("cpu", kToday));
  EXPECT_FALSE(book.knows_ceilings("vulkan", kToday));

  const Book measured =
      assuming({"discrete"}, {{subject_of(gpu_of({})), {Kind::read_gbps, 0, 40, kToday - 7}}});
  EXPECT_EQ(fact_of(measured, "backend.vulkan.decode_tps"), "40, predicted: roofline 40 GB/s / 1 GB, 0 s");
  EXPECT_EQ(fact_of(measured, "backend.vulkan.load_time"),
            "292, predicted: 1.1 GB carried at assumed 12 GB/s, 0 s")
      << "the path to it was not measured";
  EXPECT_THAT(fact_of(measured, "backend.vulkan.ttft"), ::testing::HasSubstr("assumed"))
      << "its arithmetic was not measured";
  EXPECT_TRUE(measured.knows_ceilings("vulkan", kToday));
  EXPECT_FALSE(measured.knows_ceilings("vulkan", kToday + kLifetimeSeconds));
  EXPECT_THAT(fact_of(measured, "backend.vulkan.decode_tps", kToday + kLifetimeSeconds),
              ::testing::HasSubstr("assumed"));
}

TEST(AssumedCeilings, OfSeveralDevicesWorkOneAfterTheOther) {
  EXPECT_EQ(fact_of(assuming({"discrete", "discrete"}), "backend.vulkan.decode_tps"),
            "300, predicted: assumed 300 GB/s of a discrete GPU / 1 GB, 0 s");
  EXPECT_EQ(fact_of(assuming({"discrete", "unheard of"}), "backend.vulkan.decode_tps"), "unknown");
}

TEST(AssumedCeilings, AreCorrectedByTheirOwnOutcomes) {
  const auto ledger = std::make_shared<PredictionLedger>();
  for (int i = 0; i < 3; ++i) {
    ledger->add({"demo", "vulkan", Quantity::decode_tps, Basis::assumed, 300, 100, kToday});
    ledger->add({"demo", "vulkan", Quantity::ttft_ms, Basis::roofline, 100, 900, kToday});
  }
  const Book book = assuming({"discrete"}, {}, ledger);
  EXPECT_THAT(fact_of(book, "backend.vulkan.decode_tps"), ::testing::StartsWith("100, "));
  EXPECT_THAT(fact_of(book, "backend.vulkan.ttft"), ::testing::Not(::testing::HasSubstr("as seen")));
}

TEST(AssumedCeilings, GiveWayToTheLoadsThatWereSeen) {
  const auto ledger = std::make_shared<PredictionLedger>();
  EXPECT_THAT(fact_of(assuming({"discrete"}, {}, ledger), "backend.vulkan.load_time"),
              ::testing::StartsWith("292, "));
  ledger->add({"demo", "vulkan", Quantity::load_ms, Basis::roofline, 250, 900, kToday});
  EXPECT_THAT(fact_of(assuming({"discrete"}, {}, ledger), "backend.vulkan.load_time"),
              ::testing::StartsWith("900, "))
      << "whatever they were predicted by";
}

TEST(Book, ThatWasMadeLaterHasALargerGeneration) {
  const Book earlier = predicting({}), later = predicting({}), copy = later;
  EXPECT_GT(later.generation(), earlier.generation());
  EXPECT_EQ(copy.generation(), later.generation());
  EXPECT_GT(earlier.generation(), Book().generation());
}

TEST(Predictions, AreCorrectedByWhatWasSeen) {
  const auto ledger = std::make_shared<PredictionLedger>();
  const Book book = predicting({}, ledger);
  for (int i = 0; i < 3; ++i) {
    ledger->add({"demo", "cpu", Quantity::decode_tps, Basis::roofline, 20, 15, kToday});
    ledger->add({"demo", "cpu", Quantity::ttft_ms, Basis::roofline, 100, 200, kToday});
  }
  EXPECT_EQ(fact_of(book, "backend.cpu.decode_tps"),
            "15, predicted: roofline 20 GB/s / 1 GB, times 0.75 as seen, 0 s");
  EXPECT_THAT(fact_of(book, "backend.cpu.ttft"), ::testing::StartsWith("10240, "));
  EXPECT_THAT(fact_of(book, "backend.cpu.prefill_tps"), ::testing::StartsWith("50, "));
  EXPECT_THAT(fact_of(book, "backend.cpu.load_time"), ::testing::StartsWith("310, "));
  ledger->add({"demo", "cpu", Quantity::load_ms, Basis::roofline, 310, 3100, kToday});
  EXPECT_EQ(fact_of(book, "backend.cpu.load_time"),
            "3100, predicted: 1.1 GB read and written at 20 GB/s, times 10 as seen, 0 s");
  EXPECT_DOUBLE_EQ(book.likely("demo", "cpu", Kind::load_ms, 0, kToday)->value, 3100);
  // What the next outcome is compared with is not corrected, or the correction would be corrected.
  EXPECT_EQ(book.expected("demo", "cpu", Kind::decode_tps, 1, kToday)->value, 20);
  EXPECT_EQ(book.expected("demo", "cpu", Kind::decode_tps, 1, kToday)->basis, Basis::roofline);
  EXPECT_FALSE(book.expected("other", "cpu", Kind::decode_tps, 1, kToday));
}

}  // namespace
}  // namespace flyball::measure
