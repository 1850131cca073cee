// A directory of its own for each test, and blocks of KV whose bytes tell which they are.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "backends/spill/spill_store.hpp"

namespace flyball::test {

inline constexpr std::uint64_t kBlockBytes = 500;  // no multiple of anything

inline kv::ChainKey space(const char* name = "model a, f16") {
  return kv::space_key(name);
}
inline kv::ChainKey root(const char* owner = "app") {
  return kv::root_key(space(), owner);
}
inline kv::ChainKey key(Token n, const char* owner = "app") {
  const Token tokens[] = {n};
  return kv::next_key(root(owner), tokens);
}
inline std::vector<std::byte> payload(Token n, std::uint64_t bytes = kBlockBytes) {
  std::mt19937 random(static_cast<std::uint32_t>(n));
  std::vector<std::byte> block(bytes);
  for (std::byte& b : block) b = static_cast<std::byte>(random() & 255U);
  return block;
}

class Directory : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "flyball_spill_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    top_ = name;
    options_.directory = top_ / "kv";
    options_.max_bytes = 1 << 20;
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  std::unique_ptr<spill::SpillStore> open(const kv::ChainKey& of = space()) const {
    auto store = spill::SpillStore::open(options_, of, kBlockBytes);
    EXPECT_TRUE(store) << store.error().message;
    return std::move(*store);
  }
  std::vector<std::filesystem::path> segments() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(options_.directory))
      if (entry.path().extension() == ".kv") all.push_back(entry.path());
    std::ranges::sort(all);
    return all;
  }
  std::uint64_t bytes() const {
    std::uint64_t all = 0;
    for (const auto& segment : segments()) all += std::filesystem::file_size(segment);
    return all;
  }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  static bool put(spill::SpillStore& store, Token n, const char* owner = "app") {
    return store.append(key(n, owner), root(owner), payload(n)).has_value();
  }
  // 1: what was written; 0: not there. Anything else was never written.
  static int found(spill::SpillStore& store, Token n, const char* owner = "app") {
    const auto block = store.map(key(n, owner));
    if (!block) return 0;
    return std::ranges::equal(block->bytes(), payload(n)) ? 1 : 2;
  }

  std::filesystem::path top_;
  spill::StoreOptions options_;
};

}  // namespace flyball::test
