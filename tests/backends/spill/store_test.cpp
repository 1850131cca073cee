// What a store gives back is what was put in, or nothing, whatever happens to its files.
#include "backends/spill/spill_store.hpp"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "tests/backends/spill/support.hpp"

namespace flyball::test {
namespace {

using SpillStore = Directory;

TEST_F(SpillStore, GivesBackWhatWasPutAlsoAfterARestart) {
  {
    const auto store = open();
    for (Token n = 0; n < 20; ++n) ASSERT_TRUE(put(*store, n));
    for (Token n = 0; n < 20; ++n) EXPECT_EQ(found(*store, n), 1) << n;
    EXPECT_EQ(found(*store, 20), 0);
  }
  const auto again = open();
  EXPECT_EQ(again->blocks(), 20U);
  for (Token n = 0; n < 20; ++n) EXPECT_EQ(found(*again, n), 1) << n;
  ASSERT_TRUE(put(*again, 20));  // beside the old segments, never into them
  EXPECT_EQ(found(*open(), 20), 1);
}

TEST_F(SpillStore, IsForThisUserAlone) {
  const auto store = open();
  ASSERT_TRUE(put(*store, 1));
  struct stat s {};
  ASSERT_EQ(stat(options_.directory.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U, 0700U);
  ASSERT_EQ(segments().size(), 1U);
  ASSERT_EQ(stat(segments()[0].c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U, 0600U);
}

TEST_F(SpillStore, ADirectoryThatOthersMayWriteToIsRefused) {
  std::filesystem::create_directories(options_.directory);
  std::filesystem::permissions(options_.directory, std::filesystem::perms::all);
  EXPECT_FALSE(spill::SpillStore::open(options_, space(), kBlockBytes));
}

// Segments of deleted apps are removed whole, whatever model the apps asked.
TEST_F(SpillStore, SegmentsOfOwnersThatAreGoneAreRemoved) {
  const std::vector<std::string> known{"app", "other"};
  EXPECT_EQ(spill::remove_all_but(options_.directory, known, {}), 0U) << "there is no such directory yet";
  ASSERT_TRUE(put(*open(), 1));
  ASSERT_TRUE(put(*open(), 2, "other"));
  {
    const auto mixed = open();
    ASSERT_TRUE(put(*mixed, 3));
    ASSERT_TRUE(put(*mixed, 4, "gone"));
  }
  const auto space_b = space("model b, f16");
  const auto elsewhere = open(space_b);
  const kv::ChainKey root_b = kv::root_key(space_b, "gone"),
                     key_b = kv::next_key(root_b, std::vector<Token>{1});
  ASSERT_TRUE(elsewhere->append(key_b, root_b, payload(5)));
  std::filesystem::create_directory(options_.directory / "ours");
  write(options_.directory / "ours" / "note", "kept");
  ASSERT_EQ(segments().size(), 4U);
  EXPECT_EQ(spill::remove_all_but(options_.directory, known, {}), 2U);
  const auto left = open();
  EXPECT_EQ(left->blocks(), 2U);
  EXPECT_EQ(found(*left, 1), 1);
  EXPECT_EQ(found(*left, 2, "other"), 1);
  EXPECT_FALSE(elsewhere->map(key_b)) << "an engine that runs finds that it is gone";
  EXPECT_TRUE(elsewhere->append(key_b, root_b, payload(5))) << "and goes on";
  EXPECT_EQ(read(options_.directory / "ours" / "note"), "kept");
  EXPECT_EQ(spill::remove_all_but(options_.directory, std::vector<std::string>{}, {}), 2U);
}

TEST_F(SpillStore, RemovalEndsWhereItIsToldTo) {
  ASSERT_TRUE(put(*open(), 1, "gone"));
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(spill::remove_all_but(options_.directory, std::vector<std::string>{"app"}, source.get_token()),
            0U);
  EXPECT_EQ(segments().size(), 1U);
}

TEST_F(SpillStore, AnotherModelsOrFormsBlocksAreNotFound) {
  ASSERT_TRUE(put(*open(), 1));
  EXPECT_EQ(open(space("model b, f16"))->blocks(), 0U);
  const auto other = spill::SpillStore::open(options_, space(), kBlockBytes + 4);
  ASSERT_TRUE(other);
  EXPECT_EQ((*other)->blocks(), 0U);
  EXPECT_EQ(open()->blocks(), 1U);
}

// A process that dies in the middle of a write leaves any number of its bytes.
TEST_F(SpillStore, ATailTornAtAnyByteIsNoBlock) {
  {
    const auto store = open();
    for (Token n = 0; n < 3; ++n) ASSERT_TRUE(put(*store, n));
  }
  const auto path = segments().at(0);
  const std::string whole = read(path);
  const std::size_t stride = spill::kRecordHeaderBytes + kBlockBytes;
  for (std::size_t size = whole.size();; --size) {
    std::filesystem::resize_file(path, size);
    const auto store = open();
    const std::size_t records =
        size < spill::kSegmentHeaderBytes ? 0 : (size - spill::kSegmentHeaderBytes) / stride;
    ASSERT_EQ(store->blocks(), records) << size;
    for (Token n = 0; n < 3; ++n)
      ASSERT_EQ(found(*store, n), n < static_cast<Token>(records) ? 1 : 0) << n << " of " << size << " bytes";
    if (size == 0) break;
  }
}

// After a crash of the machine the file may be long enough and hold nothing yet.
TEST_F(SpillStore, ATailOfZerosIsNoBlock) {
  {
    const auto store = open();
    for (Token n = 0; n < 3; ++n) ASSERT_TRUE(put(*store, n));
  }
  const auto path = segments().at(0);
  const std::string whole = read(path);
  for (std::size_t size = spill::kSegmentHeaderBytes; size < whole.size(); size += 7) {
    std::string torn = whole;
    std::fill(torn.begin() + static_cast<std::ptrdiff_t>(size), torn.end(), '\0');
    write(path, torn);
    const auto store = open();
    for (Token n = 0; n < 3; ++n) ASSERT_NE(found(*store, n), 2) << n << " of " << size << " bytes";
  }
}

TEST_F(SpillStore, AFlippedByteCostsItsBlockAlone) {
  {
    const auto store = open();
    for (Token n = 0; n < 3; ++n) ASSERT_TRUE(put(*store, n));
  }
  const auto path = segments().at(0);
  const std::string whole = read(path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const auto set = [&](std::size_t at, char byte) {
    file.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
  };
  for (std::size_t at = spill::kSegmentHeaderBytes; at < whole.size(); ++at) {
    set(at, static_cast<char>(whole[at] ^ 16));
    const auto store = open();
    int there = 0;
    for (Token n = 0; n < 3; ++n) {
      const int one = found(*store, n);
      ASSERT_NE(one, 2) << at;
      there += one;
    }
    ASSERT_EQ(there, 2) << at;
    set(at, whole[at]);
  }
}

TEST_F(SpillStore, WhatChangesOrGoesWhileItIsOpenIsNotFound) {
  const auto store = open();
  for (Token n = 0; n < 3; ++n) ASSERT_TRUE(put(*store, n));
  const auto path = segments().at(0);
  std::string whole = read(path);
  whole[spill::kSegmentHeaderBytes + spill::kRecordHeaderBytes + 9] ^= 1;
  write(path, whole.substr(0, whole.size() - 1));
  const auto changed = store->map(key(0));
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, ErrorCode::not_found);
  EXPECT_FALSE(store->contains(key(0)));
  EXPECT_EQ(found(*store, 1), 1);
  EXPECT_EQ(found(*store, 2), 0);
  std::filesystem::remove(path);
  EXPECT_EQ(found(*store, 1), 0);
}

TEST_F(SpillStore, StaysWithinItsBoundAndDropsWhatWasUsedLongestAgo) {
  options_.max_bytes = 64 * (spill::kRecordHeaderBytes + kBlockBytes);
  const auto store = open();
  for (Token n = 0; n < 300; ++n) {
    ASSERT_TRUE(put(*store, n));
    ASSERT_LE(bytes(), options_.max_bytes);
    ASSERT_EQ(found(*store, 0), 1) << n;                        // of use again and again
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than the steps of a file's time
  }
  EXPECT_EQ(found(*store, 299), 1);
  EXPECT_EQ(found(*store, 100), 0);
  EXPECT_GT(store->blocks(), 30U);
  EXPECT_EQ(open()->blocks(), store->blocks());
}

// Whoever names a directory that holds other things finds them there afterwards.
TEST_F(SpillStore, LeavesFilesThatAreNotItsOwn) {
  options_.max_bytes = 64 * (spill::kRecordHeaderBytes + kBlockBytes);
  const auto store = open();
  const std::vector<std::string> others = {"main.kv", "0123456789abcdef-main.kv", "0123456789abcdef-.kv",
                                           "0123456789ABCDEF-0123456789-1.kv"};
  for (const std::string& name : others) write(options_.directory / name, std::string(1 << 20, 'x'));
  for (Token n = 0; n < 300; ++n) ASSERT_TRUE(put(*store, n));
  for (const std::string& name : others) EXPECT_EQ(read(options_.directory / name).size(), 1U << 20U) << name;
}

TEST_F(SpillStore, TwoEnginesShareTheBound) {
  options_.max_bytes = 64 * (spill::kRecordHeaderBytes + kBlockBytes);
  const auto a = open();
  const auto b = open(space("model b, f16"));
  for (Token n = 0; n < 300; ++n) {
    ASSERT_TRUE(put(*a, n));
    ASSERT_TRUE(b->append(key(n), root(), payload(n)));
    // Each may have written a block that the other has not seen.
    ASSERT_LE(bytes(), options_.max_bytes + 2 * (spill::kRecordHeaderBytes + kBlockBytes));
    if (n == 0) continue;
    ASSERT_EQ(found(*a, n), 1);
    ASSERT_EQ(found(*b, n), 1);
  }
}

TEST_F(SpillStore, ABoundThatHoldsNextToNothingIsRefused) {
  options_.max_bytes = 3 * kBlockBytes;
  const auto store = spill::SpillStore::open(options_, space(), kBlockBytes);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().param, "kv_spill.max_bytes");
  EXPECT_FALSE(spill::SpillStore::open(options_, space(), UINT64_MAX));
}

TEST_F(SpillStore, AWriteThatFailsLeavesNothingAndSaysWhy) {
  int writes = 0;
  options_.interceptor = [&](spill::Call call) {
    return call == spill::Call::write && ++writes == 3 ? ENOSPC : 0;
  };
  const auto store = open();
  ASSERT_TRUE(put(*store, 0));
  ASSERT_TRUE(put(*store, 1));
  const auto failed = store->append(key(2), root(), payload(2));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::io_error);
  EXPECT_NE(failed.error().message.find("No space left"), std::string::npos) << failed.error().message;
  EXPECT_EQ(found(*store, 2), 0);
  ASSERT_TRUE(put(*store, 3));
  options_.interceptor = {};
  const auto again = open();
  EXPECT_EQ(again->blocks(), 3U);
  for (const Token n : {0, 1, 3}) EXPECT_EQ(found(*again, n), 1);
}

// A real one: no file of this process may be larger.
TEST_F(SpillStore, AFileThatCannotGrowLeavesNoHalfBlock) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1500, 1500};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    const auto store = spill::SpillStore::open(options_, space(), kBlockBytes);
    if (!store) _exit(3);
    const bool two = put(**store, 0) && put(**store, 1);
    _exit(two && !put(**store, 2) && found(**store, 1) == 1 && found(**store, 2) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::filesystem::file_size(segments().at(0)),
            spill::kSegmentHeaderBytes + 2 * (spill::kRecordHeaderBytes + kBlockBytes));
  EXPECT_EQ(open()->blocks(), 2U);
}

