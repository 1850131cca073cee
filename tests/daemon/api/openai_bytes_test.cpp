// Whole HTTP answers of the two OpenAI endpoints, byte for byte: the bytes of the OpenAI API as clients of
// these endpoints have got them. A changed byte is a changed API. Ids and times are masked, and a carriage
// return is written as \r.
#include <cstdint>
#include <regex>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/daemon/api/inference.hpp"

namespace flyball::testing {
namespace {

constexpr std::string_view kLegacyPath = "/v1/completions";

struct OpenAiBytes : ::testing::Test {
  // Everything that the client receives for one request.
  std::string talk(std::string_view path, std::string_view body, std::string_view key = "key-alice") {
    rig.cpu().script = [this](const CompletionRequest&) { return script; };
    Wire wire(rig);
    wire.send(post(path, body, key));
    return masked(wire.received());
  }
  // The engine computes so many tokens and then fails in a way that no retry mends.
  void fail_after(std::uint32_t tokens) {
    script.fail_after = tokens;
    script.error = {ErrorCode::numeric_error, "It \"failed\".", {}, {}};
  }
  static std::string masked(std::string text) {
    text = std::regex_replace(text, std::regex("(req-|cmpl-)[0-9a-f]{16}"), "$1ID");
    text = std::regex_replace(text, std::regex("\"created\":[0-9]{10}"), "\"created\":TIME");
    return std::regex_replace(text, std::regex("\r"), "\\r");
  }

  Rig rig;
  Script script{.tokens = 2};
};

TEST_F(OpenAiBytes, WholeChat) {
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}]})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 337\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"chatcmpl-ID","object":"chat.completion","created":TIME,"model":"demo","choices":[{"index":0,"message":{"role":"assistant","content":"t0 t1 ","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(OpenAiBytes, WholeChatWithLogprobs) {
  EXPECT_EQ(
      talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}],"logprobs":true,"top_logprobs":2})"),
      R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 727\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"chatcmpl-ID","object":"chat.completion","created":TIME,"model":"demo","choices":[{"index":0,"message":{"role":"assistant","content":"t0 t1 ","refusal":null},"logprobs":{"content":[{"token":"t0 ","logprob":-0.25,"bytes":[116,48,32],"top_logprobs":[{"token":"alt0","logprob":-0.25,"bytes":[97,108,116,48]},{"token":"alt1","logprob":-1.25,"bytes":[97,108,116,49]}]},{"token":"t1 ","logprob":-0.25,"bytes":[116,49,32],"top_logprobs":[{"token":"alt0","logprob":-0.25,"bytes":[97,108,116,48]},{"token":"alt1","logprob":-1.25,"bytes":[97,108,116,49]}]}],"refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(OpenAiBytes, WholeChatWithTwoAnswersCutShort) {
  EXPECT_EQ(talk(kChatPath,
                 R"({"messages":[{"role":"user","content":"Hi"}],"n":2,"max_tokens":1,"logprobs":true})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 639\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"chatcmpl-ID","object":"chat.completion","created":TIME,"model":"demo","choices":[{"index":0,"message":{"role":"assistant","content":"t0 ","refusal":null},"logprobs":{"content":[{"token":"t0 ","logprob":-0.25,"bytes":[116,48,32],"top_logprobs":[]}],"refusal":null},"finish_reason":"length"},{"index":1,"message":{"role":"assistant","content":"t0 ","refusal":null},"logprobs":{"content":[{"token":"t0 ","logprob":-0.25,"bytes":[116,48,32],"top_logprobs":[]}],"refusal":null},"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(OpenAiBytes, StreamedChat) {
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
19c\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t0 "},"logprobs":null,"finish_reason":null}]}

\r
c6\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t1 "},"logprobs":null,"finish_reason":null}]}

\r
c7\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, StreamedChatWithLogprobs) {
  EXPECT_EQ(
      talk(kChatPath,
           R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"logprobs":true,"top_logprobs":1})"),
      R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
232\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t0 "},"logprobs":{"content":[{"token":"t0 ","logprob":-0.25,"bytes":[116,48,32],"top_logprobs":[{"token":"alt0","logprob":-0.25,"bytes":[97,108,116,48]}]}],"refusal":null},"finish_reason":null}]}

\r
15c\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t1 "},"logprobs":{"content":[{"token":"t1 ","logprob":-0.25,"bytes":[116,49,32],"top_logprobs":[{"token":"alt0","logprob":-0.25,"bytes":[97,108,116,48]}]}],"refusal":null},"finish_reason":null}]}

\r
c7\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, StreamedChatWithUsage) {
  EXPECT_EQ(
      talk(
          kChatPath,
          R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"stream_options":{"include_usage":true}})"),
      R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
1b6\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t0 "},"logprobs":null,"finish_reason":null}],"usage":null}

\r
d3\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t1 "},"logprobs":null,"finish_reason":null}],"usage":null}

\r
1bf\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, StreamedChatWithTwoAnswersAndUsage) {
  EXPECT_EQ(
      talk(
          kChatPath,
          R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"n":2,"max_tokens":1,"stream_options":{"include_usage":true}})"),
      R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
1b6\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t0 "},"logprobs":null,"finish_reason":null}],"usage":null}

\r
1b6\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":1,"delta":{"content":"t0 "},"logprobs":null,"finish_reason":null}],"usage":null}

\r
c8\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}

\r
1c1\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, StreamedChatWithoutText) {
  script.tokens = 0;
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
19d\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, ChatRefusedBeforeTheStream) {
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}],"stream":true,"temperature":3})"),
            R"(HTTP/1.1 400 Bad Request\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 158\r
x-request-id: req-ID\r
x-should-retry: false\r
\r
{"error":{"message":"'temperature' is 3, but must be at least 0 and at most 2.","type":"invalid_request_error","param":"temperature","code":"invalid_value"}}
)");
}

