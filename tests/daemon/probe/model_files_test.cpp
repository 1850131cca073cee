// What is known of a model's file before an engine has loaded it: read by children, once for each state of
// the file; and what a decision makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/probe/model_files.hpp"
#include "daemon/route/facts.hpp"

namespace flyball::route {
namespace {

namespace fs = std::filesystem;

// A program in the place of `flyball`: notes each question, and answers with what lies in the model's file.
class ModelFilesTest : public testing::Test {
 protected:
  ModelFilesTest() : folder_(fs::temp_directory_path() / ("model-files-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    write("program", "#!/bin/sh\n[ \"$1 $2 $3\" = \"inspect --json --\" ] || exit 9\necho x >> \"" +
                         (folder_ / "asked").string() + "\"\ncat \"$4\"\n");
    fs::permissions(folder_ / "program", fs::perms::owner_all);
  }
  ~ModelFilesTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::trunc) << text;
  }
  config::ModelEntry model(const std::string& id, const std::string& file) const {
    config::ModelEntry entry;
    entry.id = id;
    entry.path = folder_ / file;
    return entry;
  }
  std::size_t asked() const {
    std::error_code none;
    const auto size = fs::file_size(folder_ / "asked", none);
    return none ? 0 : size / 2;
  }

  const fs::path folder_;
};

const std::string kMixture =
    R"({"architecture": "mixtral", "quantization": "Q4_K", "parameters": 46700000000, "context_length": 32768,
        "infill": true, "tool_template": true, "call_format": "mistral", "reasoning_format": "brackets", "shape": {"experts": 8}, "memory": {"weight_bytes": 26000000000, "token_weight_bytes": 7000000000}})";

