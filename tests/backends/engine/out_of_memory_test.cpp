// Every allocation of the engine fails once, on whichever thread: the requests it hits end once, with
// insufficient_memory, and the engine goes on with its books balanced. Replaces operator new.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "tests/backends/engine/fakes.hpp"
#include "tests/harness/packed.hpp"

namespace {

// Allocations left before one fails (negative: none fails). Not those of the test itself.
std::atomic<std::int64_t> until_failure = -1;
thread_local int exempt = 0;

struct Exempt {
  Exempt() { ++exempt; }
  ~Exempt() { --exempt; }
};

void* allocate(std::size_t size) {
  if (exempt == 0 && until_failure.load() >= 0 && until_failure.fetch_sub(1) == 0) throw std::bad_alloc();
  void* const at = std::malloc(size);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace

// Not inlined: GCC would take the pair of one that is and one that is not for a mistake.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return allocate(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return allocate(size);
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept try {
  return allocate(size);
} catch (const std::bad_alloc&) {
  return nullptr;
}
[[gnu::noinline]] void operator delete(void* at) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete[](void* at) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept {
  std::free(at);
}
[[gnu::noinline]] void operator delete[](void* at, std::size_t) noexcept {
  std::free(at);
}

namespace flyball::test {
namespace {

// A client whose own memory never fails.
struct Sink final : EventSink {
  bool push(Event event) noexcept override {
    const Exempt here;
    return client.push(std::move(event));
  }
  Client client;
};

// As much of the engine as a request can reach: a resumed one, a stop string, log probabilities, penalties,
// one whose prompt is rendered, and two under a constraint that nobody had before.
std::vector<CompletionRequest> requests(std::int64_t n) {
  std::vector<CompletionRequest> all;
  all.push_back(text_request("a prompt of several steps and blocks", 6));
  all.back().stop = {"a stop string that is too long for the string itself"};
  all.back().sampling.top_logprobs = 3;
  all.back().sampling.frequency_penalty = 0.1F;
  all.back().resume_tokens = byte_tokens("res");
  all.push_back(text_request("", 4));
  all.back().prompt = ChatPrompt{test::packed(R"([{"role":"user","content":"hello"}])"), {}, {}};
  const std::string schema = R"({"type":"array","items":{"enum":["x",)" + std::to_string(n) + "]}}";
  for (const char* prompt : {"constrained", "and another"}) {
    all.push_back(text_request(prompt, 4));
    all.back().constraint = Constraint{Constraint::Kind::json_schema, test::packed(schema), false};
  }
  all.back().resume_tokens = byte_tokens("[\"");
  return all;
}

TEST(OutOfMemory, EveryAllocationFailsOnce) {
  const Exempt here;
  auto fake = make_fake({.blocks = 24, .step_tokens = 8});
  int failed = 0;
  for (std::int64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    std::vector<std::shared_ptr<Sink>> sinks;
    std::vector<Ticket> tickets;
    auto all = requests(n);
    tickets.reserve(all.size());
    until_failure = n;
    for (CompletionRequest& request : all) {
      sinks.push_back(std::make_shared<Sink>());
      --exempt;  // start() is the engine's, too
      auto started = fake.backend->start(std::move(request), sinks.back());
      ++exempt;
      if (started) {
        tickets.push_back(std::move(*started));
        continue;
      }
      EXPECT_EQ(started.error().code, ErrorCode::insufficient_memory);
      sinks.pop_back();
      ++failed;
    }
    for (const auto& sink : sinks) {
      ASSERT_TRUE(sink->client.wait_end());
      EXPECT_EQ(sink->client.ends(), 1);
      if (!sink->client.error()) continue;
      EXPECT_EQ(sink->client.error()->code, ErrorCode::insufficient_memory);
      ++failed;
    }
    const bool reached = until_failure.exchange(-1) < 0;
    const auto after = std::make_shared<Sink>();
    auto ticket = fake.backend->start(text_request("hello", 5), after);
    ASSERT_TRUE(ticket);
    ASSERT_TRUE(after->client.wait_end());
    ASSERT_EQ(after->client.text(), expected_text("hello", 5)) << "the engine does not go on";
    if (!reached) break;
  }
  EXPECT_GT(failed, 50);
  fake.backend->drain(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
  EXPECT_EQ(fake.backend->load().running + fake.backend->load().waiting, 0U);
}

// The same where KV goes to the disk: the request ends once, the saving that follows while nothing runs takes
// nobody down, and the drain returns.
TEST(OutOfMemory, EveryAllocationOfSavingFailsOnce) {
  const Exempt here;
  const auto directory = std::filesystem::temp_directory_path() / ("flyball_oom_" + std::to_string(getpid()));
  int off = 0;
  for (std::int64_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    std::filesystem::remove_all(directory);
    auto fake = make_fake({.blocks = 8, .step_tokens = 8, .spill = directory, .spill_after = {}});
    until_failure = n;
    const auto run = [&](const char* prompt) {
      const auto sink = std::make_shared<Sink>();
      auto request = text_request(prompt, 6);
      --exempt;  // start() is the engine's, too
      auto ticket = fake.backend->start(std::move(request), sink);
      ++exempt;
      if (!ticket) {
        EXPECT_EQ(ticket.error().code, ErrorCode::insufficient_memory);
        return;
      }
      ASSERT_TRUE(sink->client.wait_end());
      EXPECT_EQ(sink->client.ends(), 1);
      if (sink->client.error()) {
        EXPECT_EQ(sink->client.error()->code, ErrorCode::insufficient_memory);
      }
    };
    run("a prompt of several blocks");
    run("another one that takes all of their room");  // the first one's are evicted
    run("a prompt of several blocks");                // and come back
    fake.backend->drain(std::chrono::steady_clock::now() + std::chrono::seconds(60));
    const bool reached = until_failure.exchange(-1) < 0;
    off += fake.backend->load().spills ? 0 : 1;
    EXPECT_EQ(fake.backend->load().running + fake.backend->load().waiting, 0U);
    if (!reached) break;
  }
  EXPECT_GT(off, 10);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace flyball::test
