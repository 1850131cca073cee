// `flyball tune` on a device, and the engine that takes up what it wrote.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "backends/opencl/matmul.hpp"
#include "backends/opencl/tune.hpp"
#include "backends/opencl/tuning_db.hpp"
#include "backends/opencl/weights.hpp"
#include "tests/backends/opencl/executors.hpp"

namespace flyball::opencl {
namespace {

using kernels::DType;
using namespace std::chrono_literals;

class Tune : public test::OpenClTest {
 protected:
  TuneOptions options(std::vector<MatrixShape> shapes, std::chrono::milliseconds budget) {
    TuneOptions o;
    o.device = test::any_device();
    o.directory = dir_.path();
    o.shapes = std::move(shapes);
    o.budget = budget;
    return o;
  }
  test::TempDir dir_;
};

TEST_F(Tune, KeepsWhatItMeasured) {
  auto o = options({{DType::f16, 33, 70}}, 6s);
  std::size_t told = 0;
  o.progress = [&](const TunedProduct&, std::size_t done, std::size_t all) {
    EXPECT_EQ(done, ++told);
    EXPECT_EQ(all, 3U);
  };
  const auto report = tune(o);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->stopped) << report->stopped->message;
  EXPECT_EQ(report->products.size() + report->left_out, 3U) << "how many, is a matter of the machine's load";
  EXPECT_EQ(report->products.size(), told);
  if (told == 0) GTEST_SKIP() << "the machine is too slow now to measure anything in 6 s";
  const auto device = Device::open(test::any_device()).value();
  const MatmulDevice limits = matmul_device(device->facts());
  const auto db = load_tuning(dir_.path(), {report->device, report->driver}, &limits);
  ASSERT_TRUE(db) << db.error().message;
  EXPECT_GT(db->tuned_at, 0);
  std::size_t better = 0;
  for (const TunedProduct& p : report->products) {
    EXPECT_EQ(changes(p.tuning, db->table.at(p.key)), "");
    EXPECT_GE(p.speedup, 1);
    better += !p.changes.empty();
  }
  EXPECT_EQ(db->table.tuned().size(), better);
}

// A program and its kernel are two calls.
constexpr int kFirstKernel = 2;

TEST_F(Tune, CandidatesThatTheDeviceDoesNotBuildArePassedOver) {
  auto o = options({{DType::q8_0, 64, 64}}, 120s);  // not used up: refusing is quick
  int builds = 0;
  o.device.interceptor = [&](Call call) { return call == Call::build && ++builds > kFirstKernel ? -11 : 0; };
  const auto report = tune(o);
  ASSERT_TRUE(report) << report.error().message;
  // One row has the only kernel; the others' shipped tuning itself is not built any more.
  ASSERT_EQ(report->products.size(), 1U);
  EXPECT_GT(report->products[0].tried, 0U);
  EXPECT_EQ(report->products[0].tried, report->products[0].refused);
  EXPECT_EQ(report->products[0].changes, "");
  ASSERT_TRUE(report->stopped);
  EXPECT_EQ(report->stopped->code, ErrorCode::model_unsupported);
  EXPECT_EQ(report->left_out, 2U);
  EXPECT_TRUE(std::filesystem::exists(report->file));
}

TEST_F(Tune, ADeviceThatFailsEndsIt) {
  auto o = options({{DType::q8_0, 64, 64}}, 120s);
  int builds = 0;
  o.device.interceptor = [&](Call call) {  // at the first candidate
    builds += call == Call::build;
    return builds >= 2 * kFirstKernel && call != Call::build && call != Call::settle ? -5 : 0;
  };
  o.device.settle_deadline = 1s;
  const auto report = tune(o);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->stopped);
  EXPECT_EQ(report->stopped->code, ErrorCode::device_lost);
  EXPECT_EQ(report->products.size(), 0U);
  EXPECT_EQ(report->left_out, 3U);
}

TEST_F(Tune, WithoutTimeLeavesAllOut) {
  const auto report = tune(options({{DType::f16, 64, 64}, {DType::q8_0, 64, 64}}, 0s));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->left_out, 6U);
  EXPECT_TRUE(report->products.empty());
  EXPECT_FALSE(std::filesystem::exists(report->file));
}

TEST_F(Tune, RefusesShapesThatNoMatrixHas) {
  for (const MatrixShape& shape : {MatrixShape{DType::q8_0, 64, 33}, MatrixShape{DType::f16, 0, 64},
                                   MatrixShape{DType::f16, 64, 1U << 30}})
    EXPECT_EQ(tune(options({shape}, 1s)).error().code, ErrorCode::invalid_value);
  auto o = options({{DType::f16, 64, 64}}, 1s);
  o.directory.clear();
  EXPECT_EQ(tune(o).error().code, ErrorCode::io_error);
}

