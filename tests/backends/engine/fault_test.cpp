// Faults of the device at every submit and wait: a defined error, each request ends once, nothing leaks, the
// engine goes on; a lost device ends the backend.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/backends/engine/fakes.hpp"

namespace flyball::test {
namespace {

struct Outcome {
  int served = 0, failed = 0;
  std::vector<ErrorCode> codes;
};

Outcome run_three(FakeEngine& fake) {
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  Outcome out;
  for (const char* prompt : {"one", "twotwo", "threethreethreethree"}) {
    clients.push_back(std::make_shared<Client>());
    auto started = fake.backend->start(text_request(prompt, 6), clients.back());
    if (!started) {
      ++out.failed;
      out.codes.push_back(started.error().code);
      clients.pop_back();
      continue;
    }
    tickets.push_back(std::move(*started));
  }
  for (const auto& client : clients) {
    EXPECT_TRUE(client->wait_end());
    EXPECT_EQ(client->ends(), 1);
    if (client->error()) {
      ++out.failed;
      out.codes.push_back(client->error()->code);
    } else {
      ++out.served;
    }
  }
  return out;
}

void settle(FakeEngine& fake) {
  fake.backend->drain(std::chrono::steady_clock::now() + std::chrono::seconds(10));
  EXPECT_EQ(fake.backend->load().kv_blocks_used, 0U);
  EXPECT_EQ(fake.backend->load().running + fake.backend->load().waiting, 0U);
}

enum class At { submit, wait, throwing };

void fail_each(At at, ErrorCode code) {
  for (std::uint64_t n = 1; n <= 9; ++n) {
    SCOPED_TRACE(n);
    auto fake = make_fake({.blocks = 20, .step_tokens = 8});
    {
      const std::lock_guard lock(fake.control->mutex);
      fake.control->failure = code;
      (at == At::submit ? fake.control->fail_submit_at
       : at == At::wait ? fake.control->fail_wait_at
                        : fake.control->throw_at) = n;
    }
    const Outcome first = run_three(fake);
    EXPECT_EQ(first.served + first.failed, 3);
    for (const ErrorCode c : first.codes) EXPECT_EQ(c, at == At::throwing ? ErrorCode::internal : code);
    if (code == ErrorCode::device_lost) {
      if (first.failed > 0) {
        const auto late = fake.backend->start(text_request("x", 1), std::make_shared<Client>());
        ASSERT_FALSE(late);
        EXPECT_EQ(late.error().code, ErrorCode::device_lost);
      }
    } else {
      EXPECT_EQ(run_three(fake).served, 3) << "the engine goes on";
    }
    settle(fake);
  }
}

TEST(Faults, EverySubmitMayFail) {
  fail_each(At::submit, ErrorCode::internal);
}
TEST(Faults, EveryWaitMayFail) {
  fail_each(At::wait, ErrorCode::numeric_error);
}
TEST(Faults, EverySubmitMayThrow) {
  fail_each(At::throwing, ErrorCode::internal);
}
TEST(Faults, ALostDeviceEndsTheBackend) {
  fail_each(At::submit, ErrorCode::device_lost);
  fail_each(At::wait, ErrorCode::device_lost);
}

TEST(Faults, NanLogitsEndOnlyTheirOwnRequest) {
  auto fake = make_fake();
  {
    const std::lock_guard lock(fake.control->mutex);
    fake.control->poisoned = 'P';
  }
  auto good = std::make_shared<Client>();
  auto bad = std::make_shared<Client>();
  auto t1 = fake.backend->start(text_request("good", 20), good).value();
  auto t2 = fake.backend->start(text_request("Poisoned", 20), bad).value();
  ASSERT_TRUE(good->wait_end());
  ASSERT_TRUE(bad->wait_end());
  EXPECT_EQ(good->text(), expected_text("good", 20));
  EXPECT_EQ(bad->error()->code, ErrorCode::numeric_error);
  EXPECT_EQ(bad->deltas().size(), 0U);
  settle(fake);
}

TEST(Faults, WhatCannotEverFitIsRefusedWithNumbers) {
  auto fake = make_fake({.blocks = 5});
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("hello", 100), client).value();
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->error()->code, ErrorCode::insufficient_memory);
  EXPECT_NE(client->error()->message.find("the engine has 5"), std::string::npos);
  settle(fake);
}

}  // namespace
}  // namespace flyball::test
