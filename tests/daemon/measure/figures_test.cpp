// What measurements say about a load, what the store gives back of them, and which of them count.
#include "daemon/measure/figures.hpp"

#include <gtest/gtest.h>

#include "daemon/measure/book.hpp"
#include "daemon/measure/measured_store.hpp"
#include "policy/fastest.hpp"
#include "tests/daemon/store/support.hpp"

namespace flyball::measure {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;
constexpr std::int64_t kDay = 24 * 3600;

std::vector<Figure> some() {
  return {{Kind::decode_tps, 1, 40, kNow - 10},
          {Kind::decode_tps, 8, 110, kNow - 20},
          {Kind::decode_tps, 32, 130, kNow - 30},
          {Kind::prefill_tps, 128, 900, kNow - 40},
          {Kind::load_ms, 0, 250, kNow - 50}};
}

double value_at(const std::vector<Figure>& figures, Kind kind, std::uint32_t at, std::int64_t now = kNow) {
  const auto figure = figure_at(figures, kind, at, now);
  return figure ? figure->value : -1;
}

TEST(Figures, BetweenAndBeyondWhatWasMeasured) {
  const auto figures = some();
  EXPECT_EQ(value_at(figures, Kind::decode_tps, 1), 40);
  EXPECT_EQ(value_at(figures, Kind::decode_tps, 8), 110);
  EXPECT_DOUBLE_EQ(value_at(figures, Kind::decode_tps, 3), 60);    // 2 of 7 steps from 40 to 110
  EXPECT_DOUBLE_EQ(value_at(figures, Kind::decode_tps, 20), 120);  // half the way
  EXPECT_EQ(value_at(figures, Kind::decode_tps, 500), 130);
  EXPECT_EQ(value_at(figures, Kind::prefill_tps, 1), 900);
  EXPECT_EQ(value_at(figures, Kind::prefill_tps, 4096), 900);
  EXPECT_EQ(value_at(figures, Kind::load_ms, 0), 250);
  EXPECT_EQ(value_at(figures, Kind::watts, 0), -1);
  EXPECT_EQ(figure_at(figures, Kind::decode_tps, 3, kNow)->measured_at, kNow - 20);  // the older one's
}

TEST(Figures, OldOnesCountNoMore) {
  std::vector<Figure> figures = {{Kind::decode_tps, 1, 40, kNow - 30 * kDay},
                                 {Kind::decode_tps, 8, 110, kNow - 30 * kDay - 1}};
  EXPECT_EQ(value_at(figures, Kind::decode_tps, 8), 40);
  EXPECT_EQ(value_at(figures, Kind::decode_tps, 8, kNow + 1), -1);
}

TEST(Figures, EveryKindHasAName) {
  for (std::size_t i = 0; i < kKinds; ++i)
    EXPECT_EQ(kind_named(to_string(static_cast<Kind>(i))), static_cast<Kind>(i));
  EXPECT_EQ(kind_named("speed"), std::nullopt);
}

class MeasuredStore : public test::StoreDirectory {};

TEST_F(MeasuredStore, GivesBackWhatItWasGiven) {
  auto database = open();
  const Subject a{"m1", "cpu", "a processor", "v1", "kv f16"}, b{"m1", "vulkan", "a device", "d1", "kv f16"};
  ASSERT_TRUE(save(database, a, some()));
  ASSERT_TRUE(save(database, b, std::vector<Figure>{{Kind::decode_tps, 1, 8, kNow}}));
  auto all = load(database, kNow);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->size(), 6U);
  // Measured again: the old figures are gone, those of others stay.
  ASSERT_TRUE(save(database, a, std::vector<Figure>{{Kind::decode_tps, 1, 44, kNow}}));
  all = load(database, kNow);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  for (const Measured& m : *all) EXPECT_EQ(m.figure.value, m.subject == a ? 44 : 8);
  EXPECT_TRUE(load(database, kNow + 31 * kDay)->empty());
}

TEST_F(MeasuredStore, PassesOverWhatIsNoFigure) {
  auto database = open();
  for (const char* row : {"'speed', 1, 5.0", "'decode_tps', -1, 5.0", "'decode_tps', 1, -5.0",
                          "'decode_tps', 5000000000, 5.0", "'decode_tps', 2, 9e999"})
    ASSERT_TRUE(database.run("INSERT INTO measured VALUES ('m', 'cpu', 'd', 'v', 's', " + std::string(row) +
                             ", 1800000000)"));
  const auto all = load(database, kNow);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_TRUE(all->empty());
}

// ---- facts ------------------------------------------------------------------------------------------------

config::ModelEntry demo() {
  config::ModelEntry model;
  model.id = "demo";
  model.embedded = true;
  return model;
}
const Engine kCpu{"cpu", "a processor", "v1"}, kVulkan{"vulkan", "a device", "d1"};

Book book_of(const std::vector<Engine>& engines, const config::ModelEntry& model) {
  std::vector<Measured> measured;
  for (const Figure& f : some()) measured.push_back({subject_of(kCpu, model_digest(demo()), demo()), f});
  measured.push_back(
      {subject_of(kVulkan, model_digest(demo()), demo()), {Kind::decode_tps, 1, 8.123456, kNow - 3600}});
  return Book(measured, engines, {&model, 1});
}

