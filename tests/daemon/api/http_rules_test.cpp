// Requests that RFC 9110 and RFC 9112 let a client send, byte for byte through the real router: which of them
// are served, and which are refused because that protects somebody.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/daemon/api/wire.hpp"
#include "tests/harness/case_name.hpp"

namespace flyball::testing {
namespace {

const http::Peer kUnixPeer{.loopback = false, .unix_uid = 4711, .address = {}};
const std::string kKey = "Authorization: Bearer key-alice\r\n";

struct Case {
  const char* name;
  const char* rule;  // the RFC's section
  std::string bytes;
  std::vector<int> statuses;
  std::string says = {};  // in what the client receives
  bool unix_socket = false;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}
std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return test::case_name(info.index, info.param.name);
}

std::string get_with(const std::string& fields, const std::string& start = "GET /v1/models HTTP/1.1") {
  return start + "\r\nHost: localhost\r\n" + fields + "\r\n";
}
std::string chat(const std::string& fields, const std::string& body) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + kKey + fields + "\r\n" + body;
}
const std::string kJson = "Content-Type: application/json\r\n";
const std::string kHelloLength = "Content-Length: " + std::to_string(kHello.size()) + "\r\n";
std::string chunks_of_hello(const std::string& extension, const std::string& trailers) {
  char size[16];
  std::snprintf(size, sizeof size, "%zx", kHello.size());
  return size + extension + "\r\n" + std::string(kHello) + "\r\n0" + extension + "\r\n" + trailers + "\r\n";
}

class HttpRules : public ::testing::TestWithParam<Case> {
 protected:
  std::vector<Answer> talk(Wire& wire) {
    wire.send(GetParam().bytes);
    const std::vector<Answer> answers = wire.answers();
    std::vector<int> statuses;
    for (const Answer& one : answers) {
      statuses.push_back(one.status);
      EXPECT_EQ(one.field("Date"), kDate) << one.head;  // RFC 9110, section 6.6.1
    }
    EXPECT_EQ(statuses, GetParam().statuses) << GetParam().rule << "\n" << wire.received();
    EXPECT_NE(wire.received().find(GetParam().says), std::string::npos) << wire.received();
    return answers;
  }
  Rig rig;
};

struct ServedHttp : HttpRules {};
TEST_P(ServedHttp, IsServed) {
  Wire wire(rig, GetParam().unix_socket ? kUnixPeer : http::Peer{});
  talk(wire);
}