TEST_F(OpenAiBytes, ChatFailsBeforeTheStream) {
  fail_after(0);
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})"),
            R"(HTTP/1.1 500 Internal Server Error\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 97\r
x-request-id: req-ID\r
x-should-retry: false\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"error":{"message":"It \"failed\".","type":"server_error","param":null,"code":"numeric_error"}}
)");
}

TEST_F(OpenAiBytes, ChatFailsInMidStream) {
  fail_after(1);
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}],"stream":true})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
19c\r
data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":TIME,"model":"demo","choices":[{"index":0,"delta":{"content":"t0 "},"logprobs":null,"finish_reason":null}]}

\r
76\r
data: {"error":{"message":"It \"failed\".","type":"server_error","param":null,"code":"numeric_error"}}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, WholeChatFails) {
  fail_after(1);
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}]})"),
            R"(HTTP/1.1 500 Internal Server Error\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 97\r
x-request-id: req-ID\r
x-should-retry: false\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"error":{"message":"It \"failed\".","type":"server_error","param":null,"code":"numeric_error"}}
)");
}

TEST_F(OpenAiBytes, ChatWithoutKey) {
  EXPECT_EQ(talk(kChatPath, R"({"messages":[{"role":"user","content":"Hi"}]})", ""),
            R"(HTTP/1.1 401 Unauthorized\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 146\r
x-should-retry: false\r
x-request-id: req-ID\r
WWW-Authenticate: Bearer\r
Connection: close\r
\r
{"error":{"message":"An API key is required: 'Authorization: Bearer KEY'.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}
)");
}

TEST_F(OpenAiBytes, WholeCompletion) {
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi"})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 284\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 t1 ","logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(OpenAiBytes, WholeCompletionWithLogprobs) {
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi","logprobs":2})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 452\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 t1 ","logprobs":{"tokens":["t0 ","t1 "],"token_logprobs":[-0.25,-0.25],"top_logprobs":[{"alt0":-0.25,"alt1":-1.25,"t0 ":-0.25},{"alt0":-0.25,"alt1":-1.25,"t1 ":-0.25}],"text_offset":[0,3]},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(OpenAiBytes, WholeCompletionsOfTwoPromptsCutShort) {
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":["a","b"],"max_tokens":1,"logprobs":1})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 553\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 ","logprobs":{"tokens":["t0 "],"token_logprobs":[-0.25],"top_logprobs":[{"alt0":-0.25,"t0 ":-0.25}],"text_offset":[0]},"finish_reason":"length"},{"index":1,"text":"t0 ","logprobs":{"tokens":["t0 "],"token_logprobs":[-0.25],"top_logprobs":[{"alt0":-0.25,"t0 ":-0.25}],"text_offset":[0]},"finish_reason":"length"}],"usage":{"prompt_tokens":14,"completion_tokens":2,"total_tokens":16,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(OpenAiBytes, WholeCompletionWithTwoAnswers) {
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi","n":2})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 352\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 t1 ","logprobs":null,"finish_reason":"stop"},{"index":1,"text":"t0 t1 ","logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":0}}}
)");
}