// ---- the engine -------------------------------------------------------------------------------------------

struct Answer {
  std::vector<float> logits;
  std::uint32_t planned = 0, tuned = 0;
  std::string warning;
};

// A step of each count of tokens, and what their last ones' logits are.
Answer run_model(const test::RunModel& m, const std::filesystem::path& tuning,
                 const std::vector<std::uint32_t>& counts) {
  Answer answer;
  OpenClDeviceOptions options = test::opencl_options();
  options.tuning = tuning;
  options.warn = [&](const std::string& what) { answer.warning = what; };
  const auto executor = test::opencl_executor(m, DType::f16, options);
  for (const std::uint32_t n : counts) {
    const auto rows =
        test::run_step(*executor, {{test::random_tokens(n, m.vocab(), n), 0, {5, 3, 7, 0}, true}}, m.vocab());
    if (!rows.empty()) answer.logits.insert(answer.logits.end(), rows[0].begin(), rows[0].end());
  }
  answer.planned = executor->statistics().products_planned;
  answer.tuned = executor->statistics().products_tuned;
  return answer;
}

// The smallest step that each class of rows can take away from the shipped tuning.
MatmulTuning changed(MatmulTuning tuning, const MatmulDevice& device) {
  tuning.matvec.vectors = tuning.matvec.vectors > 1 ? 1 : 2;
  if (device.processor)
    tuning.panel.chunk /= 2;
  else
    tuning.tile.tokens /= 2;
  EXPECT_EQ(refusal(device, tuning), "");
  return tuning;
}

TEST_F(Tune, TheEngineTakesUpWhatWasFoundAndAnswersTheSame) {
  for (const std::string_view shape : {"dim=64,layers=2,heads=4,kv_heads=2,ffn=96,vocab=320",
                                       "dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320,arch=qwen3moe,"
                                       "experts=4,experts_used=2,expert_ffn=64"}) {
    const test::RunModel m = test::synthetic_model(DType::q8_0, shape);
    const auto device = Device::open(test::any_device()).value();
    const MatmulDevice limits = matmul_device(device->facts());
    TuningDb db{.tuned_at = 1, .table = TuningTable(default_tuning(limits))};
    for (const MatrixShape& matrix : matrix_shapes(*m.file))
      for (const RowClass rows : kRowClasses)
        db.table.set({matrix, rows}, changed(db.table.shipped(), limits));
    ASSERT_TRUE(store_tuning(dir_.path(), db, {device->facts().name, device->facts().driver}));
    const std::vector<std::uint32_t> counts{1, 5, 40};  // one of each class
    const Answer plain = run_model(m, {}, counts), tuned = run_model(m, dir_.path(), counts);
    EXPECT_EQ(tuned.warning, "");
    EXPECT_EQ(plain.tuned, 0U);
    EXPECT_GT(tuned.planned, matrix_shapes(*m.file).size());
    EXPECT_EQ(tuned.tuned, tuned.planned) << "every shape that the engine meets is one that is tuned";
    ASSERT_EQ(plain.logits.size(), counts.size() * m.vocab());
    ASSERT_EQ(plain.logits.size(), tuned.logits.size());
    for (std::size_t i = 0; i < plain.logits.size(); ++i) {
      if (limits.processor) {
        ASSERT_EQ(plain.logits[i], tuned.logits[i]) << i;
      } else {
        ASSERT_NEAR(plain.logits[i], tuned.logits[i], 1e-3) << i;
      }
    }
  }
}

TEST_F(Tune, AFileThatCannotBeUsedCostsAWarning) {
  const test::RunModel m =
      test::synthetic_model(DType::q8_0, "dim=64,layers=1,heads=4,kv_heads=2,ffn=96,vocab=320");
  const auto device = Device::open(test::any_device()).value();
  const auto path = tuning_file(dir_.path(), {device->facts().name, device->facts().driver});
  std::ofstream(path) << "{}";
  const Answer plain = run_model(m, {}, {3}), warned = run_model(m, dir_.path(), {3});
  EXPECT_EQ(warned.logits, plain.logits);
  EXPECT_EQ(warned.tuned, 0U);
  EXPECT_NE(warned.warning.find(path.string()), std::string::npos) << warned.warning;
  EXPECT_EQ(plain.warning, "");
  // Tuning says so, and replaces it with the first product.
  auto o = options({{DType::q8_0, 64, 64}}, 120s);
  int builds = 0;
  o.device.interceptor = [&](Call call) { return call == Call::build && ++builds > kFirstKernel ? -11 : 0; };
  const auto report = tune(o);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ignored);
  EXPECT_EQ(run_model(m, dir_.path(), {3}).warning, "");
}

}  // namespace
}  // namespace flyball::opencl