INSTANTIATE_TEST_SUITE_P(
    Rfc, ServedHttp,
    ::testing::Values(
        Case{"a key behind several blanks",
             "9110 11.4",
             get_with("Authorization: Bearer    key-alice\r\n"),
             {200}},
        Case{"a scheme in capitals", "9110 11.1", get_with("AUTHORIZATION: BEARER key-alice\r\n"), {200}},
        Case{"an empty line before the request", "9112 2.2", "\r\n" + get("/v1/models"), {200}},
        Case{"several empty lines before the request", "9112 2.2", "\r\n\r\n\r\n" + get("/v1/models"), {200}},
        Case{"a line end behind a body",
             "9112 2.2",
             post("/v1/chat/completions", kHello) + "\r\n" + get("/v1/models"),
             {200, 200}},
        Case{"a host with an empty port",
             "3986 3.2.3",
             "GET /v1/models HTTP/1.1\r\nHost: localhost:\r\n" + kKey + "\r\n",
             {200}},
        Case{"an absolute target",
             "9112 3.2.2",
             get_with(kKey, "GET http://localhost:8080/v1/models HTTP/1.1"),
             {200}},
        Case{"a query", "9110 4.2.1", get_with(kKey, "GET /v1/models?limit=20 HTTP/1.1"), {200}},
        Case{"an empty query", "9110 4.2.1", get_with(kKey, "GET /v1/models? HTTP/1.1"), {200}},
        Case{"http 1.0", "9112 9.3", get_with(kKey, "GET /v1/models HTTP/1.0"), {200}, "Connection: close"},
        Case{"http 1.0 that keeps the connection",
             "9112 9.3",
             get_with(kKey + "Connection: Keep-Alive\r\n", "GET /v1/models HTTP/1.0"),
             {200},
             "Connection: keep-alive"},
        Case{"several connection options",
             "9110 7.6.1",
             get_with(kKey + "Connection: Keep-Alive, TE\r\nTE: trailers\r\n") + get("/v1/models"),
             {200, 200}},
        Case{"empty connection options",
             "9110 5.6.1",
             get_with(kKey + "Connection: , ,CLOSE,\r\n"),
             {200},
             "Connection: close"},
        // The JDK's HttpClient asks so on every clear-text connection.
        Case{"an offer of http 2 beside a chunked body",
             "9110 7.8",
             chat(kJson + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
                          "AAEAAEAAAAIAAAAA\r\n"
                          "Transfer-Encoding: chunked\r\n",
                  chunks_of_hello("", "")),
             {200}},
        Case{"a coding in capitals",
             "9112 7",
             chat(kJson + "Transfer-Encoding: CHUNKED\r\n", chunks_of_hello("", "")),
             {200}},
        Case{"chunk extensions and trailers",
             "9112 7.1.1",
             chat(kJson + "Transfer-Encoding: chunked\r\n",
                  chunks_of_hello(";a=b;c=\"d e\"", "X-Sum: 1\r\n")) +
                 get("/v1/models"),
             {200, 200}},
        Case{"an expectation in capitals",
             "9110 10.1.1",
             chat(kJson + "Expect: 100-Continue\r\n" + kHelloLength, std::string(kHello)),
             {200}},
        Case{"a media type with parameters",
             "9110 8.3.1",
             chat("content-type: Application/JSON;Charset=\"utf-8\"\r\n" + kHelloLength, std::string(kHello)),
             {200}},
        // curl's and fetch()'s, whose users forget it: no page sends them with a key.
        Case{"no media type beside a key",
             "allowed by 9110 8.3",
             chat(kHelloLength, std::string(kHello)),
             {200}},
        Case{"a form's media type beside a key",
             "9110 8.3",
             chat("Content-Type: application/x-www-form-urlencoded\r\n" + kHelloLength, std::string(kHello)),
             {200}},
        Case{"plain text beside a key",
             "9110 8.3",
             chat("Content-Type: text/plain;charset=UTF-8\r\n" + kHelloLength, std::string(kHello)),
             {200}},
        // Base URLs that end in a slash.
        Case{"a path with two slashes", "3986 3.3", get("/v1//models"), {200}},
        Case{"a path that begins with two slashes", "3986 3.3", get("//v1/models?limit=1"), {200}},
        Case{"a path that ends in slashes",
             "3986 3.3",
             post("/v1/chat/completions//", kHello) + get("/v1/models/"),
             {200, 200}},
        Case{"what an answer may be",
             "9110 12.5",
             get_with(kKey + "Accept: text/html\r\nAccept-Encoding: identity\r\nAccept-Language: de\r\n"),
             {200}},
        Case{"an identity coding",
             "9110 8.4",
             chat(kJson + "Content-Encoding: identity\r\n" + kHelloLength, std::string(kHello)),
             {200}},
        Case{"bytes beyond ASCII in a field",
             "9110 5.5",
             get_with(kKey + "User-Agent: caf\xE9\r\nX-Empty:\r\n"),
             {200}},
        Case{"a get with an empty body",
             "9110 9.3.1",
             get_with(kKey + "Content-Length: 0\r\n") + get("/v1/models"),
             {200, 200}},
        Case{"no host on a unix socket",
             "no name to check",
             "GET /v1/models HTTP/1.1\r\n\r\n",
             {200},
             "",
             true},
        Case{"no host on a unix socket in http 1.0",
             "9112 3.2",
             "GET /v1/models HTTP/1.0\r\n\r\n",
             {200},
             "",
             true},
        Case{"an empty host on a unix socket",
             "9110 7.2",
             "GET /v1/models HTTP/1.1\r\nHost:\r\n\r\n",
             {200},
             "",
             true},
        Case{"any host on a unix socket",
             "no name to check",
             "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n",
             {200},
             "",
             true},
        Case{"a path for a host on a unix socket",
             "no name to check",
             "GET /v1/models HTTP/1.1\r\nHost: /run/flyball.sock\r\n\r\n",
             {200},
             "",
             true},
        Case{"any absolute target on a unix socket",
             "9112 3.2.2",
             "GET http://docker/v1/models HTTP/1.1\r\n\r\n",
             {200},
             "",
             true}),
    name_of);

