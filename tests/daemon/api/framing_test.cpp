// Parts of a multipart body: what a part is called, whatever its header says besides.
#include "daemon/api/framing.hpp"

#include <gtest/gtest.h>

namespace flyball::api {
namespace {

// The only part of a body that has it alone; valid until the next call.
Part part_of(const std::string& header) {
  static std::string body;  // the part's views are into it
  body = "--x\r\n" + header + "\r\n\r\nbytes\r\n--x--\r\n";
  const auto parts = read_multipart("multipart/form-data; boundary=x", body);
  EXPECT_TRUE(parts && parts->size() == 1) << header;
  return parts && parts->size() == 1 ? parts->front() : Part{};
}

TEST(Multipart, ReadsNameAndFilename) {
  const Part part = part_of("Content-Disposition: form-data; name=\"a\"; FILENAME=b.txt");
  EXPECT_EQ(part.name, "a");
  EXPECT_EQ(part.filename, "b.txt");
  EXPECT_EQ(part.body, "bytes");
}

TEST(Multipart, SkipsParametersWithoutAValue) {
  for (const char* before : {"x", "x; y", " ", "", "=", "=z", "x=\"\"", "name"}) {
    const Part part =
        part_of("Content-Disposition: form-data; " + std::string(before) + "; name=\"a\"; filename=\"b\"");
    EXPECT_EQ(part.name, "a") << before;
    EXPECT_EQ(part.filename, "b") << before;
  }
  EXPECT_EQ(part_of("Content-Disposition: form-data; name").name, "");
  EXPECT_EQ(part_of("Content-Disposition: form-data;").name, "");
}

TEST(Multipart, EndsAValueAtTheFirstUnescapedQuote) {
  const auto check = [](const std::string& filename, std::string_view expected) {
    const Part part = part_of("Content-Disposition: form-data; filename=\"" + filename + "\"; name=\"file\"");
    EXPECT_EQ(part.filename, expected);
    EXPECT_EQ(part.name, "file") << filename;
  };
  check(R"(a\"; name=\"model)", R"(a\"; name=\"model)");
  check(R"(a\\)", R"(a\\)");
  check("a;name=b", "a;name=b");
  const Part open = part_of("Content-Disposition: form-data; name=\"file\"; filename=\"a\\");
  EXPECT_EQ(open.name, "file");
  EXPECT_EQ(open.filename, "a\\");
}

TEST(Multipart, TakesTheFirstOfTwoNames) {
  EXPECT_EQ(part_of("Content-Disposition: form-data; name=\"a\"; name=\"b\"").name, "a");
  EXPECT_EQ(part_of("Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b").name,
            "a");
}

}  // namespace
}  // namespace flyball::api
