// Whole HTTP answers of Anthropic's API, byte for byte: a changed byte is a changed API. Ids and times are
// masked, and a carriage return is written as \r.
#include <array>
#include <cstdint>
#include <regex>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "daemon/api/anthropic/codec.hpp"
#include "daemon/api/native/codec.hpp"
#include "daemon/api/openai/codec.hpp"
#include "tests/daemon/api/inference.hpp"
#include "tests/daemon/api/pieces.hpp"

namespace flyball::testing {
namespace {

// Anthropic's API, whose answers have blocks of every type.
api::Codecs codecs_with_blocks() {
  static const api::Codec with_blocks = with_parts<api::anthropic::kCodec>();
  static const std::array<const api::Codec*, 3> all{&api::native::kCodec, &with_blocks, &api::openai::kCodec};
  return all;
}

constexpr std::string_view kPath = "/v1/messages";
constexpr std::string_view kHi =
    R"("model":"demo","max_tokens":9,"messages":[{"role":"user","content":"Hi"}])";

struct AnthropicBytes : ::testing::Test {
  // Everything that the client receives for one request.
  std::string talk(Rig& rig, const std::string& request) {
    rig.cpu().script = [this](const CompletionRequest&) { return script; };
    Wire wire(rig);
    wire.send(request);
    return masked(wire.received());
  }
  std::string ask(const std::string& members, Rig& rig) {
    return talk(rig, post(kPath, "{" + std::string(kHi) + members + "}", "", "x-api-key: key-alice\r\n"));
  }
  std::string ask(const std::string& members) { return ask(members, plain); }
  static std::string masked(std::string text) {
    text = std::regex_replace(text, std::regex("(req-|msg_)[0-9a-f]{16}"), "$1ID");
    text =
        std::regex_replace(text, std::regex("\"created_at\":\"[0-9TZ:-]{20}\""), "\"created_at\":\"TIME\"");
    text = std::regex_replace(text, std::regex("Content-Length: [0-9]+"), "Content-Length: N");
    text = std::regex_replace(text, std::regex("\r\n[0-9a-f]+\r\nevent"), "\r\nN\r\nevent");
    return std::regex_replace(text, std::regex("\r"), "\\r");
  }

  Rig plain;
  Rig blocks{make_settings(), make_hardware(), nullptr, codecs_with_blocks()};
  Script script{.tokens = 2};
};

TEST_F(AnthropicBytes, WholeMessage) {
  EXPECT_EQ(ask(""), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
request-id: req-ID\r
\r
{"id":"msg_ID","type":"message","role":"assistant","model":"demo","container":null,"context_management":null,"diagnostics":null,"content":[{"type":"text","text":"t0 t1 "}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2,"server_tool_use":null,"fallback_credit":null,"iterations":null,"cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null,"output_tokens_details":{"thinking_tokens":0}}}
)");
}

TEST_F(AnthropicBytes, StreamedMessage) {
  EXPECT_EQ(ask(R"(,"stream":true)"), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
request-id: req-ID\r
\r
N\r
event: message_start
data: {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant","model":"demo","container":null,"context_management":null,"diagnostics":null,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"server_tool_use":null,"fallback_credit":null,"iterations":null,"cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null,"output_tokens_details":null}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t0 "}}

\r
N\r
event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t1 "}}

\r
N\r
event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","context_management":null,"delta":{"container":null,"stop_reason":"end_turn","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2,"server_tool_use":null,"fallback_credit":null,"iterations":null,"output_tokens_details":{"thinking_tokens":0}}}

event: message_stop
data: {"type":"message_stop"}

\r
0\r
\r
)");
}

TEST_F(AnthropicBytes, WholeMessageWithThinkingAndCalls) {
  script.tokens = 4;
  const std::string answer = ask("", blocks);
  EXPECT_EQ(
      answer.substr(answer.find("{\"id\"")),
      R"({"id":"msg_ID","type":"message","role":"assistant","model":"demo","container":null,"context_management":null,"diagnostics":null,"content":[{"type":"thinking","thinking":"t0 ","signature":""},{"type":"text","text":"t1 "},{"type":"tool_use","id":"call_1","name":"weather","caller":{"type":"direct"},"input":{"city":"Bern"}},{"type":"tool_use","id":"call_2","name":"clock","caller":{"type":"direct"},"input":{}}],"stop_reason":"tool_use","stop_sequence":null,"stop_details":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4,"server_tool_use":null,"fallback_credit":null,"iterations":null,"cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null,"output_tokens_details":{"thinking_tokens":1}}}
)");
}

