// Tunings without a device: which are allowed, how they are searched, which is taken, and what a tuning file
// may do.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <set>

#include <nlohmann/json.hpp>

#include "backends/opencl/attend_plan.hpp"
#include "backends/opencl/tuning_db.hpp"
#include "backends/opencl/tuning_search.hpp"
#include "tests/backends/opencl/support.hpp"
#include "tests/harness/temp_dir.hpp"

namespace flyball::opencl {
namespace {

using kernels::DType;

const MatmulDevice kProcessor{
    .processor = true, .vector_floats = 16, .max_work_group = 4096, .local_bytes = 1 << 20};
const MatmulDevice kGpu{.vector_floats = 1, .max_work_group = 1024, .local_bytes = 48 << 10};

std::string text_of(const MatmulTuning& tuning) {
  std::string out;
  for (const TuningParameter& p : tuning_parameters()) out += std::to_string(p.value(tuning)) + " ";
  return out;
}

TEST(Tuning, OneSearchHasATuningFileAtATime) {
  const test::TempDir folder;
  const auto file = folder.path() / "opencl-tuning" / "device.json";
  {
    const auto first = lock_tuning(file);
    ASSERT_TRUE(first) << first.error().message;
    const auto second = lock_tuning(file);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::io_error);
    EXPECT_NE(second.error().message.find("(process " + std::to_string(getpid()) + ")"), std::string::npos)
        << second.error().message;
    EXPECT_TRUE(lock_tuning(folder.path() / "opencl-tuning" / "another device.json"));
  }
  EXPECT_TRUE(lock_tuning(file));
}

TEST(Tuning, WhatIsShippedIsAllowed) {
  for (const std::uint32_t floats : {1U, 4U, 8U, 16U}) {
    MatmulDevice device = kProcessor;
    device.vector_floats = floats;
    EXPECT_EQ(refusal(device, default_tuning(device)), "");
  }
  for (const std::uint32_t items : {16U, 64U, 100U, 256U, 1024U})
    for (const std::uint64_t local : {std::uint64_t{16} << 10, std::uint64_t{64} << 10}) {
      const MatmulDevice device{.vector_floats = 1, .max_work_group = items, .local_bytes = local};
      EXPECT_EQ(refusal(device, default_tuning(device)), "") << items << " " << local;
    }
}

// Where a device builds less than it says: each try asks for less, all are allowed, and the last for one work-item.
TEST(Tuning, WhatDoesNotBuildGivesWayToSmallerWorkGroups) {
  MatmulTuning tile = default_tuning(kGpu), matvec = tile;
  const auto items = [](const MatmulTuning& t) {
    return t.tile.rows / t.tile.item_rows * (t.tile.tokens / t.tile.item_tokens);
  };
  std::uint32_t tries = 0;
  while (const auto next = smaller_tile(tile)) {
    ASSERT_LT(++tries, 16U);
    EXPECT_EQ(refusal(kGpu, *next), "");
    EXPECT_LT(items(*next), items(tile));
    EXPECT_LE(next->tile.rows + next->tile.tokens, tile.tile.rows + tile.tile.tokens);  // local memory
    EXPECT_LE(next->tile.item_rows * next->tile.item_tokens, 32U);                      // registers
    EXPECT_EQ(next->matvec.slices, matvec.matvec.slices);
    tile = *next;
  }
  EXPECT_EQ(items(tile), 1U);
  EXPECT_EQ(tile.tile.rows + tile.tile.tokens, 33U);
  while (const auto next = smaller_matvec(matvec)) {
    EXPECT_EQ(refusal(kGpu, *next), "");
    EXPECT_EQ(next->matvec.lanes * next->matvec.slices * 2, matvec.matvec.lanes * matvec.matvec.slices);
    matvec = *next;
  }
  EXPECT_EQ(matvec.matvec.lanes * matvec.matvec.slices, 1U);
}

TEST(Tuning, ATableThatDoesNotBuildLosesWhatWasTunedFirst) {
  TuningTable table(default_tuning(kGpu));
  MatmulTuning tuned = table.shipped();
  tuned.matvec.slices = 8;
  table.set({{DType::q8_0, 64, 64}, RowClass::one}, tuned);
  const auto shipped = without_what_needs_more(table, "moe_matmul_tile");
  ASSERT_TRUE(shipped);
  EXPECT_TRUE(shipped->tuned().empty());
  EXPECT_EQ(changes(table.shipped(), shipped->shipped()), "");
  EXPECT_EQ(changes(table.shipped(), without_what_needs_more(*shipped, "moe_matmul_tile")->shipped()),
            "tile.tokens 64 -> 32");
  EXPECT_EQ(changes(table.shipped(), without_what_needs_more(*shipped, "matvec")->shipped()),
            "matvec.slices 16 -> 8");
  EXPECT_FALSE(without_what_needs_more(*shipped, "matmul_panel"));
}

TEST(AttendPlan, FitsTheDeviceAndGivesWay) {
  const AttendPlan ample = plan_attend(kGpu, 64, 4, 16);
  EXPECT_EQ(ample.rows, 8U);
  EXPECT_EQ(ample.lanes, 128U);
  EXPECT_EQ(ample.stage, 16U);
  EXPECT_EQ(plan_attend(kProcessor, 64, 4, 16).lanes, 1U);
  MatmulDevice small = kGpu;
  small.local_bytes = 16 << 10;
  EXPECT_LT(plan_attend(small, 128, 4, 16).rows, 8U);
  EXPECT_EQ(plan_attend(small, 64, 4, 16).stage, 16U);
  EXPECT_EQ(plan_attend(small, 256, 4, 16).rows, 1U);
  EXPECT_LT(plan_attend(small, 256, 4, 16).stage, 16U);
  small.max_work_group = 100;
  EXPECT_EQ(plan_attend(small, 64, 4, 16).lanes, 64U);

  AttendPlan plan = ample;
  EXPECT_EQ(smaller(plan, true)->rows, 4U);
  EXPECT_EQ(smaller(plan, true)->lanes, 128U);
  std::uint32_t tries = 0;
  while (const auto next = smaller(plan, false)) {
    ASSERT_LT(++tries, 16U);
    EXPECT_EQ(next->rows, plan.rows) << "decoding does not depend on it";
    EXPECT_TRUE(next->lanes < plan.lanes || next->stage < plan.stage);
    plan = *next;
  }
  EXPECT_EQ(plan.lanes, 1U);
  EXPECT_EQ(plan.stage, 1U);
}

TEST(Tuning, WhatDoesNotFitIsRefused) {
  const auto with = [](const MatmulDevice& device, std::string_view name, std::uint32_t value) {
    MatmulTuning tuning = default_tuning(device);
    for (const TuningParameter& p : tuning_parameters())
      if (p.name == name) p.of(tuning) = value;
    return refusal(device, tuning);
  };
  EXPECT_EQ(with(kGpu, "vector", 0), "vector is 0; it must be 1 to 16");
  EXPECT_EQ(with(kGpu, "panel.chunk", 513), "panel.chunk is 513; it must be 1 to 512");
  EXPECT_NE(with(kGpu, "vector", 3), "");
  EXPECT_NE(with(kGpu, "max_matvec_tokens", 3), "");
  EXPECT_NE(with(kGpu, "max_matvec_tokens", 4), "") << "5 to 8 rows would be summed as tiles are";
  EXPECT_EQ(with(kProcessor, "max_matvec_tokens", 4), "") << "a panel sums as matvec does";
  EXPECT_NE(with(kGpu, "matvec.lanes", 3), "") << "does not divide a row group";
  EXPECT_NE(with(kGpu, "tile.rows", 48), "") << "is no whole number of row groups";
  EXPECT_NE(with(kGpu, "tile.item_rows", 3), "");
  EXPECT_NE(with(kGpu, "tile.item_tokens", 5), "");
  EXPECT_NE(with(kProcessor, "matvec.slices", 2), "") << "sums in another order than the panel";
  EXPECT_NE(with(kProcessor, "panel.tokens", 7), "") << "a chunk would be overrun";
  EXPECT_EQ(with(kGpu, "matvec.slices", 32), "");
  MatmulDevice small = kGpu;
  small.max_work_group = 128;
  EXPECT_NE(refusal(small, default_tuning(kGpu)), "") << "256 work-items of a tile";
  small = kGpu;
  small.local_bytes = 8 << 10;
  EXPECT_NE(refusal(small, default_tuning(kGpu)), "") << "16 KiB of a tile";
}

TEST(Tuning, AProductGetsTheTuningOfItsShapeAndRows) {
  EXPECT_EQ(row_class(1), RowClass::one);
  EXPECT_EQ(row_class(2), RowClass::few);
  EXPECT_EQ(row_class(8), RowClass::few);
  EXPECT_EQ(row_class(9), RowClass::many);
  TuningTable table(default_tuning(kProcessor));
  MatmulTuning other = table.shipped();
  other.matvec.vectors = 1;
  const TuningKey key{{DType::q4_0, 64, 32}, RowClass::one};
  table.set(key, other);
  EXPECT_EQ(text_of(table.at(key)), text_of(other));
  for (const TuningKey& not_it :
       {TuningKey{{DType::q8_0, 64, 32}, RowClass::one}, TuningKey{{DType::q4_0, 32, 64}, RowClass::one},
        TuningKey{{DType::q4_0, 64, 32}, RowClass::few}})
    EXPECT_EQ(text_of(table.at(not_it)), text_of(table.shipped()));
  table.set(key, table.shipped());
  EXPECT_TRUE(table.tuned().empty());
}

// Down a valley whose bottom lies several steps and a trade away.
TEST(TuningSearch, FindsTheBottomOfAValleyWithoutTryingEverything) {
  const auto cost = [](const MatmulTuning& t) {
    const double lanes = std::log2(t.matvec.lanes), slices = std::log2(t.matvec.slices);
    return 1 + std::fabs(lanes - 5) + std::fabs(slices - 2) + std::fabs(std::log2(t.matvec.vectors) - 0);
  };
  std::set<std::string> tried;
  const auto print = [](const MatmulTuning& t) {  // what the matvec kernel is compiled with
    return plan_matmul(kGpu, t, DType::q4_0, std::vector<std::uint32_t>{64}, 1, false).options;
  };
  TuningSearch search(
      default_tuning(kGpu), [](const MatmulTuning& t) { return refusal(kGpu, t).empty(); }, print);
  tried.insert(print(search.best()));
  while (const auto candidate = search.next()) {
    EXPECT_EQ(refusal(kGpu, *candidate), "");
    EXPECT_TRUE(tried.insert(print(*candidate)).second) << "tried twice: " << print(*candidate);
    if (cost(*candidate) < cost(search.best())) search.accept();
    ASSERT_LT(tried.size(), 60U);
  }
  EXPECT_EQ(search.best().matvec.lanes, 32U);
  EXPECT_EQ(search.best().matvec.slices, 4U);
  EXPECT_EQ(search.best().tile.rows, default_tuning(kGpu).tile.rows) << "no part of what is compiled";
}

TEST(TuningSearch, EndsWhereNothingHelps) {
  TuningSearch search(
      default_tuning(kProcessor), [](const MatmulTuning& t) { return refusal(kProcessor, t).empty(); },
      text_of);
  std::size_t n = 0;
  while (search.next()) ASSERT_LT(++n, 60U);
  EXPECT_GT(n, 5U);
  EXPECT_EQ(text_of(search.best()), text_of(default_tuning(kProcessor)));
}

TEST(TuningChoice, AWinnerWinsAgainAndAgainAndByMoreThanNoise) {
  const auto judged = [](std::vector<Duel> duels) { return judge(duels); };
  EXPECT_EQ(judged({}), Verdict::undecided);
  EXPECT_EQ(judged({{0.5, 1}}), Verdict::undecided) << "one run proves nothing";
  EXPECT_EQ(judged({{0.5, 1}, {0.5, 1}, {0.5, 1}, {0.5, 1}, {0.5, 1}}), Verdict::better);
  EXPECT_EQ(judged({{0.5, 1}, {0.5, 1}, {3, 1}, {0.5, 1}, {0.5, 1}}), Verdict::better) << "one disturbed run";
  EXPECT_EQ(judged({{1.1, 1}, {1.1, 1}}), Verdict::not_better) << "no need for more";
  EXPECT_EQ(judged({{1, 1}, {1, 1}}), Verdict::not_better) << "as fast is not faster";
  EXPECT_EQ(judged({{0.99, 1}, {0.99, 1}, {0.99, 1}, {0.99, 1}, {0.99, 1}}), Verdict::not_better);
  EXPECT_EQ(judged({{0.9, 2}, {0.9, 2}, {0.9, 2}, {0.9, 0.9}, {0.9, 2}}), Verdict::not_better)
      << "undisturbed, the incumbent is as fast";
  EXPECT_EQ(judged({{std::nan(""), 1}, {std::nan(""), 1}}), Verdict::not_better);
}

// ---- the file ---------------------------------------------------------------------------------------------

const TunedDevice kDevice{"A \"device\"", "OpenCL 3.0, 1.2"};

TuningDb some_db() {
  TuningDb db{.tuned_at = 1'763'000'000, .table = TuningTable(default_tuning(kGpu))};
  MatmulTuning tuning = db.table.shipped();
  tuning.tile.item_rows = 8;
  db.table.set({{DType::q4_0, 5632, 2048}, RowClass::many}, tuning);
  tuning = db.table.shipped();
  tuning.matvec.lanes = 16;
  db.table.set({{DType::f16, 32'000, 2048}, RowClass::one}, tuning);
  return db;
}

TEST(TuningFile, KeepsWhatWasFound) {
  const test::TempDir dir;
  const auto path = dir.path() / "made" / "here";
  EXPECT_EQ(load_tuning(path, kDevice, &kGpu)->tuned_at, 0) << "no file: nothing tuned";
  ASSERT_TRUE(store_tuning(path, some_db(), kDevice));
  ASSERT_TRUE(store_tuning(path, some_db(), kDevice)) << "replaces";
  const auto db = load_tuning(path, kDevice, &kGpu);
  ASSERT_TRUE(db) << db.error().message << db.error().where;
  EXPECT_EQ(tuning_text(*db, kDevice), tuning_text(some_db(), kDevice));
  EXPECT_EQ(db->tuned_at, 1'763'000'000);
  EXPECT_EQ(db->table.tuned().size(), 2U);
  EXPECT_EQ(load_tuning(path, kDevice, nullptr)->table.tuned().size(), 2U);
  EXPECT_EQ(load_tuning(path, {"another", kDevice.driver}, &kGpu)->table.tuned().size(), 0U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path), {}), 1) << "nothing left beside it";
}

TEST(TuningFile, WhatCannotBeWrittenIsAnError) {
  const test::TempDir dir;
  std::ofstream(dir.path() / "file") << "x";
  const auto stored = store_tuning(dir.path() / "file", some_db(), kDevice);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, ErrorCode::io_error);
}

// Neither the file, nor what an earlier process of our number may have left where it is written first.
TEST(TuningFile, LinksAreNotFollowed) {
  namespace fs = std::filesystem;
  const test::TempDir dir;
  const fs::path directory = dir.path() / "tuning", elsewhere = dir.path() / "elsewhere";
  const fs::path path = tuning_file(directory, kDevice);
  fs::create_directory(directory);
  std::ofstream(elsewhere) << tuning_text(some_db(), kDevice);
  fs::create_symlink(elsewhere, path);
  EXPECT_EQ(load_tuning(directory, kDevice, &kGpu).error().code, ErrorCode::io_error);
  fs::create_symlink(elsewhere, path.string() + "." + std::to_string(getpid()) + ".part");
  TuningDb other = some_db();
  other.tuned_at += 1;
  ASSERT_TRUE(store_tuning(directory, other, kDevice));
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_EQ(load_tuning(directory, kDevice, &kGpu)->tuned_at, other.tuned_at);
  fs::remove(path);
  fs::rename(elsewhere, path);
  EXPECT_EQ(load_tuning(directory, kDevice, &kGpu)->tuned_at, some_db().tuned_at)
      << "was not written through";
}

TEST(TuningFile, CanBeReadByOthers) {  // who probes or tunes need not be the daemon's user
  const test::TempDir dir;
  const mode_t before = umask(022);
  ASSERT_TRUE(store_tuning(dir.path() / "tuning", some_db(), kDevice));
  umask(before);
  struct stat s {};
  ASSERT_EQ(stat((dir.path() / "tuning").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0755U);
  ASSERT_EQ(stat(tuning_file(dir.path() / "tuning", kDevice).c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0644U);
}

// Every mistake is named with its place, and nothing of the file is used.
TEST(TuningFile, EveryValueIsChecked) {
  const auto good = nlohmann::json::parse(tuning_text(some_db(), kDevice));
  struct Case {
    const char* at;
    nlohmann::json value;  // null: the member goes
    ErrorCode code = ErrorCode::invalid_value;
  };
  const Case cases[] = {{"/schema", "flyball.opencl-tuning/v0", ErrorCode::unsupported_value},
                        {"/schema", 1},
                        {"/device", "another", ErrorCode::unsupported_value},
                        {"/driver", "OpenCL 3.0, 1.3", ErrorCode::unsupported_value},
                        {"/kernels", "0000", ErrorCode::unsupported_value},
                        {"/kernels", nullptr},
                        {"/tuned_at", -1},
                        {"/tuned_at", 1e300},
                        {"/tuned_at", std::uint64_t{1} << 63},
                        {"/products", nullptr},
                        {"/products", nlohmann::json::object()},
                        {"/products/0", 7},
                        {"/products/0/format", "IQ1_S"},
                        {"/products/0/format", nullptr},
                        {"/products/0/rows_of_x", "3"},
                        {"/products/0/rows", 0},
                        {"/products/1/cols", std::uint64_t{1} << 32},
                        {"/products/1/parameters", nullptr},
                        {"/products/1/parameters/matvec.lanes", 64},
                        {"/products/1/parameters/matvec.lanes", 1.5},
                        {"/products/1/parameters/matvec.lanes", "8"},
                        {"/products/1/parameters/matvec.slices", nullptr},
                        {"/products/1/parameters/tile.rows", std::uint64_t{4'294'967'360}}};
  for (const Case& c : cases) {
    auto document = good;
    const nlohmann::json::json_pointer at(c.at);
    if (c.value.is_null()) {
      document.at(at.parent_pointer()).erase(at.back());
    } else {
      document.at(at) = c.value;
    }
    const auto db = parse_tuning(document.dump(), kDevice, &kGpu);
    ASSERT_FALSE(db) << c.at << " " << c.value;
    EXPECT_EQ(db.error().code, c.code) << c.at << " " << c.value;
    EXPECT_EQ(db.error().where, c.at) << db.error().message;
    EXPECT_FALSE(parse_tuning(document.dump(), kDevice, nullptr)) << c.at;
  }
  // In range each, and too much for this device together.
  auto document = good;
  document["/products/1/parameters/matvec.lanes"_json_pointer] = 32;
  document["/products/1/parameters/matvec.slices"_json_pointer] = 64;
  EXPECT_FALSE(parse_tuning(document.dump(), kDevice, &kGpu));
  // Rows 1 to 8 in two orders.
  document = good;
  document["/products/0/parameters/matvec.slices"_json_pointer] = 32;
  EXPECT_EQ(parse_tuning(document.dump(), kDevice, &kGpu).error().where, "/products");
}

TEST(TuningFile, WhatIsNoSuchDocumentIsAnError) {
  const std::string good = tuning_text(some_db(), kDevice);
  for (std::size_t n = 0; n + 2 < good.size(); n += 7)
    EXPECT_FALSE(parse_tuning(std::string_view(good).substr(0, n), kDevice, &kGpu)) << n;
  EXPECT_FALSE(parse_tuning("[]", kDevice, &kGpu));
  EXPECT_FALSE(parse_tuning("\xff\xfe", kDevice, &kGpu));
  EXPECT_FALSE(parse_tuning(std::string(100'000, '['), kDevice, &kGpu));
  auto document = nlohmann::json::parse(good);
  for (std::size_t i = 0; i <= kMaxTunedProducts; ++i)
    document["products"].push_back(document["products"][0]);
  EXPECT_EQ(parse_tuning(document.dump(), kDevice, &kGpu).error().where, "/products");
}

// Each is JSON, and deeper than a stack.
TEST(TuningFile, DepthIsNoDanger) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  const auto good = nlohmann::json::parse(tuning_text(some_db(), kDevice));
  const auto with = [&](nlohmann::json document, const nlohmann::json::json_pointer& at) {
    document[at] = "HERE";
    std::string text = document.dump();
    return text.replace(text.find("\"HERE\""), 6, deep);
  };
  const auto values = good.flatten();
  for (const auto& [where, value] : values.items()) {
    SCOPED_TRACE(where);
    const auto db = parse_tuning(with(good, nlohmann::json::json_pointer(where)), kDevice, &kGpu);
    ASSERT_FALSE(db);
    EXPECT_EQ(db.error().where, where);
    EXPECT_NE(db.error().message.find("is an array, not "), std::string::npos) << db.error().message;
  }
}

TEST(TuningFile, WhatStandsInItsPlaceDoesNotHoldUsUp) {
  const test::TempDir dir;
  const auto path = tuning_file(dir.path(), kDevice);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(load_tuning(dir.path(), kDevice, &kGpu).error().code, ErrorCode::io_error);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ(load_tuning(dir.path(), kDevice, &kGpu).error().code, ErrorCode::io_error);
  std::filesystem::remove(path);
  std::ofstream(path) << std::string(5 << 20, ' ');
  EXPECT_NE(load_tuning(dir.path(), kDevice, &kGpu).error().message.find("4194304"), std::string::npos);
}

}  // namespace
}  // namespace flyball::opencl