TEST_F(ModelFilesTest, AreReadOnceForEachStateOfTheFile) {
  write("mixture.gguf", kMixture);
  probe::ModelFiles files(folder_ / "program", std::chrono::seconds(60));
  const std::vector<config::ModelEntry> models{model("a", "mixture.gguf"), model("b", "mixture.gguf"),
                                               model("absent", "absent.gguf")};
  const probe::ModelFilesRead read = files.read(models);
  const probe::ModelFileInfos& first = read.infos;
  ASSERT_EQ(first.size(), 2U);
  const BackendInfo& info = first.at("b");
  EXPECT_EQ(info.architecture, "mixtral");
  EXPECT_EQ(info.quantization, "Q4_K");
  EXPECT_EQ(info.parameters, 46'700'000'000U);
  EXPECT_EQ(info.weight_bytes, 26'000'000'000U);
  EXPECT_EQ(info.token_weight_bytes, 7'000'000'000U);
  EXPECT_EQ(info.context_length, 32768U);
  EXPECT_TRUE(info.mixture_of_experts);
  EXPECT_EQ(info.tool_template, true);
  EXPECT_EQ(info.infills, true);
  EXPECT_EQ(info.form, (AnswerForm{CallFormat::mistral, ReasoningFormat::brackets, false}));
  EXPECT_EQ(asked(), 2U) << "of two files";
  EXPECT_EQ(read.stamps.at("a"), fleet::file_stamp(folder_ / "mixture.gguf"));
  EXPECT_FALSE(read.stamps.contains("absent")) << "no engine ends for a file that cannot be read";
  EXPECT_EQ(files.read(models).infos.size(), 2U);
  EXPECT_EQ(asked(), 3U) << "the absent one may have come";
  std::string dense = kMixture;
  dense.replace(dense.find("8}"), 2, "0 }");  // of another size: another state, whatever the clock's grain
  write("mixture.gguf", dense);
  const probe::ModelFilesRead again = files.read(models);
  EXPECT_FALSE(again.infos.at("a").mixture_of_experts);
  EXPECT_NE(again.stamps.at("a"), read.stamps.at("a"));
  EXPECT_EQ(asked(), 5U);
}

TEST_F(ModelFilesTest, WhatIsNoAnswerIsNotKnown) {
  const char* const answers[] = {"", "nonsense", "[]", "{\"architecture\": \"llama\"}",
                                 R"({"architecture": "llama", "parameters": -1, "context_length": 1,
                                     "shape": {"experts": 0}, "memory": {"weight_bytes": 1, "token_weight_bytes": 1}})"};
  probe::ModelFiles files(folder_ / "program", std::chrono::seconds(60));
  std::vector<config::ModelEntry> models;
  for (std::size_t i = 0; i < std::size(answers); ++i) {
    write("m" + std::to_string(i), answers[i]);
    models.push_back(model("m" + std::to_string(i), "m" + std::to_string(i)));
  }
  EXPECT_TRUE(files.read(models).infos.empty());
  EXPECT_EQ(asked(), models.size());
  write("program", "#!/bin/sh\nexit 1\n");
  write("m1", kMixture);
  EXPECT_TRUE(files.read(models).infos.empty());
  write("program", "#!/bin/sh\nexec sleep 1000\n");
  EXPECT_TRUE(probe::ModelFiles(folder_ / "program", std::chrono::milliseconds(100)).read(models).infos.empty());
  EXPECT_TRUE(probe::ModelFiles("/nonexistent/flyball").read(models).infos.empty());
}

TEST_F(ModelFilesTest, TheProcessThatReadsThemSeesNoKey) {
  setenv("CANARY_API_KEY", "canary", 1);
  setenv("POCL_CANARY", "passes", 1);
  write("m", kMixture);
  write("program", "#!/bin/sh\ncat /proc/self/environ > \"" + (folder_ / "environment").string() + "\"\ncat \"$4\"\n");
  const std::vector<config::ModelEntry> models{model("m", "m")};
  EXPECT_EQ(probe::ModelFiles(folder_ / "program", std::chrono::seconds(60)).read(models).infos.size(), 1U);
  unsetenv("CANARY_API_KEY");
  unsetenv("POCL_CANARY");
  std::ifstream file(folder_ / "environment", std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(environment, testing::HasSubstr("POCL_CANARY=passes"));
  EXPECT_THAT(environment, testing::Not(testing::HasSubstr("CANARY_API_KEY")));
}

TEST_F(ModelFilesTest, TheReasonOfAFileThatCannotBeReadIsTold) {
  write("bad", R"({"error": {"code": "model_invalid", "message": "not a GGUF file"}})");
  write("program", "#!/bin/sh\ncat \"$4\"\nexit 65\n");
  write("silent", "");
  const std::vector<config::ModelEntry> models{model("bad", "bad"), model("silent", "silent"),
                                               model("alias of bad", "bad")};
  const auto read = probe::ModelFiles(folder_ / "program", std::chrono::seconds(60)).read(models);
  EXPECT_TRUE(read.infos.empty());
  ASSERT_EQ(read.troubles.size(), 3U);
  for (const char* id : {"bad", "alias of bad"}) {
    EXPECT_EQ(read.troubles.at(id).code, ErrorCode::model_invalid);
    EXPECT_EQ(read.troubles.at(id).message, "not a GGUF file");
  }
  EXPECT_EQ(read.troubles.at("silent").code, ErrorCode::model_unavailable) << "nothing is known of the file";
  // A file may have taken over the process that reads it.
  write("bad", R"({"error": {"code": "internal", "message": "forged\n2026 line \u001b[2J"}})");
  const auto forged = probe::ModelFiles(folder_ / "program", std::chrono::seconds(60)).read(models).troubles;
  EXPECT_EQ(forged.at("bad").code, ErrorCode::model_unavailable);
  EXPECT_EQ(forged.at("bad").message, "forged?2026 line ?[2J");
  write("program", "#!/bin/sh\nexec sleep 1000\n");
  const auto slow = probe::ModelFiles(folder_ / "program", std::chrono::milliseconds(100)).read(models);
  EXPECT_EQ(slow.troubles.at("bad").code, ErrorCode::model_unavailable);
  EXPECT_THAT(slow.troubles.at("bad").message, testing::HasSubstr("within 100 ms"));
}

TEST_F(ModelFilesTest, TheEmbeddedModelIsKnownWithoutAsking) {
  config::ModelEntry demo;
  demo.id = "demo";
  demo.embedded = true;
  const probe::ModelFileInfos infos = probe::ModelFiles("/nonexistent/flyball").read({&demo, 1}).infos;
  ASSERT_TRUE(infos.contains("demo"));
  const BackendInfo& info = infos.at("demo");
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_GT(info.parameters, 1'000'000U);
  EXPECT_GT(info.weight_bytes, info.parameters / 2);
  EXPECT_GT(info.context_length, 0U);
  EXPECT_EQ(asked(), 0U);
  policy::Facts hardware;
  hardware.set("hardware.memory.total", std::int64_t{1} << 30, "probe");
  const policy::Facts cold = gather(hardware, {}, {}, demo, {}, {}, &info);
  EXPECT_EQ(cold.get("model.fits_memory")->value, policy::FactValue(true));
}

// Before any engine has loaded it, the decision knows as much of the model as `flyball explain`.
TEST(Gather, AModelThatNobodyHasLoaded) {
  policy::Facts hardware;
  hardware.set("hardware.gpu.memory_total", std::int64_t{48} << 30, "probe");
  hardware.set("hardware.gpu.memory_used", std::int64_t{24} << 30, "probe");
  hardware.set("hardware.memory.total", std::int64_t{64} << 30, "probe");
  BackendInfo file;
  file.architecture = "mixtral";
  file.weight_bytes = 40ULL << 30;
  file.mixture_of_experts = true;
  file.context_length = 32768;
  config::ModelEntry model;
  model.id = "m";
  const policy::Facts cold = gather(hardware, {}, {}, model, {}, {}, &file);
  EXPECT_EQ(cold.get("model.moe")->value, policy::FactValue(true));
  EXPECT_EQ(cold.get("model.context")->value, policy::FactValue(std::int64_t{4096}))
      << "as it would be served";
  EXPECT_EQ(cold.get("model.kv_bytes"), nullptr) << "nobody knows";
  EXPECT_EQ(cold.get("model.bytes")->source, "model file");
  // By the GPU that the engine opens, of the two that are there.
  EXPECT_EQ(cold.get("model.fits_gpu")->value, policy::FactValue(false));
  EXPECT_EQ(cold.get("model.fits_memory")->value, policy::FactValue(true));
  model.context = 8192;
  EXPECT_EQ(gather(hardware, {}, {}, model, {}, {}, &file).get("model.context")->value,
            policy::FactValue(std::int64_t{8192}));
  const policy::Facts blind = gather(hardware, {}, {}, model, {}, {});
  EXPECT_EQ(blind.get("model.moe"), nullptr);
  EXPECT_EQ(blind.get("model.fits_gpu"), nullptr);
}

// 20 GiB of weights and 3 GiB of KV beside what others were promised, of 24 GiB on the cards and 64 in all.
TEST(Gather, AModelFitsWithItsKvBesideWhatIsPromised) {
  policy::Facts hardware;
  hardware.set("hardware.gpu.memory_total", std::int64_t{24} << 30, "probe");
  hardware.set("hardware.memory.total", std::int64_t{64} << 30, "probe");
  BackendInfo file;
  file.weight_bytes = 20ULL << 30;
  file.context_length = 32768;
  file.kv_token_bytes = 96 << 10;
  config::ModelEntry model;
  model.id = "m";
  model.context = 32768;
  LiveState live;
  live.memory.pools = {{"machine", 64ULL << 30}, {"cards", 24ULL << 30}};
  live.memory.pools[1].backends = {{"opencl", 24ULL << 30}};
  const auto fact = [&](const char* name) {
    const policy::Facts facts = gather(hardware, {}, {}, model, {}, live, &file);
    const policy::Fact* const found = facts.get(name);
    return found == nullptr ? policy::FactValue(std::string("unknown")) : found->value;
  };
  EXPECT_EQ(fact("model.kv_bytes"), policy::FactValue(std::int64_t{3} << 30));
  EXPECT_EQ(fact("model.fits_gpu"), policy::FactValue(true));
  model.kv_type = "q8_0";
  EXPECT_EQ(fact("model.kv_bytes"), policy::FactValue((std::int64_t{3} << 30) / 64 * 34));
  model.kv_type = "f16";
  model.context = 65536;
  EXPECT_EQ(fact("model.fits_gpu"), policy::FactValue(false)) << "6 GiB of KV";
  model.context = 32768;

  fleet::WorkerStatus other;
  other.model = "pinned";
  other.backend = "opencl";
  other.pinned = true;
  other.account_bytes = 2ULL << 30;
  live.workers = {other};
  EXPECT_EQ(fact("hardware.gpu.memory_promised"), policy::FactValue(std::int64_t{2} << 30));
  EXPECT_EQ(fact("model.fits_gpu"), policy::FactValue(false));
  EXPECT_EQ(fact("model.fits_memory"), policy::FactValue(true));
  live.workers[0].pinned = false;
  EXPECT_EQ(fact("model.fits_gpu"), policy::FactValue(true))
      << "an engine that ends for others promises nothing";
  live.workers[0].pinned = true;
  live.workers[0].model = "m";
  EXPECT_EQ(fact("model.fits_gpu"), policy::FactValue(true)) << "its own";
  live.workers[0].model = "pinned";
  live.workers[0].backend = "cpu";
  live.workers[0].account_bytes = 60ULL << 30;
  EXPECT_EQ(fact("hardware.memory.promised"), policy::FactValue(std::int64_t{60} << 30));
  EXPECT_EQ(fact("model.fits_memory"), policy::FactValue(true)) << "on the cards";
  live.workers.push_back(other);
  EXPECT_EQ(fact("model.fits_memory"), policy::FactValue(false));
}

TEST(Gather, WhatIsFreeOfTheMemoryThatEachEngineDrawsFrom) {
  policy::Facts hardware;
  BackendInfo file;
  file.weight_bytes = 40ULL << 30;
  config::ModelEntry model;
  model.id = "m";
  LiveState live;
  live.memory.pools = {
      {"machine", 64ULL << 30, 0, 30ULL << 30, 0, 0, {}},
      {"cards", 48ULL << 30, 0, 44ULL << 30, 0, 0, {{"opencl", 42ULL << 30}, {"vulkan", 1}}}};
  hardware.set("backend.cpu.available", true, "build");
  hardware.set("backend.opencl.available", true, "probe");
  hardware.set("backend.vulkan.available", false, "probe");
  live.memory.pressure = 12.5;
  live.memory.age = std::chrono::milliseconds(300);
  const policy::Facts cold = gather(hardware, {}, {}, model, {}, live, &file);
  EXPECT_EQ(cold.get("hardware.memory.pressure")->value, policy::FactValue(12.5));
  EXPECT_EQ(cold.get("backend.cpu.memory_free")->value, policy::FactValue(std::int64_t{30} << 30));
  EXPECT_EQ(cold.get("backend.vulkan.memory_free"), nullptr) << "there is no such engine here";
  EXPECT_EQ(cold.get("backend.opencl.memory_free")->value, policy::FactValue(std::int64_t{42} << 30))
      << "no more than its own devices have";
  EXPECT_EQ(cold.get("backend.opencl.memory_free")->age, live.memory.age);
  EXPECT_EQ(cold.get("backend.vllm.memory_free"), nullptr);
  EXPECT_EQ(cold.get("backend.cpu.fits_now")->value, policy::FactValue(false));
  EXPECT_EQ(cold.get("backend.opencl.fits_now")->value, policy::FactValue(true));
  EXPECT_EQ(cold.get("backend.opencl.fits_now")->age, live.memory.age) << "as old as what it follows from";

  // What is in memory needs no more of it.
  fleet::WorkerStatus worker;
  worker.model = "m";
  worker.backend = "cpu";
  worker.state = fleet::WorkerState::ready;
  worker.info = file;
  live.workers = {worker};
  EXPECT_EQ(gather(hardware, {}, {}, model, {}, live, &file).get("backend.cpu.fits_now")->value,
            policy::FactValue(true));

  // Nor does what is on its way there: its memory is reserved.
  live.workers[0].state = fleet::WorkerState::starting;
  const auto fits = [&] {
    return gather(hardware, {}, {}, model, {}, live, &file).get("backend.cpu.fits_now")->value;
  };
  EXPECT_EQ(fits(), policy::FactValue(false)) << "it waits for memory";
  live.workers[0].account_bytes = 40ULL << 30;
  EXPECT_EQ(fits(), policy::FactValue(true));
  live.workers[0].ending = true;
  EXPECT_EQ(fits(), policy::FactValue(false));

  const policy::Facts blind = gather(hardware, {}, {}, model, {}, {}, &file);
  EXPECT_EQ(blind.get("hardware.memory.pressure"), nullptr);
  EXPECT_EQ(blind.get("backend.cpu.memory_free"), nullptr);
  EXPECT_EQ(blind.get("backend.cpu.fits_now"), nullptr);
}

}  // namespace
}  // namespace flyball::route
