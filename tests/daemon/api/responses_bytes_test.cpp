// Whole HTTP answers of OpenAI's Responses API, byte for byte: a changed byte is a changed API. Ids and times
// are masked, and a carriage return is written as \r.
#include <array>
#include <regex>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "daemon/api/native/codec.hpp"
#include "daemon/api/openai/codec.hpp"
#include "tests/daemon/api/inference.hpp"
#include "tests/daemon/api/pieces.hpp"

namespace flyball::testing {
namespace {

// OpenAI's API, whose responses have items of every type.
api::Codecs codecs_with_items() {
  static const api::Codec with_items = with_parts<api::openai::kCodec>();
  static const std::array<const api::Codec*, 2> all{&api::native::kCodec, &with_items};
  return all;
}

constexpr std::string_view kResponsesPath = "/v1/responses";

struct ResponsesBytes : ::testing::Test {
  // Everything that the client receives for one request.
  std::string talk(Rig& rig, const std::string& request) {
    rig.cpu().script = [this](const CompletionRequest&) { return script; };
    Wire wire(rig);
    wire.send(request);
    return masked(wire.received());
  }
  std::string ask(const std::string& members, Rig& rig) {
    return talk(rig, post(kResponsesPath, R"({"model":"demo","input":"Hi")" + members + "}"));
  }
  std::string ask(const std::string& members) { return ask(members, plain); }
  static std::string masked(std::string text) {
    text = std::regex_replace(text, std::regex("(req-|resp_|msg_|rs_|fc_)[0-9a-f]{16}"), "$1ID");
    text = std::regex_replace(text, std::regex("\"created_at\":[0-9]+"), "\"created_at\":N");
    text = std::regex_replace(text, std::regex("Content-Length: [0-9]+"), "Content-Length: N");
    text = std::regex_replace(text, std::regex("\r\n[0-9a-f]+\r\nevent"), "\r\nN\r\nevent");
    return std::regex_replace(text, std::regex("\r"), "\\r");
  }
  static std::string body_of(const std::string& answer) {
    const std::string_view end = "\\r\n\\r\n";
    return answer.substr(answer.find(end) + end.size());
  }

  Rig plain;
  Rig items{make_settings(), make_hardware(), nullptr, codecs_with_items()};
  Script script{.tokens = 2};
};

TEST_F(ResponsesBytes, WholeResponse) {
  EXPECT_EQ(ask(""), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: application/json\r
Content-Length: N\r
x-request-id: req-ID\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
{"id":"resp_ID","object":"response","created_at":N,"status":"completed","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[{"id":"msg_ID_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t0 t1 ","logprobs":[]}]}],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":9}}
)");
}

TEST_F(ResponsesBytes, StreamedText) {
  EXPECT_EQ(ask(R"(,"stream":true)"), R"(HTTP/1.1 200 OK\r
Date: Sun, 06 Nov 1994 08:49:37 GMT\r
Content-Type: text/event-stream; charset=utf-8\r
Transfer-Encoding: chunked\r
x-request-id: req-ID\r
Cache-Control: no-cache\r
x-flyball-route: backend=cpu; rule=everything; model=demo\r
\r
N\r
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_ID_0","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"msg_ID_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"","logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_ID_0","output_index":0,"content_index":0,"delta":"t0 ","logprobs":[]}

\r
N\r
event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_ID_0","output_index":0,"content_index":0,"delta":"t1 ","logprobs":[]}

\r
N\r
event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":6,"item_id":"msg_ID_0","output_index":0,"content_index":0,"text":"t0 t1 ","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":7,"item_id":"msg_ID_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"t0 t1 ","logprobs":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":8,"output_index":0,"item":{"id":"msg_ID_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t0 t1 ","logprobs":[]}]}}

event: response.completed
data: {"type":"response.completed","sequence_number":9,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"completed","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[{"id":"msg_ID_0","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t0 t1 ","logprobs":[]}]}],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":9}}}

\r
0\r
\r
)");
}

TEST_F(ResponsesBytes, WholeResponseWithReasoningAndTwoCalls) {
  script.tokens = 4;
  EXPECT_EQ(
      body_of(ask("", items)),
      R"({"id":"resp_ID","object":"response","created_at":N,"status":"completed","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[{"id":"rs_ID_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"t0 "}]},{"id":"msg_ID_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t1 ","logprobs":[]}]},{"id":"fc_ID_2","type":"function_call","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Bern\"}"},{"id":"fc_ID_3","type":"function_call","status":"completed","call_id":"call_2","name":"clock","arguments":"{}"}],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":11}}
)");
}

