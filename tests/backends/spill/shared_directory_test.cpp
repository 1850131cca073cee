// Daemons that use one KV directory and have different apps.
#include "backends/spill/shared_directory.hpp"

#include <fcntl.h>

#include <thread>

#include "tests/backends/spill/support.hpp"

namespace flyball::test {
namespace {

using spill::SharedDirectory;

class SharedKv : public Directory {
 protected:
  SharedDirectory enter() const {
    auto entered = SharedDirectory::enter(options_.directory, {});
    EXPECT_TRUE(entered) << entered.error().message;
    return std::move(*entered);
  }
  void put(const char* owner) const {
    const auto store = open();
    const Token n = 1;
    ASSERT_TRUE(store->append(key(n, owner), root(owner), payload(n)));
  }
  const std::vector<std::string> mine_{"app"};
};

TEST_F(SharedKv, SweepsWhatIsNobodysWhereItIsAlone) {
  SharedDirectory one = enter();
  put("app");
  put("gone");
  const auto removed = one.sweep(mine_, {});
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(*removed, 1U);
  EXPECT_EQ(segments().size(), 1U);
}

TEST_F(SharedKv, KeepsTheKvOfAnotherDaemonThatUsesIt) {
  SharedDirectory one = enter();
  put("app");
  put("of the other daemon");
  {
    SharedDirectory other = enter();
    for (SharedDirectory* daemon : {&one, &other, &one}) {
      const auto removed = daemon->sweep(mine_, {});
      ASSERT_TRUE(removed) << removed.error().message;
      EXPECT_EQ(*removed, std::nullopt);
    }
    EXPECT_EQ(segments().size(), 2U);
  }
  EXPECT_EQ(*one.sweep(mine_, {}), 1U) << "the other one has ended";
}

// A sweep that cannot begin gives its share of the lock back, or the next daemon would sweep beside it.
TEST_F(SharedKv, ManyThatSweepAtOnceRemoveNothingOfEachOther) {
  constexpr int kDaemons = 4, kSweeps = 50;
  std::vector<std::string> names;
  std::vector<SharedDirectory> daemons;
  for (int i = 0; i < kDaemons; ++i) {
    names.push_back("app" + std::to_string(i));
    daemons.push_back(enter());
    put(names.back().c_str());
  }
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kDaemons; ++i)
      threads.emplace_back([&, i] {
        for (int n = 0; n < kSweeps; ++n)
          EXPECT_EQ(daemons[static_cast<std::size_t>(i)]
                        .sweep({&names[static_cast<std::size_t>(i)], 1}, {})
                        .value(),
                    std::nullopt);
      });
  }
  EXPECT_EQ(segments().size(), static_cast<std::size_t>(kDaemons));
}

// The page says that files in the directory may be removed at any time.
TEST_F(SharedKv, RemovedFilesLetNobodySweep) {
  SharedDirectory one = enter();
  for (const auto& file : std::filesystem::directory_iterator(options_.directory))
    std::filesystem::remove(file);
  SharedDirectory other = enter();
  put("app");
  put("of the other daemon");
  EXPECT_EQ(one.sweep(mine_, {}).value(), std::nullopt);
  EXPECT_EQ(other.sweep(mine_, {}).value(), std::nullopt);
}

TEST_F(SharedKv, KnowsADirectoryThatWasReplaced) {
  const SharedDirectory one = enter();
  EXPECT_TRUE(one.is_at(options_.directory));
  EXPECT_FALSE(one.is_at(top_));
  std::filesystem::rename(options_.directory, top_ / "moved");
  EXPECT_FALSE(one.is_at(options_.directory));
  const SharedDirectory made_anew = enter();
  EXPECT_FALSE(one.is_at(options_.directory));
}

TEST_F(SharedKv, StopsWaitingForLocksWhenTold) {
  SharedDirectory one = enter();
  put("gone");
  std::stop_source source;
  source.request_stop();
  auto change = config::FileLock::open(options_.directory / spill::kChangeLock);
  ASSERT_TRUE(change && change->try_take(config::FileLock::Mode::alone));  // an engine on a disk that hangs
  const auto swept = one.sweep(mine_, source.get_token());
  ASSERT_FALSE(swept);
  EXPECT_EQ(swept.error().code, ErrorCode::cancelled);
  EXPECT_EQ(segments().size(), 1U);
  change->give_up();
  config::FileLock alone(Descriptor(::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  EXPECT_FALSE(alone.try_take(config::FileLock::Mode::alone)) << "its share is not lost";
  { const SharedDirectory gone = std::move(one); }
  ASSERT_TRUE(alone.try_take(config::FileLock::Mode::alone));  // another daemon sweeps
  const auto entered = SharedDirectory::enter(options_.directory, source.get_token());
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, ErrorCode::cancelled);
}

TEST_F(SharedKv, SaysWhyTheLockCannotBeTaken) {
  SharedDirectory one = enter();
  std::filesystem::create_directory(options_.directory / spill::kChangeLock);
  const auto swept = one.sweep(mine_, {});
  ASSERT_FALSE(swept);
  EXPECT_EQ(swept.error().code, ErrorCode::io_error);
  EXPECT_NE(swept.error().message.find("directory"), std::string::npos) << swept.error().message;
}

TEST_F(SharedKv, SaysWhyADirectoryCannotBeUsed) {
  write(options_.directory, "a file");
  const auto entered = SharedDirectory::enter(options_.directory, {});
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, ErrorCode::io_error);
  EXPECT_EQ(entered.error().where, options_.directory.string());
}

}  // namespace
}  // namespace flyball::test
