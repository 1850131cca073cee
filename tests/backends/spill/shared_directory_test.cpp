// Daemons that use one KV directory and have different apps.
#include "backends/spill/shared_directory.hpp"

#include <thread>

#include "tests/backends/spill/support.hpp"

namespace flyball::test {
namespace {

using spill::SharedDirectory;

class SharedKv : public Directory {
 protected:
  SharedDirectory enter() const {
    auto entered = SharedDirectory::enter(options_.directory);
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
          EXPECT_EQ(daemons[static_cast<std::size_t>(i)].sweep({&names[static_cast<std::size_t>(i)], 1}, {}).value(),
                    std::nullopt);
      });
  }
  EXPECT_EQ(segments().size(), static_cast<std::size_t>(kDaemons));
}

TEST_F(SharedKv, StopsWaitingForASweepWhenTold) {
  { const SharedDirectory makes_it = enter(); }
  auto alone = config::FileLock::open(options_.directory / spill::kUsersLock);
  ASSERT_TRUE(alone && alone->try_take(config::FileLock::Mode::alone));
  std::stop_source source;
  source.request_stop();
  const auto entered = SharedDirectory::enter(options_.directory, source.get_token());
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, ErrorCode::cancelled);
}

TEST_F(SharedKv, SaysWhyADirectoryCannotBeUsed) {
  write(options_.directory, "a file");
  const auto entered = SharedDirectory::enter(options_.directory);
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, ErrorCode::io_error);
  EXPECT_EQ(entered.error().where, options_.directory.string());
}

}  // namespace
}  // namespace flyball::test