TEST_F(SpillStore, WhatIsForgottenIsNotFoundEither) {
  options_.max_bytes = 64 * (spill::kRecordHeaderBytes + kBlockBytes);  // four blocks a segment
  const auto store = open();
  for (Token n = 0; n < 8; ++n) ASSERT_TRUE(put(*store, n, "app"));
  for (Token n = 0; n < 8; ++n) ASSERT_TRUE(put(*store, n, "other"));
  for (Token n = 8; n < 10; ++n) ASSERT_TRUE(put(*store, n, "app"));
  store->forget(root("app"));
  for (Token n = 0; n < 10; ++n) EXPECT_EQ(found(*store, n, "app"), 0) << n;
  EXPECT_EQ(found(*store, 0, "other"), 1);
  ASSERT_TRUE(put(*store, 3, "app"));
  const auto again = open();
  for (Token n = 0; n < 10; ++n) EXPECT_EQ(found(*again, n, "app"), n == 3 ? 1 : 0) << n;
  EXPECT_EQ(found(*again, 0, "other"), 1);
}

// kill -9 at any moment: whoever comes next finds whole blocks alone, and all that were said to be written.
TEST_F(SpillStore, AKilledWriterLeavesNoWrongBlock) {
  std::mt19937 random(17);
  for (int round = 0; round < 10; ++round) {
    int said[2];
    ASSERT_EQ(pipe(said), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = spill::SpillStore::open(options_, space(), kBlockBytes);
      for (Token n = 0;; ++n) {
        if (!store || !put(**store, 1000 * round + n)) _exit(1);
        if (::write(said[1], &n, sizeof n) != sizeof n) _exit(1);
      }
    }
    close(said[1]);
    Token first = 0, last = 0;  // once it writes
    ASSERT_EQ(::read(said[0], &first, sizeof first), static_cast<ssize_t>(sizeof first));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (::read(said[0], &first, sizeof first) == static_cast<ssize_t>(sizeof first)) last = first;
    close(said[0]);
    const auto store = open();
    for (Token n = std::max(0, last - 100); n <= last; ++n)
      ASSERT_EQ(found(*store, 1000 * round + n), 1) << "round " << round << ", block " << n << " of " << last;
    ASSERT_NE(found(*store, 1000 * round + last + 1), 2);
  }
}

}  // namespace
}  // namespace flyball::test
