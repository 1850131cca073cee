// CORS through the real router: a page of a configured origin may ask and reads every answer, a page of
// another origin is answered as if it had not said where it is from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include "tests/daemon/api/wire.hpp"

namespace flyball::testing {
namespace {

const std::string kPage = "https://app.example";
const std::string kAskedPath = "/v1/chat/completions";

std::string preflight(const std::string& path, const std::string& origin, const std::string& more = {}) {
  return "OPTIONS " + path + " HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
         "\r\nAccess-Control-Request-Method: POST\r\n"
         "Access-Control-Request-Headers: authorization,content-type,x-stainless-os\r\n" +
         more + "\r\n";
}

struct CrossOriginTest : ::testing::Test {
  std::shared_ptr<settings::Settings> settings = [] {
    auto out = make_settings();
    out->config.allowed_origins = {"http://localhost:3000", kPage};
    return out;
  }();
  Rig rig{settings};

  std::string received(std::string_view bytes, http::Peer peer = {}) {
    Wire wire(rig, std::move(peer));
    wire.send(bytes);
    return wire.received();
  }
  static Answer parsed(std::string_view bytes) {
    bool whole = false;
    const auto all = parse_answers(bytes, whole);
    EXPECT_TRUE(whole && all.size() == 1) << bytes;
    return all.empty() ? Answer{} : all.front();
  }
  Answer answer(std::string_view bytes) { return parsed(received(bytes)); }

