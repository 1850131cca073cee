// What comes of a process that measures, whatever it says; a script stands for it.
#include "daemon/calibrate/measuring.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/temp_dir.hpp"

namespace flyball::cli {
namespace {

class MeasuringTest : public ::testing::Test {
 protected:
  test::TempDir dir;

  // Figures, or the message of the failure.
  std::string measured(const std::string& script, std::optional<calibrate::MeasuringMemory> memory = {}) {
    const auto program = dir.path() / "measure";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    calibrate::Measuring m;
    m.engine.executable = program.string();
    m.memory = std::move(memory);
    measure::Subject subject;
    subject.model = "digest";
    const auto figures = calibrate::measure_in_child(m, subject);
    if (!figures) return figures.error().message;
    std::string out;
    for (const measure::Figure& f : *figures)
      out += std::string(measure::to_string(f.kind)) + "@" + std::to_string(f.at) + " ";
    return out;
  }
};

TEST_F(MeasuringTest, TakesAllFiguresOrNone) {
  EXPECT_EQ(measured(R"(echo '{"digest":"digest","figures":[["decode_tps",1,2.5],["load_ms",0,3]]}')"),
            "decode_tps@1 load_ms@0 ");
  const std::string none = "The process that measures it ended, and gave no figures.";
  EXPECT_EQ(measured(R"(echo '{"digest":"digest","figures":[["decode_tps",1,2.5],["load_ms",0,-3]]}')"),
            none);
  EXPECT_EQ(measured("exit 0"), none) << "not a word";
  EXPECT_EQ(measured("echo Killed."), none);
}

TEST_F(MeasuringTest, SaysWhyThereAreNone) {
  EXPECT_EQ(measured(R"(echo '{"digest":"other","figures":[]}')"), "Its file is another by now.");
  EXPECT_EQ(measured(R"(echo '{"error":{"code":"model_invalid","message":"No GGUF."}}')"), "No GGUF.");
  EXPECT_EQ(measured("exit 3"), "The process that measures it ended, and did not say why.");
}

TEST_F(MeasuringTest, HasItsMemoryOfWhoLendsIt) {
  const std::string needs =
      R"(echo '{"needs":{"weight_bytes":1,"scratch_bytes":2,"kv_bytes":3,"least_kv_bytes":4}}'; read answer; )";
  std::uint64_t needed = 0, held = 0;
  calibrate::MeasuringMemory memory{[&](const MemoryNeed& need) -> Result<std::uint64_t> {
                                      needed = need.most_bytes();
                                      return 12;
                                    },
                                    [&](std::uint64_t bytes) { held = bytes; }};
  const std::string rest = R"(echo '{"holds":9}'; echo '{"digest":"digest","figures":[["load_ms",'$n',3]]}')";
  EXPECT_EQ(measured(needs + "n=$(echo $answer | tr -dc 0-9); " + rest, memory), "load_ms@12 ");
  EXPECT_EQ(needed, 7U);
  EXPECT_EQ(held, 9U);
  memory.ask = [](const MemoryNeed&) -> Result<std::uint64_t> {
    return fail(ErrorCode::insufficient_memory, "It is not free.");
  };
  EXPECT_EQ(measured(needs + "sleep 3600", memory), "It is not free.");
}

}  // namespace
}  // namespace flyball::cli
