// Each descriptor has one owner, and is closed once, when that one goes.
#include "config/descriptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace flyball {
namespace {

bool is_open(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}
Descriptor opened() {
  return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

TEST(Descriptor, IsClosedWithItsOwner) {
  int fd = -1;
  {
    const Descriptor d = opened();
    fd = d.get();
    ASSERT_TRUE(d);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, NoneIsNoneToClose) {
  EXPECT_FALSE(Descriptor());
  EXPECT_FALSE(Descriptor(open("/nonexistent", O_RDONLY | O_CLOEXEC)));
  EXPECT_EQ(errno, ENOENT) << "still open()'s";
}

TEST(Descriptor, MovesToAnotherOwner) {
  Descriptor a = opened();
  const int fd = a.get();
  Descriptor b(std::move(a));
  EXPECT_FALSE(a);
  EXPECT_EQ(b.get(), fd);
  Descriptor c = opened();
  const int replaced = c.get();
  c = std::move(b);
  EXPECT_EQ(c.get(), fd);
  EXPECT_TRUE(is_open(fd));
  EXPECT_FALSE(is_open(replaced));
  Descriptor& self = c;
  c = std::move(self);
  EXPECT_EQ(c.get(), fd);
  EXPECT_TRUE(is_open(fd));
}

TEST(Descriptor, WhatIsReleasedStaysOpen) {
  int fd = -1;
  {
    Descriptor d = opened();
    fd = d.release();
    EXPECT_FALSE(d);
  }
  EXPECT_TRUE(is_open(fd));
  Descriptor{fd};
  EXPECT_FALSE(is_open(fd));
}

}  // namespace
}  // namespace flyball
