// HTTP framing decided on bytes: what is a head, what is refused, and as early as possible.
#include "daemon/http/framing.hpp"

#include <gtest/gtest.h>

#include "daemon/http/request_parser.hpp"
#include "tests/harness/case_name.hpp"

namespace flyball::http {
namespace {

Result<std::optional<Head>> scan(std::string_view bytes, HeadLimits limits = {}) {
  return HeadScanner(limits).scan(bytes);
}

TEST(framing, accepts_an_ordinary_head) {
  const std::string bytes =
      "POST /v1/x?y=1 HTTP/1.1\r\nHost: localhost:8080\r\nContent-Length: 12\r\nExpect: "
      "100-continue\r\n\r\nbody";
  auto head = scan(bytes);
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->method, "POST");
  EXPECT_EQ((*head)->target, "/v1/x?y=1");
  EXPECT_EQ((*head)->host, "localhost:8080");
  EXPECT_EQ((*head)->content_length, 12U);
  EXPECT_TRUE((*head)->expect_continue);
  EXPECT_TRUE((*head)->keep_alive);
  EXPECT_EQ((*head)->size, bytes.size() - 4);
}

TEST(framing, waits_at_every_byte_of_a_good_head) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\nX: \ty \r\n\r\n";
  HeadScanner scanner({});
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    auto head = scanner.scan(std::string_view(bytes).substr(0, n));
    ASSERT_TRUE(head) << n << ": " << head.error().message;
    EXPECT_FALSE(*head) << n;
  }
  EXPECT_TRUE(*scanner.scan(bytes));
}

// RFC 9112, section 3.2.2: the URL's authority counts, and not the Host field.
TEST(framing, takes_an_absolute_target_apart) {
  struct Case {
    const char *target, *host, *origin_form;
  };
  for (const Case& c : {Case{"http://a/v1/x?y=1", "a", "/v1/x?y=1"},
                        {"HTTP://A:80/", "A:80", "/"},
                        {"hTTps://[::1]:8080/v1", "[::1]:8080", "/v1"},
                        {"http://a", "a", "/"},
                        {"http://a?y=http://b/c@d", "a", "/?y=http://b/c@d"},
                        {"http://a//b", "a", "//b"}}) {
    const std::string bytes = "GET " + std::string(c.target) + " HTTP/1.1\r\nHost: other\r\n\r\n";
    const auto head = scan(bytes);
    ASSERT_TRUE(head && *head) << c.target;
    EXPECT_EQ((*head)->host, c.host) << c.target;
    EXPECT_EQ((*head)->origin_form(), c.origin_form) << c.target;
    const auto parser = RequestParser::begin(**head, bytes, 100);
    ASSERT_TRUE(parser) << c.target;
    EXPECT_EQ(parser->request().target, c.origin_form);
    EXPECT_EQ(parser->request().host, c.host);
    EXPECT_EQ(parser->request().field("Host"), "other");
  }
}

TEST(framing, EmptyLinesBeforeARequestAreNoPartOfIt) {
  EXPECT_EQ(empty_lines(""), 0U);
  EXPECT_EQ(empty_lines("\r"), 0U);
  EXPECT_EQ(empty_lines("\r\n\r\n\rGET"), 4U);
  EXPECT_EQ(empty_lines("\n\r\n"), 0U);
  EXPECT_EQ(empty_lines("GET / HTTP/1.1\r\n"), 0U);
}

TEST(framing, AHostIsRequiredUnlessTheLimitsSayOtherwise) {
  const HeadLimits unix_socket{.host_required = false};
  for (const char* bytes : {"GET / HTTP/1.1\r\nX: y\r\n\r\n", "GET http://a/ HTTP/1.1\r\nX: y\r\n\r\n"}) {
    EXPECT_FALSE(scan(bytes)) << bytes;
    const auto head = scan(bytes, unix_socket);
    EXPECT_TRUE(head && *head) << bytes;
  }
  EXPECT_FALSE(scan("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", unix_socket));
}

TEST(framing, connection_options_and_versions) {
  const auto keep = [](std::string_view start, std::string_view field) {
    auto head = scan(std::string(start) + "\r\nHost: a\r\n" + std::string(field) + "\r\n");
    return head && *head && (*head)->keep_alive;
  };
  EXPECT_TRUE(keep("GET / HTTP/1.1", ""));
  EXPECT_FALSE(keep("GET / HTTP/1.1", "Connection: close\r\n"));
  EXPECT_FALSE(keep("GET / HTTP/1.1", "connection: foo, CLOSE\r\n"));
  EXPECT_FALSE(keep("GET / HTTP/1.0", ""));
  EXPECT_TRUE(keep("GET / HTTP/1.0", "Connection: keep-alive\r\n"));
  EXPECT_FALSE(keep("GET / HTTP/1.1", "Connection: keep-alive, close\r\n"));
}