TEST_F(ResponsesBytes, StreamedReasoningAndTwoCalls) {
  script.tokens = 4;
  EXPECT_EQ(body_of(ask(R"(,"stream":true)", items)), R"(N\r
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_ID_0","type":"reasoning","status":"in_progress","summary":[],"content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"rs_ID_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""}}

event: response.reasoning_text.delta
data: {"type":"response.reasoning_text.delta","sequence_number":4,"item_id":"rs_ID_0","output_index":0,"content_index":0,"delta":"t0 "}

\r
N\r
event: response.reasoning_text.done
data: {"type":"response.reasoning_text.done","sequence_number":5,"item_id":"rs_ID_0","output_index":0,"content_index":0,"text":"t0 "}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":6,"item_id":"rs_ID_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"t0 "}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"rs_ID_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"t0 "}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"id":"msg_ID_1","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":9,"item_id":"msg_ID_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"","logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_ID_1","output_index":1,"content_index":0,"delta":"t1 ","logprobs":[]}

\r
N\r
event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":11,"item_id":"msg_ID_1","output_index":1,"content_index":0,"text":"t1 ","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":12,"item_id":"msg_ID_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"t1 ","logprobs":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":13,"output_index":1,"item":{"id":"msg_ID_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t1 ","logprobs":[]}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":14,"output_index":2,"item":{"id":"fc_ID_2","type":"function_call","status":"in_progress","call_id":"call_1","name":"weather","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":15,"item_id":"fc_ID_2","output_index":2,"delta":"{\"city\":"}

\r
N\r
event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":16,"item_id":"fc_ID_2","output_index":2,"delta":"\"Bern\"}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":17,"item_id":"fc_ID_2","output_index":2,"name":"weather","arguments":"{\"city\":\"Bern\"}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":18,"output_index":2,"item":{"id":"fc_ID_2","type":"function_call","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Bern\"}"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":19,"output_index":3,"item":{"id":"fc_ID_3","type":"function_call","status":"in_progress","call_id":"call_2","name":"clock","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":20,"item_id":"fc_ID_3","output_index":3,"delta":"{}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":21,"item_id":"fc_ID_3","output_index":3,"name":"clock","arguments":"{}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":22,"output_index":3,"item":{"id":"fc_ID_3","type":"function_call","status":"completed","call_id":"call_2","name":"clock","arguments":"{}"}}

\r
N\r
event: response.completed
data: {"type":"response.completed","sequence_number":23,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"completed","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[{"id":"rs_ID_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"t0 "}]},{"id":"msg_ID_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t1 ","logprobs":[]}]},{"id":"fc_ID_2","type":"function_call","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Bern\"}"},{"id":"fc_ID_3","type":"function_call","status":"completed","call_id":"call_2","name":"clock","arguments":"{}"}],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":11}}}

\r
0\r
\r
)");
}

TEST_F(ResponsesBytes, ACallThatBreaksOffIsIncomplete) {
  script.tokens = 3;
  EXPECT_EQ(body_of(ask(R"(,"stream":true)", items)), R"(N\r
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_ID_0","type":"reasoning","status":"in_progress","summary":[],"content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"rs_ID_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""}}

event: response.reasoning_text.delta
data: {"type":"response.reasoning_text.delta","sequence_number":4,"item_id":"rs_ID_0","output_index":0,"content_index":0,"delta":"t0 "}

\r
N\r
event: response.reasoning_text.done
data: {"type":"response.reasoning_text.done","sequence_number":5,"item_id":"rs_ID_0","output_index":0,"content_index":0,"text":"t0 "}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":6,"item_id":"rs_ID_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"t0 "}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"rs_ID_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"t0 "}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"id":"msg_ID_1","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":9,"item_id":"msg_ID_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"","logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_ID_1","output_index":1,"content_index":0,"delta":"t1 ","logprobs":[]}

\r
N\r
event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":11,"item_id":"msg_ID_1","output_index":1,"content_index":0,"text":"t1 ","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":12,"item_id":"msg_ID_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"t1 ","logprobs":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":13,"output_index":1,"item":{"id":"msg_ID_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t1 ","logprobs":[]}]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":14,"output_index":2,"item":{"id":"fc_ID_2","type":"function_call","status":"in_progress","call_id":"call_1","name":"weather","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":15,"item_id":"fc_ID_2","output_index":2,"delta":"{\"city\":"}

