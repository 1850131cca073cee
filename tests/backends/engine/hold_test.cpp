// An engine that is held computes nothing, loses nothing, and goes on where it was.
#include <gtest/gtest.h>

#include "tests/backends/engine/fakes.hpp"

namespace flyball::test {
namespace {

std::uint64_t steps_of(FakeEngine& fake) {
  return fake.backend->load().steps;
}

TEST(Hold, StopsTheStepInFlightAndLosesNothingOfTheAnswer) {
  auto fake = make_fake({.yields = true});
  fake.control->stops = true;  // each step waits until it is stopped
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("prompt", 20), client).value();
  {
    std::unique_lock lock(fake.control->mutex);
    ASSERT_TRUE(fake.control->changed.wait_for(lock, std::chrono::seconds(20),
                                               [&] { return fake.control->stoppable > 0; }));
  }
  fake.backend->hold(true);
  {
    std::unique_lock lock(fake.control->mutex);
    ASSERT_TRUE(fake.control->changed.wait_for(lock, std::chrono::seconds(20),
                                               [&] { return fake.control->stopped > 0; }));
    fake.control->stops = false;
  }
  EXPECT_EQ(steps_of(fake), 0U);
  fake.backend->hold(false);
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), expected_text("prompt", 20));
}

TEST(Hold, ComputesNothingUntilItIsReleased) {
  auto fake = make_fake({.yields = true});
  fake.backend->hold(true);
  auto client = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("prompt", 20), client).value();
  // A request without a step is answered all the same.
  CompletionRequest tokens = text_request("abc", 1);
  tokens.wanted = Wanted::prompt_tokens;
  auto told = std::make_shared<Client>();
  auto second = fake.backend->start(tokens, told).value();
  ASSERT_TRUE(told->wait_end());
  EXPECT_EQ(client->ends(), 0);
  EXPECT_EQ(fake.control->submits, 0U);
  fake.backend->hold(false);
  ASSERT_TRUE(client->wait_end());
  EXPECT_EQ(client->text(), expected_text("prompt", 20));
}

// A hold at every step: each is lost or done, and none is done twice.
TEST(Hold, MayComeAtAnyMoment) {
  auto fake = make_fake({.yields = true});
  std::vector<std::shared_ptr<Client>> clients;
  std::vector<Ticket> tickets;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_shared<Client>());
    tickets.push_back(
        fake.backend->start(text_request("prompt " + std::to_string(i), 60), clients.back()).value());
  }
  for (int i = 0; i < 200; ++i) {
    fake.backend->hold(i % 2 == 0);
    std::this_thread::yield();
  }
  fake.backend->hold(false);
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(clients[static_cast<std::size_t>(i)]->wait_end());
    EXPECT_EQ(clients[static_cast<std::size_t>(i)]->text(), expected_text("prompt " + std::to_string(i), 60));
  }
}

TEST(Hold, LetsRequestsLeaveAndTheEngineEnd) {
  auto fake = make_fake({.yields = true});
  fake.backend->hold(true);
  auto left = std::make_shared<Client>();
  auto ticket = fake.backend->start(text_request("prompt", 20), left).value();
  ticket.cancel();
  auto stays = std::make_shared<Client>();
  auto second = fake.backend->start(text_request("prompt", 20), stays).value();
  fake.backend->drain(std::chrono::steady_clock::now());
  ASSERT_TRUE(stays->wait_end());
  ASSERT_TRUE(stays->error());
  EXPECT_EQ(stays->error()->code, ErrorCode::shutting_down);
}

}  // namespace
}  // namespace flyball::test