struct RefusedHttp : HttpRules {};
TEST_P(RefusedHttp, IsRefused) {
  Wire wire(rig, GetParam().unix_socket ? kUnixPeer : http::Peer{});
  talk(wire);
}

const std::string kBad = "bad_framing";
const std::string kCurl = "curl sends it with -H 'Content-Type: application/json'.";

INSTANTIATE_TEST_SUITE_P(
    Rfc, RefusedHttp,
    ::testing::Values(
        // Browsers, from DNS rebinding.
        Case{"no host", "9112 3.2", "GET /v1/models HTTP/1.1\r\n" + kKey + "\r\n", {400}, kBad},
        Case{"no host in http 1.0",
             "allowed by 9112 3.2",
             "GET /v1/models HTTP/1.0\r\n" + kKey + "\r\n",
             {400},
             kBad},
        Case{"a foreign host",
             "9110 7.4",
             "GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n" + kKey + "\r\n",
             {403}},
        // Browsers, from forged requests: a page may send a body without a type, or of a form's, anywhere.
        Case{"no media type from a page with a key",
             "9110 15.5.16",
             chat("Origin: https://pages.example\r\n" + kHelloLength, std::string(kHello)),
             {415},
             kCurl},
        Case{"no media type on a unix socket, where a proxy may pass on what pages send",
             "allowed by 9110 8.3",
             "POST /v1/chat/completions HTTP/1.1\r\n" + kHelloLength + "\r\n" + std::string(kHello),
             {415},
             kCurl,
             true},
        Case{"another media type",
             "9110 15.5.16",
             chat("Content-Type: application/xml\r\n" + kHelloLength, std::string(kHello)),
             {415},
             "it must be application/json."},
        Case{"a preflight",
             "9110 9.3.7",
             "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n",
             {405},
             "Allow: GET, HEAD\r\n"},
        // Smuggled requests: they harm the clients that share a proxy's connection.
        Case{"two hosts on a unix socket",
             "9112 3.2",
             "GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
             {400},
             kBad,
             true},
        Case{"a length and a coding",
             "9112 6.3",
             chat(kJson + kHelloLength + "Transfer-Encoding: chunked\r\n", ""),
             {400},
             kBad},
        Case{"equal lengths", "9112 6.3", chat(kJson + kHelloLength + kHelloLength, ""), {400}, kBad},
        Case{
            "a list of equal lengths", "9112 6.3", chat(kJson + "Content-Length: 2, 2\r\n", ""), {400}, kBad},
        Case{"a blank before the colon", "9112 5.1", chat(kJson + "Content-Length : 2\r\n", ""), {400}, kBad},
        Case{"a folded field", "9112 5.2", get_with(kKey + "X: a\r\n b\r\n"), {400}, kBad},
        Case{"an unknown expectation",
             "9110 10.1.1",
             get_with(kKey + "Expect: y 100-continue\r\n"),
             {400},
             kBad},
        Case{"an empty line of a bare line feed",
             "allowed by 9112 2.2",
             "\n" + get("/v1/models"),
             {400},
             kBad},
        Case{"two carriage returns", "9112 2.2", "\r\r\n" + get("/v1/models"), {400}, kBad},
        // Paths that a proxy refuses, such as /metrics: a second spelling would pass it.
        Case{"a path in percent encoding", "9110 4.2.3", get("/v1/%6Dodels"), {404}},
        Case{"an open path with slashes to spare", "3986 3.3", get("//healthz/"), {200}},
        Case{"a viewer's path with two slashes", "3986 3.3", get("//metrics"), {404}},
        Case{"an operator's path with a slash at its end", "3986 3.3", get("/v1/engines/"), {404}},
        // Keys: one spelling each.
        Case{"a tab behind the scheme",
             "9110 11.4",
             get_with("Authorization: Bearer\tkey-alice\r\n"),
             {401},
             "WWW-Authenticate: Bearer\r\n"},
        Case{"a blank in the key", "6750 2.1", get_with("Authorization: Bearer key -alice\r\n"), {401}}),
    name_of);