// Each of these has been a request-smuggling vector somewhere.
struct Bad {
  const char* name;
  std::string head;
};
void PrintTo(const Bad& bad, std::ostream* out) {
  *out << bad.name;
}

class FramingRefusal : public ::testing::TestWithParam<Bad> {};

TEST_P(FramingRefusal, is_bad_framing) {
  auto head = scan(GetParam().head);
  ASSERT_FALSE(head) << GetParam().name;
  EXPECT_EQ(head.error().code, ErrorCode::bad_framing);
}

const std::string kStart = "POST / HTTP/1.1\r\nHost: a\r\n";

INSTANTIATE_TEST_SUITE_P(
    corpus, FramingRefusal,
    ::testing::Values(
        Bad{"length and coding", kStart + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"},
        Bad{"coding and length", kStart + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"},
        Bad{"differing lengths", kStart + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n"},
        Bad{"equal lengths", kStart + "Content-Length: 4\r\nContent-Length: 4\r\n\r\n"},
        Bad{"length list", kStart + "Content-Length: 4, 4\r\n\r\n"},
        Bad{"signed length", kStart + "Content-Length: +4\r\n\r\n"},
        Bad{"negative length", kStart + "Content-Length: -4\r\n\r\n"},
        Bad{"hex length", kStart + "Content-Length: 0x4\r\n\r\n"},
        Bad{"empty length", kStart + "Content-Length: \r\n\r\n"},
        Bad{"huge length", kStart + "Content-Length: 99999999999999999999\r\n\r\n"},
        Bad{"xchunked", kStart + "Transfer-Encoding: xchunked\r\n\r\n"},
        Bad{"chunked identity", kStart + "Transfer-Encoding: chunked, identity\r\n\r\n"},
        Bad{"chunked chunked", kStart + "Transfer-Encoding: chunked, chunked\r\n\r\n"},
        Bad{"two codings", kStart + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
        Bad{"gzip chunked", kStart + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
        Bad{"empty coding", kStart + "Transfer-Encoding:\r\n\r\n"},
        Bad{"vertical tab coding", kStart + "Transfer-Encoding: \x0b"
                                            "chunked\r\n\r\n"},
        Bad{"coding on 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
        Bad{"space before colon", kStart + "Transfer-Encoding : chunked\r\n\r\n"},
        Bad{"folded field", kStart + "X: a\r\n b\r\n\r\n"},
        Bad{"folded coding", kStart + "Transfer-Encoding:\r\n chunked\r\n\r\n"},
        Bad{"field without colon", kStart + "Content-Length\r\n\r\n"},
        Bad{"empty field name", kStart + ": x\r\n\r\n"}, Bad{"no host", "GET / HTTP/1.1\r\nX: y\r\n\r\n"},
        Bad{"two hosts", kStart + "Host: a\r\n\r\n"},
        Bad{"two origins", kStart + "Origin: https://a\r\norigin: https://a\r\n\r\n"},
        Bad{"bare line feed", "GET / HTTP/1.1\nHost: a\n\n"},
        Bad{"bare line feed in field", kStart + "X: y\nZ: w\r\n\r\n"},
        Bad{"lone carriage return", kStart + "X: a\rb\r\n\r\n"},
        Bad{"null byte", kStart + std::string("X: a\0b\r\n\r\n", 10)},
        Bad{"delete", kStart + "X: \x7f\r\n\r\n"}, Bad{"leading blank", " GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"http 2", "PRI * HTTP/2.0\r\n\r\n"}, Bad{"http 0.9", "GET /\r\n\r\n"},
        Bad{"http 1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
        Bad{"absolute target without host field", "GET http://a/ HTTP/1.1\r\nX: y\r\n\r\n"},
        Bad{"absolute target and two hosts", "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
        Bad{"absolute target without host", "GET http:///v1 HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"absolute target of a query", "GET http://?v1 HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"user in target", "GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"user and password in target", "GET http://user:word@a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"backslash and user in target", "GET http://a\\@b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"fragment in absolute target", "GET http://a#@b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"other scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"scheme with one slash", "GET http:/a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"scheme relative", "GET a/v1 HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"blank in absolute target", "GET http://a/ http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"authority target", "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"asterisk target", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"blank in target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"tab in request line", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"high byte in target", "GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"method with colon", "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"long method", "ABCDEFGHIJKLMNOPQ / HTTP/1.1\r\nHost: a\r\n\r\n"},
        Bad{"unknown expectation", kStart + "Expect: 200-maybe\r\n\r\n"},
        Bad{"tls hello", std::string("\x16\x03\x01\x02", 4)}),
    [](const auto& i) { return test::case_name(i.index, i.param.name); });

TEST(framing, refuses_without_waiting_for_the_blank_line) {
  EXPECT_FALSE(scan("GET / HTTP/1.1\r\nHost: a\nX"));
  EXPECT_FALSE(scan(std::string_view("\0", 1)));
}

TEST(framing, header_bytes_and_fields_are_limited) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  auto head = scan(start + "X: " + std::string(16 * 1024, 'y') + "\r\n\r\n");
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, ErrorCode::headers_too_large);
  EXPECT_FALSE(scan(start + "X: " + std::string(16 * 1024, 'y')));  // before its end is seen

  std::string fields = start;
  for (int i = 0; i < 99; ++i) fields += "a: b\r\n";
  EXPECT_TRUE(scan(fields + "\r\n"));  // with Host: 100
  head = scan(fields + "a: b\r\n\r\n");
  ASSERT_FALSE(head);
  EXPECT_EQ(head.error().code, ErrorCode::headers_too_large);
  const std::string fits = start + "X: " + std::string(1000, 'y') + "\r\n\r\n";
  EXPECT_TRUE(*scan(fits, {fits.size(), 10}));
  EXPECT_FALSE(scan(fits, {fits.size() - 1, 10}));
}

// ---- bodies, through Beast --------------------------------------------------------------------------------

Result<std::string> read_chunked(std::string_view body, std::uint64_t max = 1 << 20) {
  const std::string head_bytes = kStart + "Transfer-Encoding: chunked\r\n\r\n";
  auto head = scan(head_bytes);
  auto parser = RequestParser::begin(**head, head_bytes, max);
  if (!parser) return std::unexpected(parser.error());
  std::string buffer;
  for (const char c : body) {  // byte by byte: no state may depend on how input is cut
    buffer.push_back(c);
    auto used = parser->feed(buffer);
    if (!used) return std::unexpected(used.error());
    buffer.erase(0, *used);
    if (parser->done()) break;
  }
  if (!parser->done()) return fail(ErrorCode::request_timeout, "incomplete");
  return parser->take().body;
}

TEST(body, chunked) {
  EXPECT_EQ(*read_chunked("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"), "abcde");
  EXPECT_EQ(*read_chunked("0\r\n\r\n"), "");
  EXPECT_EQ(*read_chunked("0\r\nTrailer: value\r\n\r\n"), "");
}

TEST(body, malformed_chunks_are_bad_framing) {
  for (const char* body :
       {"x\r\n", "3\nabc", "3\r\nabcX\r\n", "-1\r\n", "FFFFFFFFFFFFFFFFF\r\n", "3 \r\nabc\r\n", "\r\n",
        "0\r\nbad trailer\r\n\r\n", "0\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"}) {
    auto got = read_chunked(std::string(body) + "\r\n0\r\n\r\n");  // more than enough to decide
    ASSERT_FALSE(got) << body;
    EXPECT_NE(got.error().code, ErrorCode::request_timeout) << body;
  }
}

TEST(body, trailers_do_not_become_fields) {
  const std::string head_bytes = kStart + "Transfer-Encoding: chunked\r\n\r\n";
  auto head = scan(head_bytes);
  auto parser = RequestParser::begin(**head, head_bytes, 100);
  ASSERT_TRUE(parser->feed("0\r\nAuthorization: Bearer x\r\n\r\n"));
  ASSERT_TRUE(parser->done());
  EXPECT_EQ(parser->take().field("Authorization"), "");
}

// Beast 1.81 throws std::length_error for a trailer field over 64 KiB; neither it nor the bytes get that far.
TEST(body, large_trailers_and_extensions_are_bad_framing) {
  auto got = read_chunked("0\r\nX: " + std::string(66 * 1024, 'y') + "\r\n\r\n");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::bad_framing);
  got = read_chunked("3;x=" + std::string(300 * 1024, 'y') + "\r\nabc\r\n0\r\n\r\n");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::bad_framing);
}

TEST(body, limits) {
  auto got = read_chunked("5\r\nabcde\r\n6\r\nabcdef\r\n0\r\n\r\n", 10);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::body_too_large);
  const std::string head_bytes = kStart + "Content-Length: 11\r\n\r\n";
  auto head = scan(head_bytes);
  auto parser = RequestParser::begin(**head, head_bytes, 10);
  ASSERT_FALSE(parser);
  EXPECT_EQ(parser.error().code, ErrorCode::body_too_large);
}

}  // namespace
}  // namespace flyball::http