\r
N\r
event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":16,"item_id":"fc_ID_2","output_index":2,"name":"weather","arguments":"{\"city\":"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":17,"output_index":2,"item":{"id":"fc_ID_2","type":"function_call","status":"incomplete","call_id":"call_1","name":"weather","arguments":"{\"city\":"}}

event: response.incomplete
data: {"type":"response.incomplete","sequence_number":18,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"incomplete","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[{"id":"rs_ID_0","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"t0 "}]},{"id":"msg_ID_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t1 ","logprobs":[]}]},{"id":"fc_ID_2","type":"function_call","status":"incomplete","call_id":"call_1","name":"weather","arguments":"{\"city\":"}],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":10}}}

\r
0\r
\r
)");
}

TEST_F(ResponsesBytes, AStreamCutByItsLengthIsIncomplete) {
  EXPECT_EQ(body_of(ask(R"(,"stream":true,"max_output_tokens":1)")), R"(N\r
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":1,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":1,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_ID_0","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"msg_ID_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"","logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_ID_0","output_index":0,"content_index":0,"delta":"t0 ","logprobs":[]}

\r
N\r
event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":5,"item_id":"msg_ID_0","output_index":0,"content_index":0,"text":"t0 ","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":6,"item_id":"msg_ID_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"t0 ","logprobs":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"msg_ID_0","type":"message","status":"incomplete","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t0 ","logprobs":[]}]}}

event: response.incomplete
data: {"type":"response.incomplete","sequence_number":8,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"incomplete","background":false,"error":null,"incomplete_details":{"reason":"max_output_tokens"},"model":"demo","output":[{"id":"msg_ID_0","type":"message","status":"incomplete","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t0 ","logprobs":[]}]}],"max_output_tokens":1,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":8}}}

\r
0\r
\r
)");
}

TEST_F(ResponsesBytes, AnEngineThatFailsWithinTheStream) {
  script.error = {ErrorCode::numeric_error, "It \"failed\".", {}, {}};
  script.fail_after = 1;
  EXPECT_EQ(body_of(ask(R"(,"stream":true)")), R"(N\r
event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"model":"demo","output":[],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"msg_ID_0","type":"message","status":"in_progress","role":"assistant","content":[]}}

event: response.content_part.added
data: {"type":"response.content_part.added","sequence_number":3,"item_id":"msg_ID_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"","logprobs":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_ID_0","output_index":0,"content_index":0,"delta":"t0 ","logprobs":[]}

\r
N\r
event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":5,"item_id":"msg_ID_0","output_index":0,"content_index":0,"text":"t0 ","logprobs":[]}

