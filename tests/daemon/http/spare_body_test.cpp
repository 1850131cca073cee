#include "daemon/http/spare_body.hpp"

#include <gtest/gtest.h>

namespace flyball::http {
namespace {

std::string body_of(std::size_t bytes) {
  std::string out;
  out.reserve(bytes);
  out.assign(bytes, 'x');
  return out;
}

TEST(SpareBody, LendsTheMemoryOfAnEarlierBodyOnce) {
  SpareBody spare;
  std::string body = body_of(2 * SpareBody::kLeast);
  const char* const memory = body.data();
  spare.keep(std::move(body));
  const std::string room = spare.take(2 * SpareBody::kLeast);
  EXPECT_EQ(room.data(), memory);
  EXPECT_EQ(room, "");
  EXPECT_LT(spare.take(SpareBody::kLeast).capacity(), SpareBody::kLeast);
}

TEST(SpareBody, LendsNothingToABodyThatIsShortOrDoesNotFit) {
  SpareBody spare;
  spare.keep(body_of(2 * SpareBody::kLeast));
  EXPECT_LT(spare.take(SpareBody::kLeast - 1).capacity(), SpareBody::kLeast);
  EXPECT_LT(spare.take(3 * SpareBody::kLeast).capacity(), SpareBody::kLeast);
  EXPECT_GE(spare.take(SpareBody::kLeast).capacity(), 2 * SpareBody::kLeast) << "it is still there";
}

// A body is charged by its length.
TEST(SpareBody, LendsNoMoreThanTwiceWhatABodyIsChargedWith) {
  SpareBody spare;
  spare.keep(body_of(SpareBody::kMost));
  EXPECT_LT(spare.take(SpareBody::kMost / 2 - 1).capacity(), SpareBody::kLeast);
  EXPECT_GE(spare.take(SpareBody::kMost / 2).capacity(), SpareBody::kMost);
}

TEST(SpareBody, KeepsTheLastBodyWithinItsBound) {
  SpareBody spare;
  for (const std::size_t bytes :
       {SpareBody::kLeast, SpareBody::kMost, SpareBody::kMost + 1, SpareBody::kLeast - 1})
    spare.keep(body_of(bytes));
  const std::string room = spare.take(SpareBody::kMost);
  EXPECT_GE(room.capacity(), SpareBody::kMost);
  EXPECT_LT(room.capacity(), SpareBody::kMost + 1);
}

TEST(SpareBody, ReservesRoomForALargeBodyToGrow) {
  EXPECT_EQ(SpareBody::room_for(0), 0U);
  EXPECT_EQ(SpareBody::room_for(SpareBody::kLeast - 1), SpareBody::kLeast - 1);
  EXPECT_EQ(SpareBody::room_for(SpareBody::kLeast), SpareBody::kLeast);
  EXPECT_EQ(SpareBody::room_for(SpareBody::kLeast + 1), 2 * SpareBody::kLeast);
  EXPECT_EQ(SpareBody::room_for(SpareBody::kMost), SpareBody::kMost);
  EXPECT_EQ(SpareBody::room_for(SpareBody::kMost + 1), SpareBody::kMost + 1) << "it is not kept";
}

}  // namespace
}  // namespace flyball::http
