// RELIABILITY's table of bad inputs, a row a test, through the real router: the status, the code, that the
// connection closes where it must, and that the next client is served.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/daemon/api/wire.hpp"

namespace flyball::testing {
namespace {

using nlohmann::json;

struct BadInput : ::testing::Test {
  Rig rig;

  // Sends, expects one error of this status and code, and that the daemon still serves.
  Answer refused(std::string_view bytes, int status, const std::string& code, const std::string& param = {}) {
    Wire wire(rig);
    wire.send(bytes);
    const Answer answer = wire.answer();
    EXPECT_EQ(answer.status, status) << answer.body;
    const json body = json::parse(answer.body, nullptr, false);
    EXPECT_TRUE(body.is_object()) << answer.body;
    if (!body.is_object()) return answer;
    const json& error = body["error"];
    EXPECT_EQ(error["code"], code) << answer.body;
    EXPECT_TRUE(error["message"].is_string() && !error["message"].get<std::string>().empty());
    EXPECT_TRUE(error["type"].is_string());
    if (param.empty())
      EXPECT_TRUE(error["param"].is_null() || error["param"].is_string());
    else
      EXPECT_EQ(error["param"], param);
    EXPECT_TRUE(answer.field("x-request-id").starts_with("req-")) << answer.head;
    closed = wire.closed();

    Wire next(rig);
    next.send(get("/v1/models"));
    EXPECT_EQ(next.answer().status, 200);
    return answer;
  }
  bool closed = false;
};

const std::string kChat = "/v1/chat/completions";
std::string with_head(const std::string& fields, const std::string& body = "") {
  return "POST " + kChat + " HTTP/1.1\r\n" + fields + "\r\n" + body;
}
const std::string kAuth = "Authorization: Bearer key-alice\r\nContent-Type: application/json\r\n";

TEST_F(BadInput, ambiguous_framing_closes_and_never_parses_the_tail) {
  const std::string smuggled = get("/v1/models");
  for (const char* fields :
       {"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: xchunked\r\n"}) {
    refused(with_head("Host: localhost\r\n" + kAuth + fields, "0\r\n\r\n" + smuggled), 400, "bad_framing");
    EXPECT_TRUE(closed);
  }
  refused("POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, 400,
          "bad_framing");
}

TEST_F(BadInput, hosts) {
  refused("GET /healthz HTTP/1.1\r\n\r\n", 400, "bad_framing");
  refused("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, "bad_framing");
  for (const char* host : {"", "evil.example", "localhost.evil.example", "localhost:80:80", "localhost:x",
                           "10.0.0.1", "[::2]", "127.0.0.1@evil"})
    refused("GET /healthz HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n", 403, "host_not_allowed");
  for (const char* host : {"localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080"}) {
    Wire wire(rig);
    wire.send("GET /healthz HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    EXPECT_EQ(wire.answer().status, 200) << host;
  }
}

TEST_F(BadInput, the_host_is_judged_before_the_key) {
  refused("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "host_not_allowed");
}

TEST_F(BadInput, large_headers) {
  refused("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(16 * 1024, 'x') + "\r\n\r\n", 431,
          "headers_too_large");
  EXPECT_TRUE(closed);
  std::string fields = "Host: localhost\r\n";
  for (int i = 0; i < 100; ++i) fields += "a: b\r\n";
  refused("GET /healthz HTTP/1.1\r\n" + fields + "\r\n", 431, "headers_too_large");
}

TEST_F(BadInput, large_trailers_and_chunk_extensions) {
  const std::string head = with_head("Host: localhost\r\n" + kAuth + "Transfer-Encoding: chunked\r\n");
  refused(head + "2\r\n{}\r\n0\r\nX: " + std::string(66 * 1024, 'x') + "\r\n\r\n", 400, "bad_framing");
  EXPECT_TRUE(closed);
  refused(head + "2;x=" + std::string(300 * 1024, 'x') + "\r\n{}\r\n0\r\n\r\n", 400, "bad_framing");
  EXPECT_TRUE(closed);
}

TEST_F(BadInput, large_bodies) {
  refused(with_head("Host: localhost\r\n" + kAuth + "Content-Length: 4194305\r\n"), 413, "body_too_large");
  std::string chunked = with_head("Host: localhost\r\n" + kAuth + "Transfer-Encoding: chunked\r\n");
  for (int i = 0; i < 65; ++i) chunked += "10000\r\n" + std::string(65'536, ' ') + "\r\n";
  refused(chunked, 413, "body_too_large");
}

TEST_F(BadInput, slow_clients) {
  Wire wire(rig);
  wire.send("GET /healthz HTTP/1.1\r\nHo");
  wire.advance(rig.settings->config.http.header_timeout);
  EXPECT_EQ(wire.answer().status, 408);
  EXPECT_NE(wire.answer().body.find("The request header did not arrive within 10s (http.header_timeout)."),
            std::string::npos)
      << wire.answer().body;
  EXPECT_TRUE(wire.closed());
  Wire body(rig);
  body.send(with_head("Host: localhost\r\n" + kAuth + "Content-Length: 10\r\n", "{"));
  body.advance(rig.settings->config.http.body_timeout);
  EXPECT_EQ(body.answer().status, 408);
  EXPECT_EQ(json::parse(body.answer().body)["error"]["code"], "request_timeout");
}

TEST_F(BadInput, methods_paths_types_codings) {
  EXPECT_EQ(refused("DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed")
                .field("Allow"),
            "GET, HEAD");
  EXPECT_EQ(refused(get(kChat), 405, "method_not_allowed").field("Allow"), "POST");
  EXPECT_EQ(refused("OPTIONS " + kChat + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "method_not_allowed")
                .field("Allow"),
            "POST");
  for (const char* path : {"/v1", "/v1/", "/V1/models", "/v1/v1/models", "//metrics", "/readyz/",
                           "/v1//engines", "/v1/chat/completionsx", "/v1/chat/completion"})
    refused(get(path), 404, "not_found");
  for (const char* type : {"Content-Type: application/xml\r\n", "Content-Type: application/jsonp\r\n",
                           "Content-Type: multipart/form-data\r\n"})
    refused(with_head("Host: localhost\r\nAuthorization: Bearer key-alice\r\n" + std::string(type) +
                          "Content-Length: 2\r\n",
                      "{}"),
            415, "unsupported_media_type");
  refused(with_head("Host: localhost\r\n" + kAuth + "Content-Encoding: gzip\r\nContent-Length: 2\r\n", "{}"),
          415, "unsupported_coding");
  Wire wire(rig);
  wire.send(
      with_head("Host: localhost\r\nAuthorization: Bearer key-alice\r\ncontent-type: Application/JSON ; "
                "charset=utf-8\r\n"
                "Content-Encoding: identity\r\nContent-Length: " +
                    std::to_string(kHello.size()) + "\r\n",
                std::string(kHello)));
  EXPECT_EQ(wire.answer().status, 200);
}

TEST_F(BadInput, keys) {
  const std::string start = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n";
  for (const char* field : {"", "Authorization: Bearer key-mallory\r\n", "Authorization: Basic key-alice\r\n",
                            "Authorization: key-alice\r\n", "Authorization: Bearer \r\n",
                            "Authorization: Bearer key-alice2\r\n"}) {
    const Answer answer = refused(start + field + "\r\n", 401, "invalid_api_key");
    EXPECT_EQ(answer.field("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(answer.field("x-should-retry"), "false");
  }
  Wire wire(rig);
  wire.send(start + "Authorization: bearer key-alice\r\n\r\n");
  EXPECT_EQ(wire.answer().status, 200);
}

// A proxy before the daemon may have gone by the other key.
TEST_F(BadInput, two_keys_are_ambiguous_framing) {
  const std::string start = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n";
  for (const char* fields : {"Authorization: Bearer key-alice\r\nAuthorization: Bearer key-bobby\r\n",
                             "Authorization: Bearer key-alice\r\nauthorization: Bearer key-alice\r\n",
                             "Authorization:\r\nX: y\r\nAuthorization: Bearer key-alice\r\n"}) {
    refused(start + fields + "\r\n", 400, "bad_framing", "Authorization");
    EXPECT_TRUE(closed);
  }
}

TEST_F(BadInput, an_unknown_path_is_told_the_routes_there_are) {
  const std::string body = refused(get("/v2"), 404, "not_found").body;
  for (const api::Route& route : api::routes(api::all_codecs()))
    EXPECT_EQ(body.contains(std::string(route.method) + ' ' + std::string(route.path)), !route.asks_for)
        << route.path << " in " << body;
}

// A client that takes the daemon for a proxy, or a proxy that passes such a request on.
TEST_F(BadInput, an_absolute_target_is_served_for_a_known_host_alone) {
  const std::string key = "Authorization: Bearer key-alice\r\n\r\n";
  for (const char* target : {"http://localhost/v1/models", "HTTPS://127.0.0.1:8080/v1/models"}) {
    Wire wire(rig);
    wire.send("GET " + std::string(target) + " HTTP/1.1\r\nHost: evil.example\r\n" + key);
    EXPECT_EQ(wire.answer().status, 200) << target;
  }
  for (const char* target : {"http://evil.example/v1/models", "http://localhost.evil.example/v1/models",
                             "http://localhost\\.evil.example/v1/models", "http://localhost:x/v1/models"})
    refused("GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + key, 403, "host_not_allowed");
  refused("GET http://localhost/nothing HTTP/1.1\r\nHost: localhost\r\n" + key, 404, "not_found");
}

TEST_F(BadInput, hostile_json) {
  const auto body = [&](std::string_view text, const char* code) {
    return refused(post(kChat, text), 400, code);
  };
  body(std::string(3000, '[') + std::string(3000, ']'), "json_too_deep");
  body(R"({"a":1,"a":2})", "invalid_json");
  body("{\"a\":\"\xff\xfe\"}", "invalid_json");
  body(R"({"a":NaN})", "invalid_json");
  body(R"({"a":"\ud800"})", "invalid_json");
  EXPECT_NE(body("", "invalid_json").body.find("The body is empty, and no JSON."), std::string::npos);
  EXPECT_NE(body(R"({"a":1e999})", "invalid_json").body.find("a number beyond what a double holds (at byte"),
            std::string::npos);
  body("{}x", "invalid_json");
  std::string many = "[0";
  for (int i = 0; i < 100'000; ++i) many += ",0";
  body(many + "]", "json_too_large");
  const json error = json::parse(body(R"({"a": tru})", "invalid_json").body);
  EXPECT_NE(error["error"]["message"].get<std::string>().find("byte 9"), std::string::npos) << error;
}

TEST_F(BadInput, wrong_types_and_ranges_name_the_field) {
  const auto field = [&](const std::string& members, const std::string& param,
                         const char* code = "invalid_value") {
    refused(post(kChat, R"({"messages":[{"role":"user","content":"Hi"}],)" + members + "}"), 400, code,
            param);
  };
  field(R"("temperature":3)", "temperature");
  field(R"("temperature":"hot")", "temperature");
  field(R"("n":5000000)", "n");
  field(R"("n":1.5)", "n");
  field(R"("max_tokens":-2)", "max_tokens");
  field(R"("logprobs":true,"top_logprobs":21)", "top_logprobs");
  field(R"("top_logprobs":2)", "top_logprobs");
  field(R"("stop":["a",1])", "stop");
  field(R"("seed":1.5)", "seed");
  field(R"("logit_bias":{"x":1})", "logit_bias");
  field(R"("stream_options":{"include_usage":true})", "stream_options");
  field(R"("tool_choice":"required")", "tool_choice", "invalid_value");
  field(R"("response_format":{"type":"xml"})", "response_format.type", "unsupported_value");
  field(R"("structural_tag":"[]")", "structural_tag");
  refused(post(kChat, R"({"messages":[]})"), 400, "invalid_value", "messages");
  refused(post(kChat, R"({})"), 400, "missing_field", "messages");
  refused(post(kChat, R"({"messages":[{"role":"robot","content":"x"}]})"), 400, "invalid_value",
          "messages[0].role");
  refused(post("/v1/completions", R"({})"), 400, "missing_field", "prompt");
}

TEST_F(BadInput, unknown_and_forbidden_models_look_the_same) {
  const auto ask = [&](const char* model) {
    return refused(
               post(kChat,
                    R"({"model":")" + std::string(model) + R"(","messages":[{"role":"user","content":"x"}]})",
                    "key-bobby"),
               404, "model_not_found", "model")
        .body;
  };
  const auto told = [](std::string_view model) {
    return "There is no model \\\"" + std::string(model) +
           "\\\" that is open to this app. It may use: small.";
  };
  for (const char* model : {"demo", "default-demo", "no-such-model"})
    EXPECT_NE(ask(model).find(told(model)), std::string::npos) << ask(model);
  const std::string shown = ask(std::string(10'000, 'm').c_str());
  EXPECT_NE(shown.find("mmm..."), std::string::npos);
  EXPECT_LT(shown.size(), 400U);
  refused(get("/v1/models/demo", "key-bobby"), 404, "model_not_found", "model");
}

TEST_F(BadInput, limits_of_an_app) {
  refused(post(kChat, R"({"model":"small","messages":[{"role":"user","content":"x"}],"max_tokens":101})",
               "key-bobby"),
          400, "invalid_value", "max_tokens");
  rig.cpu("small").script = [](const CompletionRequest&) { return Script{.manual = true}; };
  const std::string ask =
      post(kChat, R"({"model":"small","messages":[{"role":"user","content":"x"}]})", "key-bobby");
  Wire one(rig), two(rig);
  one.send(ask);
  two.send(ask);
  EXPECT_EQ(rig.cpu("small").started.at(0).max_tokens, 100U);  // the cap stands in for the default
  const Answer answer = refused(ask, 429, "rate_limited");
  EXPECT_EQ(answer.field("Retry-After"), "1");
  one.hang_up();
  rig.cpu("small").script = [](const CompletionRequest&) { return Script{}; };
  Wire three(rig);
  three.send(ask);
  EXPECT_EQ(three.answer().status, 200);
}

TEST_F(BadInput, a_full_queue_is_overloaded) {
  rig.settings->config.max_queue = 3;
  rig.service.reload(rig.settings);
  rig.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
  std::vector<std::unique_ptr<Wire>> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.push_back(std::make_unique<Wire>(rig));
    waiting.back()->send(post(kChat, kHello));
  }
  EXPECT_EQ(refused(post(kChat, kHello), 503, "overloaded").field("Retry-After"), "1");
  rig.cpu().emit(1);  // they run now, and wait no longer
  Wire wire(rig);
  wire.send(post(kChat, kHello));
  EXPECT_EQ(wire.received(), "");
}

// What an engine finds out later has the same shape.
TEST_F(BadInput, failures_of_the_engine) {
  const auto fails = [&](ErrorCode code, int status) {
    rig.cpu().script = [code](const CompletionRequest&) {
      Script script;
      script.fail_after = 0;
      script.error = {code, "What went wrong.", "messages", {}};
      return script;
    };
    const Answer answer = refused(post(kChat, kHello), status, std::string(to_string(code)), "messages");
    EXPECT_NE(answer.field("x-flyball-route"), "");
    return answer;
  };
  fails(ErrorCode::context_length_exceeded, 400);
  fails(ErrorCode::template_error, 400);
  fails(ErrorCode::template_budget, 400);
  EXPECT_EQ(fails(ErrorCode::model_invalid, 503).field("x-should-retry"), "false");
  fails(ErrorCode::numeric_error, 500);
  fails(ErrorCode::insufficient_memory, 503);
}

}  // namespace
}  // namespace flyball::testing
