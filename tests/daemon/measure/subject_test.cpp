// Keys change when what they stand for does.
#include "daemon/measure/subject.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace flyball::measure {
namespace {

class ModelDigest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "flyball-digest-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    const auto path = directory_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    const timespec times[2] = {{1'700'000'000, 5}, {1'700'000'000, 5}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    return path;
  }

  std::filesystem::path directory_;
};

TEST_F(ModelDigest, OfASplitModelIsThatOfAllItsShards) {
  const auto first = write("m-00001-of-00002.gguf", "one");
  const std::string alone = model_digest(first);
  EXPECT_EQ(alone.size(), 64U) << "a merged model may have kept the name of its first shard";
  write("m-00002-of-00002.gguf", "two");
  const std::string digest = model_digest(first);
  EXPECT_NE(digest, alone);
  EXPECT_EQ(digest.size(), 64U);
  write("m-00002-of-00002.gguf", "TWO");
  EXPECT_NE(model_digest(first), digest);
}

TEST_F(ModelDigest, IsThatOfTheBytesTheSizeAndTheTime) {
  const std::string bytes(3'000'000, 'x');
  const auto path = write("a", bytes);
  const std::string digest = model_digest(path);
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(model_digest(path), digest);
  EXPECT_EQ(model_digest(write("moved", bytes)), digest);  // wherever it lies
  std::string other = bytes;
  other[17] = 'y';
  EXPECT_NE(model_digest(write("b", other)), digest);
  other = bytes;
  other.back() = 'y';
  EXPECT_NE(model_digest(write("c", other)), digest);  // the last sample ends with the file
  EXPECT_NE(model_digest(write("d", bytes + "x")), digest);
  const timespec later[2] = {{1'700'000'001, 5}, {1'700'000'001, 5}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), later, 0), 0);
  EXPECT_NE(model_digest(path), digest);  // written over, whatever was changed in it
}

TEST_F(ModelDigest, OfADirectoryIsThatOfItsFilesByName) {
  std::filesystem::create_directory(directory_ / "m");
  write("m/config.json", "{}");
  write("m/weights", "abc");
  const std::string digest = model_digest(directory_ / "m");
  EXPECT_EQ(digest.size(), 64U);
  std::filesystem::rename(directory_ / "m/weights", directory_ / "m/other");
  EXPECT_NE(model_digest(directory_ / "m"), digest);
  std::filesystem::rename(directory_ / "m/other", directory_ / "m/weights");
  EXPECT_EQ(model_digest(directory_ / "m"), digest);
  write("m/more", "");
  EXPECT_NE(model_digest(directory_ / "m"), digest);
}

TEST_F(ModelDigest, OfAFileThatIsAsItWasIsNotReadAgain) {
  write("weights", "some bytes");
  config::ModelEntry model;
  model.path = directory_ / "weights";
  Digests digests;
  const std::string first = digests.of(model);
  EXPECT_EQ(first, model_digest(model));
  EXPECT_EQ(digests.of(model), first);
  EXPECT_EQ(digests.files_read(), 1U);
  write("weights", "other bytes, and more");
  EXPECT_NE(digests.of(model), first);
  EXPECT_EQ(digests.files_read(), 2U);
  std::filesystem::remove(model.path);
  EXPECT_EQ(digests.of(model), "");
  EXPECT_EQ(digests.of(model), "");
  EXPECT_EQ(digests.files_read(), 4U) << "what could not be read is tried again";
}

TEST_F(ModelDigest, OfWhatIsNotThereIsEmpty) {
  EXPECT_EQ(model_digest(directory_ / "nothing"), "");
  EXPECT_EQ(model_digest(directory_), "");  // no file in it
  ASSERT_EQ(mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(model_digest(directory_ / "pipe"), "");  // and does not wait for a writer
  config::ModelEntry embedded;
  embedded.embedded = true;
  EXPECT_NE(model_digest(embedded), "");
}

TEST(Engines, AreToldApartByDeviceAndDriver) {
  cpu::CpuReport cpu;
  cpu.model = "A Processor";
  cpu.isa = "avx2";
  cpu.threads = 2;
  const Engine two = processor(cpu, 7);
  cpu.threads = 4;
  EXPECT_NE(processor(cpu, 7).device, two.device);

  DeviceProbe probe;
  DeviceReport device;
  device.id = "GPU#0";
  device.driver = "driver 1";
  device.kind = "discrete";
  probe.devices.push_back(device);
  device.id = "GPU#1";
  device.kind = "integrated";
  probe.devices.push_back(device);
  const std::vector<std::string> both = {"GPU#0", "GPU#1"}, none, absent = {"GPU#2"};
  const auto engine = gpu_engine("opencl", probe, both);
  ASSERT_TRUE(engine);
  EXPECT_EQ(engine->device, "GPU#0 + GPU#1");
  EXPECT_EQ(engine->device_kinds, (std::vector<std::string>{"discrete", "integrated"}));
  probe.devices[1].driver = "driver 2";
  EXPECT_NE(gpu_engine("opencl", probe, both)->driver, engine->driver);
  EXPECT_FALSE(gpu_engine("opencl", probe, none));
  EXPECT_FALSE(gpu_engine("opencl", probe, absent));
}

// A mixture whose experts no longer fit is another thing to measure.
TEST(Subjects, AreToldApartByWhatTheirExpertsMayTake) {
  const Engine cpu{"cpu", "A Processor", "flyball"}, gpu{"vulkan", "GPU#0", "driver 1"};
  config::ModelEntry all, some;
  some.expert_bytes = 1U << 20;
  EXPECT_NE(subject_of(cpu, "d", some).setup, subject_of(cpu, "d", all).setup);
  EXPECT_EQ(subject_of(gpu, "d", some).setup, subject_of(gpu, "d", all).setup) << "no word to this engine";
}

}  // namespace
}  // namespace flyball::measure