TEST_F(AnthropicBytes, StreamedMessageWithThinkingAndCalls) {
  script.tokens = 4;
  const std::string answer = ask(R"(,"stream":true)", blocks);
  EXPECT_EQ(answer.substr(answer.find("N\\r\n")), R"(N\r
event: message_start
data: {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant","model":"demo","container":null,"context_management":null,"diagnostics":null,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"server_tool_use":null,"fallback_credit":null,"iterations":null,"cache_creation":null,"inference_geo":null,"service_tier":null,"speed":null,"output_tokens_details":null}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"t0 "}}

\r
N\r
event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"t1 "}}

\r
N\r
event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"weather","caller":{"type":"direct"},"input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}

\r
N\r
event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"Bern\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"call_2","name":"clock","caller":{"type":"direct"},"input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

\r
N\r
event: message_delta
data: {"type":"message_delta","context_management":null,"delta":{"container":null,"stop_reason":"tool_use","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4,"server_tool_use":null,"fallback_credit":null,"iterations":null,"output_tokens_details":{"thinking_tokens":1}}}

event: message_stop
data: {"type":"message_stop"}

\r
0\r
\r
)");
}

TEST_F(AnthropicBytes, ACallThatBreaksOffIsStreamedAsItCame) {
  script.tokens = 3;
  const std::string answer = ask(R"(,"stream":true)", blocks);
  EXPECT_EQ(answer.substr(answer.rfind("event: content_block_start")), R"(event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_1","name":"weather","caller":{"type":"direct"},"input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}

\r
N\r
event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","context_management":null,"delta":{"container":null,"stop_reason":"end_turn","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":3,"server_tool_use":null,"fallback_credit":null,"iterations":null,"output_tokens_details":{"thinking_tokens":1}}}

event: message_stop
data: {"type":"message_stop"}

\r
0\r
\r
)");
}

TEST_F(AnthropicBytes, AnEngineThatFailsBeforeAndWithinTheStream) {
  script.error = {ErrorCode::numeric_error, "It \"failed\".", {}, {}};
  script.fail_after = 1;
  const std::string within = ask(R"(,"stream":true)");
  EXPECT_EQ(within.substr(within.find("event: content_block_delta")), R"(event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"t0 "}}

\r
N\r
event: error
data: {"type":"error","error":{"type":"api_error","message":"It \"failed\".","param":null,"code":"numeric_error"},"request_id":"req-ID"}

\r
0\r
\r
)");
  script.fail_after = 0;
  EXPECT_EQ(ask(R"(,"stream":true)"), R"(HTTP/1.1 500 Internal Server Error\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-should-retry: false\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
request-id: req-ID\r
\r
{"type":"error","error":{"type":"api_error","message":"It \"failed\".","param":null,"code":"numeric_error"},"request_id":"req-ID"}
)");
}

TEST_F(AnthropicBytes, Refusals) {
  EXPECT_EQ(talk(plain, post(kPath, R"({"model":"demo","messages":[]})")), R"(HTTP/1.1 400 Bad Request\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-should-retry: false\r
request-id: req-ID\r
\r
{"type":"error","error":{"type":"invalid_request_error","message":"'max_tokens' is required.","param":"max_tokens","code":"missing_field"},"request_id":"req-ID"}
)");
  EXPECT_EQ(talk(plain, post(kPath, "{}", "key-of-nobody")), R"(HTTP/1.1 401 Unauthorized\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-should-retry: false\r
x-request-id: req-ID\r
request-id: req-ID\r
WWW-Authenticate: Bearer\r
Connection: close\r
\r
{"type":"error","error":{"type":"authentication_error","message":"The API key belongs to no app.","param":null,"code":"invalid_api_key"},"request_id":"req-ID"}
)");
}

TEST_F(AnthropicBytes, ThePathsOfModelsGoByTheVersionField) {
  const auto look = [&](std::string_view path, std::string_view fields) {
    const std::string answer =
        talk(plain, "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" +
                        "Authorization: Bearer key-bobby\r\n" + std::string(fields) + "\r\n");
    return answer.substr(answer.find("\\r\n\\r\n") + 6);
  };
  constexpr std::string_view kAsk = "anthropic-version: 2023-06-01\r\n";
  EXPECT_TRUE(look("/v1/models", "").starts_with(R"({"object":"list","data":[)"));
  const std::string listed = look("/v1/models", kAsk);
  EXPECT_TRUE(listed.starts_with(R"({"data":[{"type":"model","id":"small","display_name":)")) << listed;
  EXPECT_TRUE(listed.ends_with(R"("has_more":false,"first_id":"small","last_id":"small"})"
                               "\n"))
      << listed;
  EXPECT_TRUE(look("/v1/models/small", "").starts_with(R"({"id":"small","object":"model")"));
  EXPECT_TRUE(look("/v1/models/small", kAsk).starts_with(R"({"type":"model","id":"small")"));
  EXPECT_TRUE(
      look("/v1/models/nope", kAsk).starts_with(R"({"type":"error","error":{"type":"not_found_error")"));
}

TEST_F(AnthropicBytes, TheBillingLineIsLeftOutAndSaidSo) {
  const std::string answer =
      ask(R"(,"system":"x-anthropic-billing-header: cc_version=2.1.100.7b4; cch=eb6c6;\nBe brief.")");
  EXPECT_NE(answer.find("\nx-flyball-note: The billing line of 'system' is left out: it changes with every "
                        "request.\\r\n"),
            std::string::npos)
      << answer;
}

}  // namespace
}  // namespace flyball::testing