// A page in a browser of this machine acts as default_app there: it may send these without asking first.
TEST(HttpMediaType, IsNeededWhereAPageMaySendTheRequest) {
  Rig rig;
  rig.settings->config.loopback_without_key = true;
  rig.settings->config.default_app = "alice";
  const auto chat_with = [&](const std::string& fields) {
    Wire wire(rig, {.loopback = true, .unix_uid = {}, .address = {}});
    wire.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + fields + kHelloLength + "\r\n" +
              std::string(kHello));
    return wire.answer();
  };
  EXPECT_EQ(chat_with(kJson).status, 200);
  for (const std::string type : {"", "Content-Type: application/x-www-form-urlencoded\r\n",
                                 "Content-Type: text/plain;charset=UTF-8\r\n"})
    for (const std::string fields : {"", "Authorization:\r\n", "x-api-key: key-alice\r\n"}) {
      const Answer answer = chat_with(fields + type);
      EXPECT_EQ(answer.status, 415) << fields << type;
      EXPECT_NE(answer.body.find(kCurl), std::string::npos) << answer.body;
    }
  EXPECT_EQ(chat_with(kKey).status, 200);
  EXPECT_EQ(chat_with(kKey + "Origin: null\r\n").status, 415);
}

TEST(HttpHead, AnswersHeadAsGetOnEveryRoute) {
  Rig rig;
  rig.settings->config.operator_access.loopback = true;
  for (const api::Route& route : api::routes(api::all_codecs())) {
    if (route.method != "GET") continue;
    std::string path(route.path);
    if (route.takes_id()) path += "demo";
    const std::string get_it = path.starts_with("/v1/engines") ? get(path, "") : get(path);
    Wire whole(rig, {.loopback = true, .unix_uid = {}, .address = {}});
    whole.send(get_it);
    Wire head(rig, {.loopback = true, .unix_uid = {}, .address = {}});
    head.send("HEAD" + get_it.substr(3));
    EXPECT_TRUE(head.received().ends_with("\r\n\r\n")) << path << ": " << head.received();
    const std::string status = whole.received().substr(0, whole.received().find('\r'));
    EXPECT_EQ(head.received().substr(0, head.received().find('\r')), status) << path;
    EXPECT_NE(head.received().find("\r\nContent-Type: " + whole.answer().field("Content-Type")),
              std::string::npos)
        << path;
  }
}

// A connection that only sends empty lines has asked nothing.
TEST(HttpEmptyLines, KeepNoConnectionOpen) {
  Rig rig;
  Wire wire(rig);
  wire.send("\r\n\r");
  wire.advance(rig.settings->config.http.header_timeout / 2);
  wire.send("\n\r\n");
  EXPECT_EQ(wire.connection().activity(), http::Activity::silent);
  wire.advance(rig.settings->config.http.header_timeout / 2);
  EXPECT_TRUE(wire.closed());
  EXPECT_EQ(wire.received(), "");

  Wire endless(rig);
  endless.send(get("/v1/models"));
  std::string lines;
  while (lines.size() <= rig.settings->config.http.header_bytes) lines += "\r\n";
  endless.send(lines);
  EXPECT_TRUE(endless.closed()) << "as much as a header may have";
  EXPECT_EQ(endless.answer().status, 200);
}

}  // namespace
}  // namespace flyball::testing