TEST(Book, SetsFactsForTheAppsLoad) {
  const Book book = book_of({kCpu, kVulkan}, demo());
  EXPECT_EQ(book.size(), 2U);
  policy::Facts facts;
  book.set_facts("demo", kNow, facts);
  ASSERT_NE(facts.get("backend.cpu.decode_tps"), nullptr);
  EXPECT_EQ(std::get<double>(facts.get("backend.cpu.decode_tps")->value), 40);
  EXPECT_EQ(facts.get("backend.cpu.decode_tps")->source, "measured");
  EXPECT_EQ(facts.get("backend.cpu.decode_tps")->age, std::chrono::seconds(10));
  EXPECT_EQ(std::get<double>(facts.get("backend.vulkan.decode_tps")->value), 8.12);
  EXPECT_EQ(std::get<std::int64_t>(facts.get("backend.cpu.load_time")->value), 250);
  EXPECT_EQ(facts.get("backend.cpu.ttft"), nullptr);
  EXPECT_EQ(facts.get("backend.vulkan.prefill_tps"), nullptr);

  policy::Facts busy;
  busy.set("workload.concurrency", std::int64_t{20}, "manifest");
  book.set_facts("demo", kNow, busy);
  EXPECT_EQ(std::get<double>(busy.get("backend.cpu.decode_tps")->value), 120);
  policy::Facts absurd;
  absurd.set("workload.concurrency", std::int64_t{1} << 40, "manifest");
  book.set_facts("demo", kNow, absurd);
  EXPECT_EQ(std::get<double>(absurd.get("backend.cpu.decode_tps")->value), 130);
  policy::Facts other;
  book.set_facts("another", kNow, other);
  EXPECT_EQ(other.get("backend.cpu.decode_tps"), nullptr);
}

TEST(Book, HoldsOnlyWhatIsOfTheseFilesDevicesDriversAndSettings) {
  EXPECT_EQ(book_of({kCpu}, demo()).size(), 1U);
  EXPECT_TRUE(book_of({{"cpu", "another processor", "v1"}}, demo()).empty());
  EXPECT_TRUE(book_of({{"cpu", "a processor", "v2"}}, demo()).empty());
  auto other = demo();
  other.kv_type = "q8_0";
  EXPECT_TRUE(book_of({kCpu, kVulkan}, other).empty());
  other = demo();
  other.threads = 1;
  EXPECT_EQ(book_of({kCpu, kVulkan}, other).size(), 1U);  // threads are the processor's matter
  other = demo();
  other.embedded = false;
  other.path = "/nonexistent.gguf";
  EXPECT_TRUE(book_of({kCpu, kVulkan}, other).empty());
}

// ---- engines of their own ---------------------------------------------------------------------------------

TEST(Book, AnEngineOfItsOwnHasTheFiguresOfItsKindByItsThreads) {
  std::vector<Measured> measured;
  const Subject subject = subject_of(kCpu, model_digest(demo()), demo());
  for (const Figure& f : {Figure{Kind::decode_tps, 1, 40, kNow}, Figure{Kind::prefill_tps, 512, 800, kNow},
                          Figure{Kind::ttft_ms, 512, 640, kNow}})
    measured.push_back({subject, f});
  const config::ModelEntry entry = demo();
  const Book book(measured, std::vector<Engine>{kCpu}, {&entry, 1});
  const auto targets = policy::TargetCatalogue::with_own_engines(
      policy::default_targets(),
      std::vector<policy::TargetCatalogue::OwnEngine>{{"cpu", "night", {2U}}, {"cpu", "same", {}}});
  policy::Facts facts(targets);
  book.set_facts("demo", kNow, facts, {8, 8});
  const auto number = [&](const char* name) { return std::get<double>(facts.get(name)->value); };
  EXPECT_EQ(number("backend.cpu.prefill_tps"), 800);
  EXPECT_EQ(number("backend.cpu:same.prefill_tps"), 800);
  EXPECT_EQ(facts.get("backend.cpu:same.prefill_tps")->source, "measured");
  EXPECT_EQ(number("backend.cpu:night.prefill_tps"), 200) << "2 of 8 threads";
  EXPECT_EQ(number("backend.cpu:night.decode_tps"), 40) << "bound by reading the weights";
  EXPECT_EQ(std::get<std::int64_t>(facts.get("backend.cpu:night.ttft")->value), 2560);
  EXPECT_TRUE(policy::is_predicted(*facts.get("backend.cpu:night.prefill_tps")))
      << "nobody measured it with so many threads";

  const policy::TargetInstance& night = *targets->find("cpu:night");
  EXPECT_EQ(prefill_share(night, {}), 1) << "nobody knows the threads of the other";
  EXPECT_EQ(prefill_share(night, {1, 8}), 2);
  EXPECT_EQ(prefill_share(night, {1, 1}), 1) << "no more than there are";
}

}  // namespace
}  // namespace flyball::measure