TEST_F(OpenAiBytes, StreamedCompletion) {
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi","stream":true})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
af\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 ","logprobs":null,"finish_reason":null}]}

\r
af\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t1 ","logprobs":null,"finish_reason":null}]}

\r
bc\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, StreamedCompletionWithLogprobs) {
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi","stream":true,"logprobs":1})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
114\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 ","logprobs":{"tokens":["t0 "],"token_logprobs":[-0.25],"top_logprobs":[{"alt0":-0.25,"t0 ":-0.25}],"text_offset":[0]},"finish_reason":null}]}

\r
114\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t1 ","logprobs":{"tokens":["t1 "],"token_logprobs":[-0.25],"top_logprobs":[{"alt0":-0.25,"t1 ":-0.25}],"text_offset":[3]},"finish_reason":null}]}

\r
bc\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, StreamedCompletionWithTwoAnswersAndUsage) {
  EXPECT_EQ(
      talk(kLegacyPath,
           R"({"prompt":"Hi","stream":true,"n":2,"max_tokens":1,"stream_options":{"include_usage":true}})"),
      R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
bc\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 ","logprobs":null,"finish_reason":null}],"usage":null}

\r
bc\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":1,"text":"t0 ","logprobs":null,"finish_reason":null}],"usage":null}

\r
bd\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length"}],"usage":null}

\r
1ac\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":1,"text":"","logprobs":null,"finish_reason":"length"}],"usage":null}

data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, CompletionRefusedBeforeTheStream) {
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":[],"stream":true})"),
            R"(HTTP/1.1 400 Bad Request\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 169\r
x-request-id: req-ID\r
x-should-retry: false\r
\r
{"error":{"message":"'prompt' must be a string, an array of strings, or an array of token ids.","type":"invalid_request_error","param":"prompt","code":"invalid_value"}}
)");
}

TEST_F(OpenAiBytes, CompletionFailsBeforeTheStream) {
  fail_after(0);
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi","stream":true})"),
            R"(HTTP/1.1 500 Internal Server Error\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 97\r
x-request-id: req-ID\r
x-should-retry: false\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"error":{"message":"It \"failed\".","type":"server_error","param":null,"code":"numeric_error"}}
)");
}

TEST_F(OpenAiBytes, CompletionFailsInMidStream) {
  fail_after(1);
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi","stream":true})"),
            R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
af\r
data: {"id":"cmpl-ID","object":"text_completion","created":TIME,"model":"demo","choices":[{"index":0,"text":"t0 ","logprobs":null,"finish_reason":null}]}

\r
76\r
data: {"error":{"message":"It \"failed\".","type":"server_error","param":null,"code":"numeric_error"}}

data: [DONE]

\r
0\r
\r
)");
}

TEST_F(OpenAiBytes, WholeCompletionFails) {
  fail_after(1);
  EXPECT_EQ(talk(kLegacyPath, R"({"prompt":"Hi"})"),
            R"(HTTP/1.1 500 Internal Server Error\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: 97\r
x-request-id: req-ID\r
x-should-retry: false\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"error":{"message":"It \"failed\".","type":"server_error","param":null,"code":"numeric_error"}}
)");
}

}  // namespace
}  // namespace flyball::testing