  static void expect_readable(const Answer& one, const std::string& origin = kPage) {
    EXPECT_EQ(one.field("Access-Control-Allow-Origin"), origin) << one.head;
    EXPECT_EQ(one.field("Access-Control-Expose-Headers"), "*") << one.head;
    EXPECT_EQ(one.field("Vary"), "Origin") << one.head;
    EXPECT_EQ(one.field("Access-Control-Allow-Credentials"), "") << one.head;
  }
  // `vary`: the daemon has origins whose pages get another answer.
  static void expect_unreadable(const Answer& one, const std::string& vary = "Origin") {
    EXPECT_EQ(one.head.find("Access-Control"), std::string::npos) << one.head;
    EXPECT_EQ(one.field("Vary"), vary) << one.head;
  }
};

TEST_F(CrossOriginTest, PreflightOfAConfiguredOriginIsAnsweredWithoutAKey) {
  const std::string bytes = received(preflight(kAskedPath, kPage));
  const Answer one = parsed(bytes);
  EXPECT_EQ(one.status, 204);
  EXPECT_TRUE(one.body.empty());
  expect_readable(one);
  EXPECT_EQ(one.field("Access-Control-Allow-Methods"), "POST");
  EXPECT_EQ(one.field("Access-Control-Allow-Headers"), "Authorization, *");
  EXPECT_EQ(one.field("Access-Control-Max-Age"), "7200");
  EXPECT_EQ(one.field("Access-Control-Allow-Private-Network"), "");
  EXPECT_EQ(one.head.find("Content-Length"), std::string::npos) << one.head;
  EXPECT_EQ(one.head.find("Content-Type"), std::string::npos) << one.head;
}

TEST_F(CrossOriginTest, PreflightNamesTheMethodsOfItsPath) {
  EXPECT_EQ(answer(preflight("/v1/models", kPage)).field("Access-Control-Allow-Methods"), "GET, HEAD");
  EXPECT_EQ(answer(preflight("/v1/models/demo", kPage)).status, 204);
  EXPECT_EQ(answer(preflight("/api/delete", kPage)).field("Access-Control-Allow-Methods"), "DELETE");
  EXPECT_EQ(answer(preflight("/v1/messages", kPage)).field("Access-Control-Allow-Methods"), "POST");
}

TEST_F(CrossOriginTest, PreflightForAPrivateNetworkIsAllowedIt) {
  const Answer one = answer(preflight(kAskedPath, kPage, "Access-Control-Request-Private-Network: true\r\n"));
  EXPECT_EQ(one.field("Access-Control-Allow-Private-Network"), "true");
}

TEST_F(CrossOriginTest, ConnectionServesTheRequestBehindAPreflight) {
  bool whole = false;
  const auto both = parse_answers(received(preflight("/v1/models", kPage) + get("/v1/models")), whole);
  ASSERT_TRUE(whole && both.size() == 2);
  EXPECT_EQ(both[0].status, 204);
  EXPECT_EQ(both[1].status, 200);
  expect_unreadable(both[1]);  // it says no origin
}

TEST_F(CrossOriginTest, PreflightOfAnotherOriginIsRefusedAsAnyMethodThatThePathDoesNotTake) {
  for (const std::string origin :
       {"https://evil.example", "https://app.example.evil.example", "https://app.exampl",
        "http://app.example", "https://app.example:8443", "https://APP.example", "https://app.example/",
        "null", "*", "", "http://localhost:3001", "https://app.example, http://localhost:3000"}) {
    const Answer one = answer(preflight(kAskedPath, origin));
    EXPECT_EQ(one.status, 405) << origin;
    expect_unreadable(one);
  }
  const Answer longest = answer(preflight(kAskedPath, kPage + std::string(15'000, 'x')));
  EXPECT_EQ(longest.status, 405);
  expect_unreadable(longest);
}

TEST_F(CrossOriginTest, OptionsWithoutAMethodToAskForIsNoPreflight) {
  EXPECT_EQ(answer("OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: " + kPage + "\r\n\r\n").status,
            405);
}

TEST_F(CrossOriginTest, PreflightIsNotAnsweredForAnUnknownPathOrHost) {
  EXPECT_EQ(answer(preflight("/v2", kPage)).status, 404);
  std::string rebound = preflight(kAskedPath, kPage);
  rebound.replace(rebound.find("localhost"), 9, "rebound.example");
  EXPECT_EQ(answer(rebound).status, 403);
}

TEST_F(CrossOriginTest, PreflightsAreCountedApartFromRefusals) {
  answer(preflight(kAskedPath, kPage));
  const std::string shown = rig.service.metrics().exposition();
  EXPECT_NE(shown.find(R"(operation="preflight",status="204"} 1)"), std::string::npos);
  EXPECT_EQ(shown.find(R"(method_not_allowed)"), std::string::npos);
}

TEST_F(CrossOriginTest, EveryAnswerToAConfiguredOriginIsReadable) {
  const std::string origin = "Origin: " + kPage + "\r\n";
  const Answer whole = answer(post(kAskedPath, kHello, "key-alice", origin));
  EXPECT_EQ(whole.status, 200);
  expect_readable(whole);
  const Answer streamed = answer(post(kAskedPath, kHelloStream, "key-alice", origin));
  EXPECT_EQ(streamed.field("Content-Type"), "text/event-stream; charset=utf-8");
  expect_readable(streamed);
  const std::string other = "http://localhost:3000";
  expect_readable(answer(post(kAskedPath, kHello, "key-alice", "Origin: " + other + "\r\n")), other);

  const Answer stranger = answer(post(kAskedPath, kHello, "key-mallory", origin));
  EXPECT_EQ(stranger.status, 401);
  expect_readable(stranger);
  const Answer invalid = answer(post(kAskedPath, "{", "key-alice", origin));
  EXPECT_EQ(invalid.status, 400);
  expect_readable(invalid);
  const Answer too_large = answer("POST " + kAskedPath + " HTTP/1.1\r\nHost: localhost\r\n" + origin +
                                  "Content-Length: 99999999\r\n\r\n");
  EXPECT_EQ(too_large.status, 413);
  expect_readable(too_large);
}

TEST_F(CrossOriginTest, AnswersToOtherOriginsAreAsWithoutOne) {
  const Answer without = answer(get("/v1/models"));
  const Answer other = answer(
      "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-alice\r\n"
      "Origin: https://evil.example\r\n\r\n");
  EXPECT_EQ(other.status, 200);
  EXPECT_EQ(other.body, without.body);
  expect_unreadable(other);
  expect_unreadable(without);
}

TEST_F(CrossOriginTest, AReloadChangesTheOriginsOfOpenConnections) {
  Wire wire(rig);
  wire.send(preflight(kAskedPath, kPage));
  const auto without = make_settings();
  rig.service.reload(without);
  wire.send(preflight(kAskedPath, kPage));
  const auto both = wire.answers();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].status, 204);
  EXPECT_EQ(both[1].status, 405);
  expect_unreadable(both[1], "");
}

TEST_F(CrossOriginTest, HeadIsReadableToo) {
  const std::string bytes = received(
      "HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key-alice\r\nOrigin: " + kPage +
      "\r\n\r\n");
  EXPECT_TRUE(bytes.starts_with("HTTP/1.1 200 ")) << bytes;
  EXPECT_NE(bytes.find("\r\nAccess-Control-Allow-Origin: " + kPage + "\r\n"), std::string::npos) << bytes;
}

TEST_F(CrossOriginTest, PreflightWithABodyEndsTheConnection) {
  Wire wire(rig);
  wire.send(preflight(kAskedPath, kPage, "Content-Length: 4\r\n") + "GET " + get("/v1/models"));
  const Answer one = parsed(wire.received());
  EXPECT_EQ(one.status, 204);
  expect_readable(one);
  EXPECT_EQ(one.field("Connection"), "close");
}

// Anybody may have written the page, and its browser is on this machine.
TEST_F(CrossOriginTest, APageWithoutAKeyIsNotTheOperator) {
  settings->config.operator_access.loopback = true;
  const std::string operator_key = "key-of-the-operator";
  SHA256(reinterpret_cast<const unsigned char*>(operator_key.data()), operator_key.size(),
         settings->config.operator_access.keys.emplace_back().data());
  settings->config.loopback_without_key = true;
  settings->config.default_app = "bob";
  const http::Peer loopback{.loopback = true, .unix_uid = {}, .address = {}};
  const auto ask = [&](const std::string& start, const std::string& fields, const std::string& body = {}) {
    return parsed(received(start + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
                               (body.empty() ? std::string()
                                             : "Content-Type: application/json\r\nContent-Length: " +
                                                   std::to_string(body.size()) + "\r\n") +
                               "\r\n" + body,
                           loopback));
  };
  const std::string unload = "POST /v1/engines/unload", model = R"({"model":"demo"})";
  const std::string key = "Authorization: Bearer " + operator_key + "\r\n";
  for (const std::string& origin :
       {"Origin: " + kPage + "\r\n", std::string("Origin: https://evil.example\r\n"),
        std::string("Origin: null\r\n"), std::string("origin:\r\n")}) {
    EXPECT_EQ(ask(unload, origin, model).status, 401) << origin;
    EXPECT_EQ(ask("GET /v1/engines", origin).status, 401) << origin;
    const Answer seen = ask("GET /metrics", origin);
    EXPECT_EQ(seen.status, 200) << "bob's own figures";
    EXPECT_EQ(seen.body.find("flyball_requests_running "), std::string::npos) << origin << seen.body;
    EXPECT_EQ(ask("GET /readyz", origin).body.find("models"), std::string::npos) << origin;

    EXPECT_EQ(ask(unload, origin + key, model).status, 200) << origin;
    EXPECT_NE(ask("GET /metrics", origin + key).body.find("flyball_requests_running "), std::string::npos)
        << origin;
    EXPECT_NE(ask("GET /readyz", origin + key).body.find("models"), std::string::npos) << origin;
  }
  EXPECT_EQ(ask(unload, "", model).status, 200) << "a program of this machine is the operator";
  EXPECT_NE(ask("GET /metrics", "").body.find("flyball_requests_running "), std::string::npos);
}

TEST_F(CrossOriginTest, PreflightOfAnOperatorsPathOpensNothing) {
  EXPECT_EQ(answer(preflight("/v1/engines/unload", kPage)).field("Access-Control-Allow-Methods"), "POST");
  const Answer one =
      answer(post("/v1/engines/unload", R"({"model":"demo"})", "key-alice", "Origin: " + kPage + "\r\n"));
  EXPECT_EQ(one.status, 401);
  expect_readable(one);
}

}  // namespace
}  // namespace flyball::testing