event: response.content_part.done
data: {"type":"response.content_part.done","sequence_number":6,"item_id":"msg_ID_0","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"t0 ","logprobs":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"msg_ID_0","type":"message","status":"incomplete","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t0 ","logprobs":[]}]}}

event: error
data: {"type":"error","sequence_number":8,"code":"numeric_error","message":"It \"failed\".","param":null}

event: response.failed
data: {"type":"response.failed","sequence_number":9,"response":{"id":"resp_ID","object":"response","created_at":N,"status":"failed","background":false,"error":{"code":"numeric_error","message":"It \"failed\"."},"incomplete_details":null,"model":"demo","output":[{"id":"msg_ID_0","type":"message","status":"incomplete","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"t0 ","logprobs":[]}]}],"max_output_tokens":null,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":1,"top_logprobs":0,"top_p":1,"truncation":"disabled","instructions":null,"metadata":{},"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"usage":null}}

\r
0\r
\r
)");
}

TEST_F(ResponsesBytes, AnEngineThatFailsBeforeTheStream) {
  script.error = {ErrorCode::numeric_error, "It failed.", {}, {}};
  script.fail_after = 0;
  const std::string answer = ask(R"(,"stream":true)");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 500 ")) << answer;
  EXPECT_EQ(body_of(answer),
            R"({"error":{"message":"It failed.","type":"server_error","param":null,"code":"numeric_error"}})"
            "\n");
}

TEST_F(ResponsesBytes, NoResponseIsKept) {
  for (const char* head : {"GET /v1/responses/resp_1", "GET /v1/responses/resp_1/input_items",
                           "DELETE /v1/responses/resp_1", "POST /v1/responses/resp_1/cancel"}) {
    const std::string answer = talk(plain, std::string(head) +
                                               " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                                               "key-alice\r\nContent-Length: 0\r\n\r\n");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 404 ")) << answer;
    EXPECT_NE(answer.find(R"("message":"No response is kept ('store' is not served))"), std::string::npos)
        << answer;
    EXPECT_NE(answer.find(R"("code":"not_found")"), std::string::npos) << answer;
  }
}

// The last event repeats the answer: what the stream holds is the app's to pay for until it has been read.
TEST_F(ResponsesBytes, AStreamIsChargedWithWhatItRepeats) {
  script.token_bytes = 4000;
  config::AppLimits& limits = plain.settings->apps[0].limits;
  limits.held_bytes = 60'000;
  EXPECT_NE(ask(R"(,"stream":true)").find("event: response.completed"), std::string::npos);
  script.tokens = 4;
  const std::string answer = ask(R"(,"stream":true)");
  EXPECT_NE(answer.find(R"("code":"invalid_value","message":"The answer takes more than the )"),
            std::string::npos)
      << answer;
  EXPECT_NE(answer.find("event: response.failed"), std::string::npos);
  EXPECT_EQ(answer.find("event: response.completed"), std::string::npos);
}

// A stream has one last event, wherever its share ends.
TEST_F(ResponsesBytes, AStreamThatOutgrowsItsShareEndsOnce) {
  script.token_bytes = 4000;
  bool any_failed = false, any_completed = false;
  for (std::uint64_t limit = 2'000; limit < 70'000; limit += 4'000) {
    plain.settings->apps[0].limits.held_bytes = limit;
    const std::string answer = ask(R"(,"stream":true)");
    const bool failed = answer.contains("event: response.failed"),
               completed = answer.contains("event: response.completed"),
               refused = answer.starts_with("HTTP/1.1 400 ");
    EXPECT_EQ(failed + completed + refused, 1) << limit << "\n" << answer;
    EXPECT_EQ(answer.contains("event: error"), failed) << limit;
    any_failed |= failed;
    any_completed |= completed;
  }
  EXPECT_TRUE(any_failed);
  EXPECT_TRUE(any_completed);
}

TEST_F(ResponsesBytes, ARequestWhoseRepetitionNeverFitsIsRefusedAtOnce) {
  plain.settings->apps[0].limits.held_bytes = 1 << 20;
  const std::string members = R"(,"stream":true,"instructions":")" + std::string(400'000, 'x') + "\"";
  const std::string answer = ask(members);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_NE(answer.find(R"("param":"max_output_tokens","code":"invalid_value")"), std::string::npos)
      << answer;
  EXPECT_TRUE(plain.cpu().started.empty()) << "no engine began it";
  EXPECT_EQ(plain.service.in_flight(), 0U);
}

TEST_F(ResponsesBytes, AWholeResponseThatNeverFitsNamesItsField) {
  script.token_bytes = 4000;
  script.tokens = 20;
  plain.settings->apps[0].limits.held_bytes = 60'000;
  const std::string answer = ask("");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
  EXPECT_NE(answer.find(R"("param":"max_output_tokens","code":"invalid_value")"), std::string::npos)
      << answer;
}

TEST_F(ResponsesBytes, UnservedPathsAreRefusedByName) {
  for (const auto& [path, word] : {std::pair{"/v1/responses/input_tokens", "POST /tokenize"},
                                   std::pair{"/v1/responses/compact", "compacted"}}) {
    const std::string answer = talk(plain, post(path, R"({"model":"demo","input":"Hi"})"));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << answer;
    EXPECT_NE(answer.find(word), std::string::npos) << answer;
    EXPECT_NE(answer.find(R"("code":"unsupported_feature")"), std::string::npos) << answer;
  }
}

TEST_F(ResponsesBytes, AnUnreadStreamKeepsItsCharge) {
  script.token_bytes = 4000;
  plain.settings->apps[0].limits.held_bytes = 60'000;
  plain.cpu().script = [this](const CompletionRequest&) { return script; };
  const std::string request = post(kResponsesPath, R"({"model":"demo","input":"Hi","stream":true})");
  Wire slow(plain), next(plain), last(plain);
  slow.stop_reading();
  slow.send(request);
  EXPECT_EQ(plain.service.in_flight(), 0U) << "it is computed";
  next.send(request);
  EXPECT_NE(next.received().find(R"("code":"rate_limited")"), std::string::npos) << next.received();
  slow.start_reading();
  EXPECT_NE(slow.received().find("event: response.completed"), std::string::npos);
  last.send(request);
  EXPECT_NE(last.received().find("event: response.completed"), std::string::npos);
}

}  // namespace
}  // namespace flyball::testing
