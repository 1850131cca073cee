// Whole HTTP answers of Ollama's API, byte for byte: a changed byte is a changed API. Ids and times are
// masked, and a carriage return is written as \r.
#include <cstdint>
#include <regex>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

struct OllamaBytes : ::testing::Test {
  // Everything that the client receives for one request.
  std::string talk(std::string_view path, std::string_view body, std::string_view key = "key-alice") {
    rig.cpu().script = [this](const CompletionRequest&) { return script; };
    Wire wire(rig);
    wire.send(post(path, body, key));
    return masked(wire.received());
  }
  static std::string masked(std::string text) {
    text = std::regex_replace(text, std::regex("req-[0-9a-f]{16}"), "req-ID");
    text =
        std::regex_replace(text, std::regex("\"created_at\":\"[0-9TZ:-]{20}\""), "\"created_at\":\"TIME\"");
    text = std::regex_replace(text, std::regex("(total|load)_duration\":[0-9]+"), "$1_duration\":NS");
    text = std::regex_replace(text, std::regex("Content-Length: [0-9]+"), "Content-Length: N");
    text = std::regex_replace(text, std::regex("\r\n[0-9a-f]+\r\n\\{"), "\r\nN\r\n{");
    return std::regex_replace(text, std::regex("\r"), "\\r");
  }

  Rig rig;
  Script script{.tokens = 2};
};

TEST_F(OllamaBytes, WholeChat) {
  EXPECT_EQ(talk("/api/chat",
                 R"({"model":"demo:latest","messages":[{"role":"user","content":"Hi"}],"stream":false})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"model":"demo:latest","created_at":"TIME","message":{"role":"assistant","content":"t0 t1 "},"done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":2,"eval_duration":30000}
)");
}

// Ollama's clients load a model by a request without a prompt: one document, whatever `stream` says.
TEST_F(OllamaBytes, Load) {
  rig.fleet.acquired.clear();
  EXPECT_EQ(talk("/api/generate", R"({"model":"small"})"), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=small\r
\r
{"model":"small","created_at":"TIME","response":"","done_reason":"load","done":true}
)");
  EXPECT_EQ(rig.fleet.acquired, std::vector<std::string>{"cpu"});
  const std::string chat = talk("/api/chat", R"({"model":"demo:latest","messages":[],"keep_alive":"10m"})");
  const std::string body =
      R"({"model":"demo:latest","created_at":"TIME","message":{"role":"assistant","content":""},)"
      R"("done_reason":"load","done":true})";
  EXPECT_TRUE(chat.ends_with(body + "\n")) << chat;
}

TEST_F(OllamaBytes, StreamedChat) {
  EXPECT_EQ(talk("/api/chat", R"({"messages":[{"role":"user","content":"Hi"}]})"), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/x-ndjson; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
N\r
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"t0 "},"done":false}
\r
N\r
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"t1 "},"done":false}
\r
N\r
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":2,"eval_duration":30000}
\r
0\r
\r
)");
}

TEST_F(OllamaBytes, WholeText) {
  EXPECT_EQ(talk("/api/generate", R"({"prompt":"Hi","stream":false})"), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"model":"demo","created_at":"TIME","response":"t0 t1 ","done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":2,"eval_duration":30000}
)");
}

TEST_F(OllamaBytes, StreamedText) {
  EXPECT_EQ(talk("/api/generate", R"({"prompt":"Hi","raw":true})"), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/x-ndjson; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
N\r
{"model":"demo","created_at":"TIME","response":"t0 ","done":false}
\r
N\r
{"model":"demo","created_at":"TIME","response":"t1 ","done":false}
\r
N\r
{"model":"demo","created_at":"TIME","response":"","done_reason":"stop","done":true,"total_duration":NS,"load_duration":NS,"prompt_eval_count":7,"prompt_eval_duration":20000,"eval_count":2,"eval_duration":30000}
\r
0\r
\r
)");
}

TEST_F(OllamaBytes, AnEngineThatFailsBeforeAndWithinTheStream) {
  script.error = {ErrorCode::numeric_error, "It \"failed\".", {}, {}};
  script.fail_after = 1;
  EXPECT_EQ(talk("/api/chat", R"({"messages":[{"role":"user","content":"Hi"}]})"), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/x-ndjson; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
N\r
{"model":"demo","created_at":"TIME","message":{"role":"assistant","content":"t0 "},"done":false}
\r
N\r
{"error":"It \"failed\"."}
\r
0\r
\r
)");
  script.fail_after = 0;
  EXPECT_EQ(talk("/api/chat", R"({"messages":[{"role":"user","content":"Hi"}]})"),
            R"(HTTP/1.1 500 Internal Server Error\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"error":"It \"failed\"."}
)");
}

TEST_F(OllamaBytes, Refusals) {
  EXPECT_EQ(talk("/api/chat", R"({"model":"nope","messages":[{"role":"user","content":"Hi"}]})"),
            R"(HTTP/1.1 404 Not Found\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
\r
{"error":"There is no model \"nope\" that is open to this app. It may use: demo, small."}
)");
  EXPECT_EQ(talk("/api/chat", "{}", "key-of-nobody"), R"(HTTP/1.1 401 Unauthorized\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
WWW-Authenticate: Bearer\r
Connection: close\r
\r
{"error":"The API key belongs to no app."}
)");
  EXPECT_EQ(talk("/api/pull", R"({"model":"llama3"})"), R"(HTTP/1.1 400 Bad Request\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
\r
{"error":"/api/pull is not served: the models are those that config.yaml lists, and its operator changes them."}
)");
}

}  // namespace
}  // namespace flyball::testing
