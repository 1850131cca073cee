// An API of the tests' own behind the real service: what a codec is given and what it must write, byte for
// byte.
#include "daemon/api/native/codec.hpp"
#include "daemon/api/openai/codec.hpp"
#include "tests/daemon/api/inference.hpp"
#include "tests/daemon/api/toy/codec.hpp"
#include "tests/harness/packed.hpp"

namespace flyball::testing {
namespace {

constexpr std::array<const api::Codec*, 3> kCodecs{&api::native::kCodec, &api::openai::kCodec, &toy::kCodec};
constexpr std::string_view kSay = R"({"say":"Hi"})";

struct ToyCodec : ::testing::Test {
  Rig rig{make_settings(), make_hardware(true), nullptr, kCodecs};

  static std::string toy_post(std::string_view path, std::string_view body, std::string_view more = {}) {
    return post(path, body, "", "x-toy-key: key-alice\r\n" + std::string(more));
  }
  Answer send(const std::string& request) {
    Wire wire(rig);
    wire.send(request);
    return wire.answer();
  }
  Answer say(std::string_view body, std::string_view query = {}) {
    return send(toy_post("/toy/say" + std::string(query), body));
  }
  Answer look(std::string_view path) {
    return send("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nx-toy-key: key-alice\r\n\r\n");
  }
};

TEST_F(ToyCodec, StreamsEveryEventAsLines) {
  const Answer answer = say(R"({"say":"Hi","logprobs":true})", "?as=lines");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("Content-Type"), "application/x-ndjson; charset=utf-8");
  EXPECT_EQ(answer.field("x-flyball-route"), "backend=cpu; rule=everything; model=demo");
  EXPECT_EQ(answer.body,
            "{\"used\":[7,0],\"of\":0}\n"
            "{\"logprobs\":1,\"of\":0}\n"
            "{\"thought\":\"t0 \",\"of\":0}\n"
            "{\"logprobs\":1,\"of\":0}\n"
            "{\"text\":\"t1 \",\"of\":0}\n"
            "{\"logprobs\":1,\"of\":0}\n"
            "{\"call\":[0,\"call-0\",\"t2 \"],\"of\":0}\n"
            "{\"logprobs\":1,\"of\":0}\n"
            "{\"arguments\":[0,\"t3 \"],\"of\":0}\n"
            "{\"called\":0,\"of\":0}\n"
            "{\"finish\":\"tool_calls\",\"of\":0}\n"
            "{\"used_in_all\":[7,4],\"of\":0}\n");
  const auto& prompt = std::get<ChatPrompt>(rig.cpu().started.at(0).prompt);
  EXPECT_EQ(test::text_of(prompt.messages), R"([{"role":"user","content":"Hi"}])");
}

TEST_F(ToyCodec, StreamsEveryEventByItsName) {
  const Answer answer = say(kSay, "?as=events");
  EXPECT_EQ(answer.field("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(answer.body,
            "event: used\ndata: {\"used\":[7,0],\"of\":0}\n\n"
            "event: thought\ndata: {\"thought\":\"t0 \",\"of\":0}\n\n"
            "event: text\ndata: {\"text\":\"t1 \",\"of\":0}\n\n"
            "event: call\ndata: {\"call\":[0,\"call-0\",\"t2 \"],\"of\":0}\n\n"
            "event: arguments\ndata: {\"arguments\":[0,\"t3 \"],\"of\":0}\n\n"
            "event: called\ndata: {\"called\":0,\"of\":0}\n\n"
            "event: finish\ndata: {\"finish\":\"tool_calls\",\"of\":0}\n\n"
            "event: used_in_all\ndata: {\"used_in_all\":[7,4],\"of\":0}\n\n");
}

TEST_F(ToyCodec, AnswersInOneDocument) {
  const Answer answer = say(R"({"say":"Hi","n":2,"logprobs":true})");
  EXPECT_EQ(answer.field("Content-Type"), "application/json");
  const std::string said =
      R"({"text":"t1 ","thought":"t0 ","calls":[["call-0","t2 ","t3 "]],"logprobs":4,"finish":"tool_calls"})";
  EXPECT_EQ(answer.body, R"({"model":"demo","said":[)" + said + "," + said + "],\"used\":[7,8]}\n");
}

TEST_F(ToyCodec, SeveralChoicesEndInUsageOnce) {
  const Answer answer = say(R"({"say":"Hi","n":2})", "?as=lines");
  EXPECT_NE(answer.body.find("{\"thought\":\"t0 \",\"of\":1}\n"), std::string::npos);
  EXPECT_EQ(answer.body.find("used_in_all"), answer.body.rfind("used_in_all"));
  EXPECT_TRUE(answer.body.ends_with("{\"used_in_all\":[7,8],\"of\":1}\n")) << answer.body;
}

TEST_F(ToyCodec, EndsABrokenStreamInItsOwnWords) {
  rig.cpu().script = [](const CompletionRequest&) {
    Script script;
    script.fail_after = 1;
    script.error = {ErrorCode::numeric_error, "It broke.", {}, {}};
    return script;
  };
  EXPECT_EQ(say(kSay, "?as=lines").body,
            "{\"used\":[7,0],\"of\":0}\n"
            "{\"thought\":\"t0 \",\"of\":0}\n"
            "{\"failed\":{\"oops\":\"numeric_error\",\"say\":\"It broke.\"},\"of\":0}\n");
  const Answer whole = say(kSay);
  EXPECT_EQ(whole.status, 503);
  EXPECT_EQ(whole.body, "{\"oops\":\"numeric_error\",\"say\":\"It broke.\"}\n");
}

TEST_F(ToyCodec, WaitsSilentlyWhereLinesHaveNoComment) {
  const auto received_while_waiting = [&](std::string_view query) {
    Wire wire(rig);
    rig.cpu().script = [](const CompletionRequest&) { return Script{.manual = true}; };
    wire.send(toy_post("/toy/say" + std::string(query), kSay));
    wire.advance(rig.settings->config.http.heartbeat);
    return wire.received();
  };
  EXPECT_EQ(received_while_waiting("?as=lines"), "");
  EXPECT_TRUE(received_while_waiting("?as=events").ends_with("e\r\n: keep-alive\n\n\r\n"));
}

TEST_F(ToyCodec, TakesItsKeyFromItsOwnField) {
  const auto refusal = [&](const std::string& fields) {
    return send("GET /toy/models HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n");
  };
  EXPECT_EQ(refusal("x-toy-key: key-bobby\r\n").body, "[\"small\"]\n");
  const Answer nobody = refusal("Authorization: Bearer key-alice\r\n");
  EXPECT_EQ(nobody.status, 422);
  EXPECT_EQ(nobody.body,
            "{\"oops\":\"invalid_api_key\",\"say\":\"An API key is required: 'x-toy-key: KEY'.\"}\n");
  EXPECT_EQ(nobody.field("WWW-Authenticate"), "");
  EXPECT_EQ(refusal("x-toy-key: key-unknown\r\n").body,
            "{\"oops\":\"invalid_api_key\",\"say\":\"The API key belongs to no app.\"}\n");
}

TEST_F(ToyCodec, TakesTheFirstKeyThatIsSent) {
  const auto models = [&](const std::string& fields) {
    return send("GET /toy/models HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n").body;
  };
  EXPECT_EQ(models("x-toy-key: key-bobby\r\n"), "[\"small\"]\n");
  EXPECT_EQ(models("x-toy-token: key-bobby\r\n"), "[\"small\"]\n");
  EXPECT_EQ(models("x-toy-token: key-alice\r\nx-toy-key: key-bobby\r\n"), "[\"small\"]\n");
  EXPECT_EQ(models("x-toy-token: key-bobby\r\nx-toy-key:\r\n"), "[\"small\"]\n");
}

TEST_F(ToyCodec, RefusesTwoKeysInOneField) {
  const Answer answer = send(
      "GET /toy/models HTTP/1.1\r\nHost: localhost\r\nx-toy-key: key-bobby\r\nX-Toy-Key: key-alice\r\n\r\n");
  EXPECT_EQ(answer.body, "{\"oops\":\"bad_framing\",\"say\":\"There is more than one x-toy-key field.\"}\n");
  EXPECT_EQ(answer.field("Connection"), "close");
}

TEST_F(ToyCodec, IsAmongTheRoutesThatAnUnknownPathIsTold) {
  http::Request elsewhere;
  elsewhere.method = "GET";
  elsewhere.target = "/elsewhere";
  const api::RouteMatch match = api::find_route(std::span(kCodecs).last(1), elsewhere);
  EXPECT_TRUE(match.there_is.starts_with(std::string(toy::kCodec.routes[0].method) + " /toy/"))
      << match.there_is;
  const std::string told = look("/elsewhere").body;
  for (const api::Route& route : api::routes(kCodecs))
    EXPECT_EQ(told.contains(route.path), !route.asks_for) << route.path;
}

TEST_F(ToyCodec, RefusesInItsOwnShapeAtEveryStage) {
  const auto oops = [](const Answer& answer) { return nlohmann::json::parse(answer.body)["oops"]; };
  EXPECT_EQ(oops(look("/toy/say")), "method_not_allowed");
  EXPECT_EQ(look("/toy/say").field("Allow"), "POST");
  EXPECT_EQ(oops(send(toy_post("/toy/upload", "{}"))), "unsupported_media_type");
  EXPECT_EQ(oops(say("{")), "invalid_json");
  EXPECT_EQ(oops(say("{}")), "missing_field");
  EXPECT_EQ(oops(look("/toy/models/nothing")), "model_not_found");
  EXPECT_EQ(oops(send(toy_post("/toy/say", std::string(rig.settings->config.http.body_bytes + 1, ' ')))),
            "body_too_large");
  rig.service.start_draining();
  EXPECT_EQ(oops(say(kSay)), "shutting_down");
}

TEST_F(ToyCodec, ReadsMultipartBodies) {
  const auto upload = [&](std::string_view type, std::string_view body) {
    return send("POST /toy/upload HTTP/1.1\r\nHost: localhost\r\nx-toy-key: key-alice\r\nContent-Type: " +
                std::string(type) + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                std::string(body));
  };
  const Answer answer =
      upload("multipart/form-data; boundary=\"cut here\"",
             "--cut here\r\nContent-Disposition: form-data; name=\"text\"; filename=\"a.txt\"\r\n"
             "Content-Type: text/plain\r\n\r\nTwo\r\nlines\r\n--cut here--\r\n");
  EXPECT_EQ(answer.body,
            "{\"model\":\"demo\",\"said\":[{\"text\":\"t0 t1 t2 t3 \",\"thought\":\"\",\"calls\":[],"
            "\"logprobs\":0,\"finish\":\"stop\"}],\"used\":[7,4]}\n");
  EXPECT_EQ(std::get<TextPrompt>(rig.cpu().started.at(0).prompt).text, "Two\r\nlines");
  EXPECT_EQ(upload("multipart/form-data", "").status, 422);
  EXPECT_EQ(upload("multipart/form-data; boundary=x", "--x\r\n").status, 422);
}

TEST_F(ToyCodec, ReachesEveryOtherOperation) {
  EXPECT_EQ(look("/toy/models").body, "[\"demo\",\"small\"]\n");
  EXPECT_EQ(look("/toy/models/default-demo").body, "\"demo\"\n");
  EXPECT_EQ(look("/toy/health").body, "{\"status\":\"ok\"}\n");
  EXPECT_EQ(look("/toy/ready").body, "{\"status\":\"ready\"}\n");
  EXPECT_NE(look("/toy/metrics").body.find("flyball_build_info"), std::string::npos);
  const Answer why = send(toy_post("/toy/why", "{}"));
  EXPECT_EQ(why.field("x-flyball-route"), "backend=cpu; rule=everything; model=demo");
  const std::string id = say(kSay).field("x-request-id");
  EXPECT_EQ(nlohmann::json::parse(look("/toy/receipts/" + id).body)["app"], "alice");
}

TEST_F(ToyCodec, DeniesByDefault) {
  std::size_t open = 0;
  for (const api::Route& route : toy::kCodec.routes) {
    std::string path(route.path);
    if (route.takes_id()) path += "demo";
    Wire stranger(rig);
    stranger.send(route.method == "GET" ? get(path, "") : post(path, "{}", ""));
    const bool let_in = stranger.answer().status == 200;
    EXPECT_EQ(let_in, route.access == api::Access::open || route.access == api::Access::open_viewer) << path;
    open += let_in ? 1 : 0;
  }
  EXPECT_EQ(open, 2U);
  EXPECT_EQ(look("/toy/elsewhere").status, 404);
}

TEST_F(ToyCodec, LeavesOtherApisAsTheyAre) {
  EXPECT_EQ(text_of(frames(send(post(kChatPath, kHelloStream)))), "t0 t1 t2 t3 ");
  EXPECT_EQ(send(get("/v1/models", "")).field("WWW-Authenticate"), "Bearer");
}

}  // namespace
}  // namespace flyball::testing
