// One connection, byte for byte and on a clock of the test's own, behind a handler that answers as told.
#include "daemon/http/connection.hpp"

#include <gtest/gtest.h>

#include "daemon/api/openai/errors.hpp"

namespace flyball::http {
namespace {

using std::chrono::milliseconds;

struct TestHandler final : Handler {
  std::string next_request_id() override { return "req-" + std::to_string(++ids); }
  std::vector<Field> fields_for_origin(std::string_view origin) const override {
    return origin.empty() ? std::vector<Field>{} : std::vector<Field>{{"For", std::string(origin)}};
  }
  std::expected<Entry, Response> check_head(const Request& head, const Peer&) override {
    if (head.path() != "/forbidden" && head.path() != "/last")
      return Entry{entry, std::string(head.field("Key")), std::exchange(room, {})};
    Response out;
    out.status = 403;
    out.last = head.path() == "/last";
    return std::unexpected(out);
  }
  Response refuse(const Error& error, const Request*, const Peer&) override {
    refusals.push_back(error);
    return api::openai::error_response(error, {});
  }
  void handle(std::shared_ptr<Exchange> exchange) override {
    bodies.push_back(exchange->request().body);
    memory = exchange->request().body.data();
    EXPECT_EQ(exchange->take_entry(), entry);
    if (exchange->request().path() == "/now") {
      Response out;
      out.body = "now:" + exchange->request().body;
      exchange->respond(std::move(out));
      return;
    }
    exchange->observe(observer);
    held.push_back(std::move(exchange));
  }
  bool closing() const override { return draining; }

  struct Observer final : ExchangeObserver {
    void on_disconnect() override { ++disconnects; }
    void on_drained() override { ++drains; }
    void on_quiet() override { ++quiets; }
    void on_first_byte(TimePoint) override { ++first_bytes; }
    int disconnects = 0, drains = 0, quiets = 0, first_bytes = 0;
  };
  std::shared_ptr<Observer> observer = std::make_shared<Observer>();
  std::vector<std::shared_ptr<Exchange>> held;
  std::vector<std::string> bodies;
  std::shared_ptr<void> entry = std::make_shared<int>();
  std::string room;              // for the next body
  const char* memory = nullptr;  // of the latest body
  std::vector<Error> refusals;
  int ids = 0;
  bool draining = false;
};

struct ConnectionTest : ::testing::Test {
  config::HttpLimits limits;
  TestHandler handler;
  TimePoint now{std::chrono::hours(1)};
  int wakes = 0;
  std::unique_ptr<Connection> connection;

  void SetUp() override { open(); }
  void open() {
    connection = std::make_unique<Connection>(
        limits, handler, Peer{}, [this] { return now; }, [] { return std::string_view("now"); },
        [this] { ++wakes; });
  }
  // All that leaves: a pipelined request is answered once the answer before it has left.
  std::string drain() {
    std::string out;
    do {
      const std::string_view next = connection->output();
      out.append(next);
      connection->sent(next.size());
    } while (!connection->output().empty());
    return out;
  }
  std::string send(std::string_view bytes) {
    connection->receive(bytes);
    return drain();
  }
  void advance(milliseconds by) {
    now += by;
    connection->tick();
  }
};

const std::string kNow = "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
const std::string kLater = "POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
const std::string kNowAnswer =
    "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Type: application/json\r\nContent-Length: 6\r\nx-request-id: "
    "req-1\r\n\r\nnow:hi";

TEST_F(ConnectionTest, answers_byte_exactly_however_the_input_is_cut) {
  EXPECT_EQ(send(kNow), kNowAnswer);
  for (std::size_t cut = 1; cut < kNow.size(); ++cut) {
    handler.ids = 0;
    open();
    EXPECT_EQ(send(kNow.substr(0, cut)), "");
    EXPECT_EQ(send(kNow.substr(cut)), kNowAnswer) << cut;
  }
}

TEST_F(ConnectionTest, ReadsAChunkedBodyAndThePipelineBehindItHoweverTheInputIsCut) {
  const std::string all =
      "POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n" +
      kNow;
  for (std::size_t cut = 1; cut < all.size(); ++cut)
    for (std::size_t second = cut; second < all.size(); ++second) {
      handler.ids = 0;
      open();
      std::string out = send(all.substr(0, cut));
      out += send(all.substr(cut, second - cut));
      out += send(all.substr(second));
      EXPECT_EQ(out.substr(0, kNowAnswer.size()), kNowAnswer) << cut << " " << second;
      EXPECT_NE(out.find("req-2"), std::string::npos) << cut << " " << second;
    }
}

TEST_F(ConnectionTest, SaysHowManyBytesOfABodyAreToCome) {
  EXPECT_EQ(connection->body_left(), 0U);
  connection->receive("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab");
  EXPECT_EQ(connection->body_left(), 7U);
  connection->receive("cdefgh");
  EXPECT_EQ(connection->body_left(), 1U);
  connection->receive("iPOST");
  EXPECT_EQ(connection->body_left(), 0U);
  EXPECT_EQ(handler.bodies.at(0), "abcdefghi");
  open();
  connection->receive("POST /later HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc");
  EXPECT_EQ(connection->body_left(), 0U) << "nobody knows";
}

TEST_F(ConnectionTest, PutsABodyIntoTheRoomThatTheHandlerHas) {
  handler.room = std::string(100, 'x');
  const char* const memory = handler.room.data();
  send("POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + std::string(40, 'b'));
  send(std::string(60, 'c'));
  EXPECT_EQ(handler.bodies.at(0), std::string(40, 'b') + std::string(60, 'c'));
  EXPECT_EQ(handler.memory, memory);
  handler.room = std::string(100, 'x');
  send(kNow);
  EXPECT_EQ(handler.bodies.at(1), "hi") << "a short body shows nothing of an earlier one";
}

TEST_F(ConnectionTest, EmptyLinesBetweenRequestsAreSkippedHoweverTheInputIsCut) {
  const std::string all = "\r\n" + kNow + "\r\n\r\n" + kNow;
  for (std::size_t cut = 1; cut < all.size(); ++cut) {
    handler.ids = 0;
    open();
    std::string out = send(all.substr(0, cut));
    out += send(all.substr(cut));
    EXPECT_EQ(out.substr(0, kNowAnswer.size()), kNowAnswer) << cut;
    EXPECT_NE(out.find("req-2"), std::string::npos) << cut;
  }
}

TEST_F(ConnectionTest, pipelined_requests_are_answered_in_order) {
  const std::string out = send(kNow + kNow + kNow.substr(0, 10));
  EXPECT_EQ(out.find("req-1"), kNowAnswer.find("req-1"));
  EXPECT_NE(out.find("req-2"), std::string::npos);
  EXPECT_EQ(handler.bodies.size(), 2U);
  EXPECT_NE(send(kNow.substr(10)).find("req-3"), std::string::npos);
}

TEST_F(ConnectionTest, a_pipelined_request_is_begun_when_the_answer_before_it_has_left) {
  connection->receive(kNow + kNow + kNow);
  EXPECT_EQ(handler.bodies.size(), 1U);
  connection->sent(connection->output().size() - 1);
  EXPECT_EQ(handler.bodies.size(), 1U);
  connection->sent(1);
  EXPECT_EQ(handler.bodies.size(), 2U);
  connection->receive(std::string(Connection::kMaxPipelined, 'x'));
  EXPECT_FALSE(connection->wants_input()) << "what is read ahead is bounded";
}

TEST_F(ConnectionTest, a_strangers_unread_answer_keeps_no_place) {
  for (const bool known : {false, true}) {
    open();
    connection->receive(std::string("POST /now HTTP/1.1\r\nHost: a\r\n") + (known ? "Key: k\r\n" : "") +
                        "Content-Length: 2\r\n\r\nhi" + "bad\n");
    EXPECT_EQ(connection->activity(), known ? Activity::working : Activity::idle);
    connection->sent(connection->output().size());  // now the refusal is unread
    EXPECT_NE(connection->output(), "");
    EXPECT_EQ(connection->activity(), known ? Activity::working : Activity::idle);
  }
}

TEST_F(ConnectionTest, a_second_request_waits_for_the_first_answer) {
  EXPECT_EQ(send(kLater + kNow), "");
  EXPECT_EQ(handler.bodies.size(), 1U);
  handler.held[0]->respond({});
  const std::string out = drain();
  EXPECT_LT(out.find("req-1"), out.find("req-2"));
  EXPECT_TRUE(out.ends_with("now:hi"));
}

TEST_F(ConnectionTest, read_ahead_is_bounded) {
  connection->receive(kLater);
  EXPECT_TRUE(connection->wants_input());
  connection->receive(std::string(Connection::kMaxPipelined, 'x'));
  EXPECT_FALSE(connection->wants_input());
}

TEST_F(ConnectionTest, a_reader_that_never_reads_bounds_its_pipeline) {
  limits.stream_buffer_bytes = 1000;
  open();
  for (int i = 0; i < 1000 && connection->wants_input(); ++i) connection->receive(kNow);
  EXPECT_FALSE(connection->wants_input());
  EXPECT_LT(connection->output().size(), 2000U);
  while (!connection->output().empty()) drain();
  EXPECT_TRUE(connection->wants_input());
}

// The tail of a broken request is never parsed, not even when it is a perfect request.
TEST_F(ConnectionTest, nothing_behind_a_framing_error_is_parsed) {
  const std::string out = send(
      "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
      kNow);
  EXPECT_TRUE(out.starts_with("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_NE(out.find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(out.find("now:"), std::string::npos);
  EXPECT_TRUE(handler.bodies.empty());
  EXPECT_TRUE(connection->wants_shutdown());
  EXPECT_EQ(send(kNow), "");  // discarded
  EXPECT_TRUE(handler.bodies.empty());
}

TEST_F(ConnectionTest, lingers_within_bounds_and_time) {
  send("bad\n");
  ASSERT_TRUE(connection->wants_shutdown());
  EXPECT_TRUE(connection->wants_input());
  advance(Connection::kLinger);
  EXPECT_TRUE(connection->closed());
  open();
  send("bad\n");
  // A body of the allowed length is read to its end: its client then reads the answer, not a reset.
  for (std::size_t n = 0; n < limits.body_bytes; n += 65'536) connection->receive(std::string(65'536, 'x'));
  EXPECT_FALSE(connection->closed());
  connection->receive(std::string(65'536, 'x'));
  EXPECT_TRUE(connection->closed());
}

TEST_F(ConnectionTest, KeepsTheHandlersEntryWhileTheRequestLasts) {
  const std::string head = "POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
  const auto kept = [&] { return handler.entry.use_count() > 1; };
  EXPECT_FALSE(kept());
  send(head);
  EXPECT_TRUE(kept());
  send("hi");
  EXPECT_FALSE(kept()) << "the handler took it and let it go";
  handler.held[0]->respond({});
  send(head);
  EXPECT_TRUE(kept());
  connection->receive_eof();
  EXPECT_FALSE(kept()) << "the client has left";
  open();
  send(head);
  advance(limits.body_timeout);
  EXPECT_FALSE(kept()) << "the body came too late";
}

TEST_F(ConnectionTest, expect_continue) {
  const std::string head =
      "POST /now HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  EXPECT_EQ(send(head), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(send("hi"), kNowAnswer);
  EXPECT_EQ(send(head + "hi").find("100 Continue"), std::string::npos);  // the body is already there
}

TEST_F(ConnectionTest, an_answer_to_the_head_comes_before_the_body) {
  const std::string out =
      send("POST /forbidden HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2000000\r\n\r\n");
  EXPECT_TRUE(out.starts_with("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_NE(out.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(connection->wants_shutdown());
}

TEST_F(ConnectionTest, body_over_the_limit_is_413_from_its_length_alone) {
  const std::string out = send("POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4194305\r\n\r\n");
  EXPECT_TRUE(out.starts_with("HTTP/1.1 413 "));
  EXPECT_EQ(handler.refusals.at(0).code, ErrorCode::body_too_large);
}

TEST_F(ConnectionTest, slow_header_and_slow_body_are_408) {
  send("GET / HT");
  now += limits.header_timeout - milliseconds(1);
  send("T");  // trickling does not help
  advance(milliseconds(1));
  EXPECT_TRUE(drain().starts_with("HTTP/1.1 408 "));
  open();
  send("POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
  advance(limits.body_timeout);
  EXPECT_TRUE(drain().starts_with("HTTP/1.1 408 "));
  EXPECT_TRUE(connection->wants_shutdown());
  EXPECT_EQ(handler.refusals.size(), 2U);
}

TEST_F(ConnectionTest, an_idle_connection_closes_silently) {
  send(kNow);
  advance(limits.idle_timeout - milliseconds(1));
  EXPECT_FALSE(connection->closed());
  advance(milliseconds(1));
  EXPECT_TRUE(connection->closed());
}

TEST_F(ConnectionTest, a_fresh_connection_has_the_header_timeout_from_its_beginning) {
  EXPECT_EQ(connection->deadline(), now + limits.header_timeout);
  advance(limits.header_timeout);
  EXPECT_TRUE(connection->closed());
  open();
  advance(limits.header_timeout - milliseconds(1));
  send("GET / HT");
  advance(milliseconds(1));
  EXPECT_TRUE(drain().starts_with("HTTP/1.1 408 ")) << "its first byte bought no time";
  open();
  send(kNow);
  advance(limits.header_timeout);
  send("GET / HT");
  EXPECT_EQ(connection->deadline(), now + limits.header_timeout) << "a later request has its own time";
}

TEST_F(ConnectionTest, a_stranger_is_silent_or_idle_until_its_request_is_whole) {
  EXPECT_EQ(connection->activity(), Activity::silent);
  send("GET / HT");
  EXPECT_EQ(connection->activity(), Activity::silent);
  open();
  send("POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh");
  EXPECT_EQ(connection->activity(), Activity::idle) << "a body that comes slowly";
  send("i");
  EXPECT_EQ(connection->activity(), Activity::working);
  handler.held[0]->respond({});
  EXPECT_EQ(connection->activity(), Activity::idle) << "who reads no answer keeps no place";
  drain();
  EXPECT_EQ(connection->activity(), Activity::idle);
  send("GET / HT");
  EXPECT_EQ(connection->activity(), Activity::idle);
  EXPECT_FALSE(connection->known());
}

TEST_F(ConnectionTest, an_app_works_from_its_requests_first_byte_on) {
  send("POST /now HTTP/1.1\r\nHost: a\r\nKey: k\r\nContent-Length: 2\r\n\r\nh");
  EXPECT_TRUE(connection->known());
  EXPECT_EQ(connection->activity(), Activity::working);
  connection->receive("i");
  EXPECT_EQ(connection->activity(), Activity::working) << "the answer has not left";
  drain();
  EXPECT_EQ(connection->activity(), Activity::idle);
  send("P");
  EXPECT_EQ(connection->activity(), Activity::working);
  open();
  send("GET /forbidden HTTP/1.1\r\nHost: a\r\nKey: k\r\n\r\n");
  EXPECT_FALSE(connection->known()) << "it was not let in";
  EXPECT_EQ(connection->activity(), Activity::idle);
}

TEST_F(ConnectionTest, a_connection_that_only_lingers_is_idle) {
  send("POST /now HTTP/1.1\r\nHost: a\r\nKey: k\r\nContent-Length: 2\r\n\r\nhi");
  connection->receive("bad\n");
  EXPECT_EQ(connection->activity(), Activity::working) << "the refusal has not left";
  drain();
  EXPECT_TRUE(connection->wants_shutdown());
  EXPECT_EQ(connection->activity(), Activity::idle);
}

TEST_F(ConnectionTest, a_client_that_is_turned_away_gets_its_answer_and_nothing_else) {
  for (const char* before : {"", "GET /now HT"}) {
    open();
    send(before);
    connection->turn_away("HTTP/1.1 503 \r\n\r\n");
    EXPECT_EQ(drain(), "HTTP/1.1 503 \r\n\r\n");
    EXPECT_TRUE(connection->wants_shutdown());
    EXPECT_EQ(send(kNow), "");  // discarded, so that no reset takes the answer away
    EXPECT_TRUE(handler.bodies.empty());
    advance(Connection::kLinger);
    EXPECT_TRUE(connection->closed());
  }
  open();
  connection->receive(kLater);
  connection->turn_away("503");
  EXPECT_EQ(connection->activity(), Activity::working);
  EXPECT_EQ(connection->output(), "") << "a request in work is not turned away";
}

TEST_F(ConnectionTest, a_refusal_may_end_the_connection) {
  EXPECT_EQ(send("GET /forbidden HTTP/1.1\r\nHost: a\r\n\r\n").find("Connection: close"), std::string::npos);
  EXPECT_FALSE(connection->wants_shutdown());
  EXPECT_NE(send("GET /last HTTP/1.1\r\nHost: a\r\n\r\n").find("Connection: close"), std::string::npos);
  EXPECT_TRUE(connection->wants_shutdown());
}

// A long answer that is not streamed, read slowly: what counts is progress, not how long it takes.
TEST_F(ConnectionTest, a_slow_reader_of_a_whole_answer_is_not_idle) {
  send(kLater);
  Response response;
  response.body = std::string(10'000, 'x');
  handler.held[0]->respond(std::move(response));
  const auto step = limits.stalled_reader_timeout / 2;
  for (auto waited = milliseconds(0); waited < 2 * limits.idle_timeout; waited += step) {
    advance(step);
    ASSERT_FALSE(connection->closed()) << waited.count();
    connection->sent(100);
  }
  EXPECT_EQ(connection->deadline(), now + limits.stalled_reader_timeout);
  drain();
  EXPECT_EQ(connection->deadline(), now + limits.idle_timeout);  // idle from here on
  advance(limits.idle_timeout - milliseconds(1));
  EXPECT_FALSE(connection->closed());
  advance(milliseconds(1));
  EXPECT_TRUE(connection->closed());
}

TEST_F(ConnectionTest, a_whole_answer_that_nobody_reads_is_dropped) {
  send(kLater);
  handler.held[0]->respond({});
  advance(limits.stalled_reader_timeout - milliseconds(1));
  EXPECT_FALSE(connection->closed());
  advance(milliseconds(1));
  EXPECT_TRUE(connection->closed());
}

// Deadlines do not move with the wall clock.
static_assert(TimePoint::clock::is_steady);

TEST_F(ConnectionTest, head_requests_get_no_body) {
  const std::string out = send("HEAD /now HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_NE(out.find("Content-Length: 4\r\n"), std::string::npos);
  EXPECT_TRUE(out.ends_with("\r\n\r\n"));
}

// HEAD and HTTP/1.0 are of one request, not of the connection.
TEST_F(ConnectionTest, a_broken_request_behind_a_head_request_is_answered_in_full) {
  for (const char* first : {"HEAD /now HTTP/1.1\r\nHost: a\r\n\r\n",
                            "HEAD /now HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"})
    for (const char* second : {"bad\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"}) {
      open();
      send(first);
      const std::string out = send(second);
      EXPECT_TRUE(out.starts_with("HTTP/1.1 400 ")) << first << second;
      EXPECT_NE(out.find("bad_framing"), std::string::npos) << first << second;
    }
  open();
  send("HEAD /now HTTP/1.1\r\nHost: a\r\n\r\n");
  send("GET / HT");
  advance(limits.header_timeout);
  EXPECT_NE(drain().find("request_timeout"), std::string::npos);
}

TEST_F(ConnectionTest, http_1_0_closes_and_streams_without_chunks) {
  const std::string out = send("GET /now HTTP/1.0\r\nHost: a\r\n\r\n");
  EXPECT_NE(out.find("Connection: close\r\n"), std::string::npos);
  open();
  send("GET /later HTTP/1.0\r\nHost: a\r\n\r\n");
  handler.held.back()->begin_stream({});
  handler.held.back()->write("abc");
  handler.held.back()->end_stream();
  const std::string stream = drain();
  EXPECT_EQ(stream.find("chunked"), std::string::npos);
  EXPECT_TRUE(stream.ends_with("\r\n\r\nabc"));
  EXPECT_TRUE(connection->wants_shutdown());
}

TEST_F(ConnectionTest, streams_in_chunks_and_goes_on) {
  send(kLater);
  const auto exchange = handler.held[0];
  exchange->begin_stream({});
  EXPECT_GT(wakes, 0);
  EXPECT_TRUE(exchange->write("hello"));
  EXPECT_TRUE(exchange->write(std::string(16, 'x')));
  exchange->end_stream();
  const std::string out = drain();
  EXPECT_NE(out.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_TRUE(out.ends_with("\r\n\r\n5\r\nhello\r\n10\r\nxxxxxxxxxxxxxxxx\r\n0\r\n\r\n"));
  EXPECT_EQ(handler.observer->first_bytes, 1);
  EXPECT_FALSE(exchange->connected());
  EXPECT_TRUE(exchange->write("late"));  // harmless
  EXPECT_NE(send(kNow).find("now:hi"), std::string::npos);
}

TEST_F(ConnectionTest, a_cut_stream_has_no_last_chunk) {
  send(kLater);
  handler.held[0]->begin_stream({});
  handler.held[0]->write("abc");
  handler.held[0]->cut_stream();
  EXPECT_TRUE(drain().ends_with("3\r\nabc\r\n"));
  EXPECT_TRUE(connection->wants_shutdown());
}

TEST_F(ConnectionTest, a_slow_reader_is_told_and_then_dropped) {
  send(kLater);
  const auto exchange = handler.held[0];
  exchange->begin_stream({});
  std::size_t written = 0;
  while (exchange->write(std::string(1000, 'x'))) written += 1000;
  EXPECT_LE(written, limits.stream_buffer_bytes);
  EXPECT_LT(connection->output().size(), limits.stream_buffer_bytes + 2000);
  connection->sent(1000);
  EXPECT_EQ(handler.observer->drains, 0);
  connection->sent(limits.stream_buffer_bytes / 2);
  EXPECT_EQ(handler.observer->drains, 1);
  advance(limits.stalled_reader_timeout - milliseconds(1));
  EXPECT_FALSE(connection->closed());
  connection->sent(1);  // progress, however little, starts the clock again
  advance(limits.stalled_reader_timeout - milliseconds(1));
  EXPECT_FALSE(connection->closed());
  advance(milliseconds(1));
  EXPECT_TRUE(connection->closed());
  EXPECT_EQ(handler.observer->disconnects, 1);
}

// Between half full and full there is room for a small write, but whoever was told "behind" still waits.
TEST_F(ConnectionTest, a_small_write_does_not_forget_that_another_waits) {
  send(kLater);
  const auto exchange = handler.held[0];
  exchange->begin_stream({});
  while (exchange->write(std::string(1000, 'x'))) {
  }
  connection->sent(2000);
  ASSERT_LT(connection->output().size(), limits.stream_buffer_bytes);
  exchange->write(": keep-alive\n\n");  // a heartbeat, or another choice of the same answer
  drain();
  EXPECT_EQ(handler.observer->drains, 1);
}

// Pieces as given, and how many of them are left.
struct Pieces final : BodySource {
  Pieces(std::vector<std::string> all, std::shared_ptr<std::size_t> n)
      : pieces(std::move(all)), left(std::move(n)) {
    *left = pieces.size();
  }
  bool next(std::string& out) override {
    out += pieces[pieces.size() - *left];
    return --*left > 0;
  }
  std::vector<std::string> pieces;
  std::shared_ptr<std::size_t> left;
};

struct PiecesTest : ConnectionTest {
  const std::shared_ptr<std::size_t> left = std::make_shared<std::size_t>(0);

  void SetUp() override {
    limits.stream_buffer_bytes = 1000;
    open();
  }
  void respond(const std::string& request, std::vector<std::string> pieces) {
    connection->receive(request);
    handler.held.back()->respond({}, std::make_unique<Pieces>(std::move(pieces), left));
  }
  static std::vector<std::string> four() {
    return {std::string(600, 'a'), std::string(600, 'b'), std::string(600, 'c'), "d"};
  }
  std::string read_all(std::size_t at_once) {
    std::string out;
    while (!connection->output().empty()) {
      const std::string_view now_there = connection->output().substr(0, at_once);
      out += now_there;
      connection->sent(now_there.size());
    }
    return out;
  }
};

TEST_F(PiecesTest, a_body_of_one_piece_has_its_length) {
  send(kLater);
  Response plain;
  plain.body = "hello";
  handler.held.back()->respond(std::move(plain));
  const std::string expected = drain();
  handler.ids = 0;
  open();
  respond(kLater, {"hello"});
  EXPECT_EQ(drain(), expected);
  EXPECT_EQ(handler.observer->first_bytes, 2);
}

TEST_F(PiecesTest, a_longer_body_is_made_in_chunks_as_it_is_read) {
  for (const std::size_t at_once : {1U, 7U, 250U, 100'000U}) {
    handler.ids = 0;
    open();
    respond(kLater + kNow, four());
    EXPECT_EQ(*left, 3U) << "nobody has read";
    connection->sent(50);
    EXPECT_EQ(*left, 3U) << "there is no room yet";
    EXPECT_TRUE(connection->busy());
    const std::string out = read_all(at_once);
    const std::string body = "258\r\n" + std::string(600, 'a') + "\r\n258\r\n" + std::string(600, 'b') +
                             "\r\n258\r\n" + std::string(600, 'c') + "\r\n1\r\nd\r\n0\r\n\r\n";
    const std::size_t next = out.find("HTTP/1.1 200 OK\r\n");
    ASSERT_NE(next, std::string::npos);
    EXPECT_TRUE(out.substr(0, next).ends_with("\r\n\r\n" + body)) << out;
    EXPECT_TRUE(out.substr(next).ends_with("now:hi"));
    EXPECT_EQ(out.find("Content-Length"), out.find("Content-Length", next));
    EXPECT_FALSE(connection->busy());
    EXPECT_FALSE(connection->closed());
  }
}

TEST_F(PiecesTest, http_1_0_reads_to_the_end_of_the_connection) {
  respond("GET /later HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", four());
  EXPECT_FALSE(connection->wants_shutdown());
  const std::string out = read_all(100);
  EXPECT_EQ(out.find("chunked"), std::string::npos);
  EXPECT_EQ(out.find("Content-Length"), std::string::npos);
  EXPECT_NE(out.find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(out.ends_with("\r\n\r\n" + std::string(600, 'a') + std::string(600, 'b') +
                            std::string(600, 'c') + "d"));
  EXPECT_TRUE(connection->wants_shutdown());
}

TEST_F(PiecesTest, head_requests_get_the_head_alone) {
  respond("HEAD /later HTTP/1.1\r\nHost: a\r\n\r\n", four());
  EXPECT_TRUE(read_all(100).ends_with("\r\n\r\n"));
  EXPECT_EQ(*left, 3U);
  EXPECT_EQ(left.use_count(), 1);
  EXPECT_NE(send(kNow).find("now:hi"), std::string::npos);
}

TEST_F(PiecesTest, a_lost_connection_lets_go_of_the_rest) {
  for (int how = 0; how < 3; ++how) {
    open();
    respond(kLater, four());
    connection->sent(400);
    ASSERT_EQ(left.use_count(), 2);
    if (how == 0) connection->lost();
    if (how == 1) connection.reset();
    if (how == 2) advance(limits.stalled_reader_timeout);
    EXPECT_EQ(left.use_count(), 1) << how;
  }
}

TEST_F(PiecesTest, a_half_closed_client_still_gets_all_of_it) {
  respond(kLater, four());
  connection->receive_eof();
  EXPECT_FALSE(connection->closed());
  EXPECT_TRUE(read_all(100).ends_with("1\r\nd\r\n0\r\n\r\n"));
  EXPECT_TRUE(connection->wants_shutdown());
}

TEST_F(PiecesTest, what_is_kept_goes_with_the_last_byte) {
  const auto kept = std::make_shared<int>();
  connection->receive(kLater + kNow);
  handler.held.back()->keep_until_sent(kept);
  handler.held.back()->respond({}, std::make_unique<Pieces>(four(), left));
  std::string out;
  while (*left > 0 || connection->output().size() > 1) {
    EXPECT_EQ(kept.use_count(), 2);
    EXPECT_EQ(handler.bodies.size(), 1U) << "the next request waits";
    connection->sent(1);
  }
  connection->sent(1);
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(handler.bodies.size(), 2U);
}

TEST_F(PiecesTest, what_is_kept_goes_with_the_connection) {
  for (const bool answered : {false, true}) {
    open();
    const auto kept = std::make_shared<int>();
    connection->receive(kLater);
    handler.held.back()->keep_until_sent(kept);
    if (answered) handler.held.back()->respond({});
    EXPECT_EQ(kept.use_count(), 2);
    connection->lost();
    EXPECT_EQ(kept.use_count(), 1) << answered;
  }
}

TEST_F(PiecesTest, a_large_answer_leaves_no_large_buffer) {
  send(kLater);
  Response large;
  large.body = std::string(1 << 20, 'x');
  handler.held.back()->respond(std::move(large));
  EXPECT_GT(connection->buffered_capacity(), std::size_t{1} << 20);
  drain();
  EXPECT_LE(connection->buffered_capacity(), Connection::kKeptOutput);
}

TEST_F(ConnectionTest, quiet_streams_are_reported) {
  send(kLater);
  advance(limits.heartbeat);
  advance(limits.heartbeat);
  EXPECT_EQ(handler.observer->quiets, 2);
  handler.held[0]->begin_stream({});
  drain();
  advance(limits.heartbeat / 2);
  handler.held[0]->write("x");
  drain();
  advance(limits.heartbeat / 2);
  EXPECT_EQ(handler.observer->quiets, 2);
}

TEST_F(ConnectionTest, hanging_up_is_a_disconnect_in_every_state) {
  send(kLater);
  connection->receive_eof();
  EXPECT_TRUE(connection->closed());
  EXPECT_EQ(handler.observer->disconnects, 1);
  open();
  send(kLater);
  handler.held.back()->begin_stream({});
  connection->lost();
  EXPECT_EQ(handler.observer->disconnects, 2);
  handler.held.back()->end_stream();  // harmless
  open();
  send("GET / HTTP/1.1\r\n");
  connection->receive_eof();
  EXPECT_TRUE(connection->closed());
  open();
  connection->receive(kNow);
  connection->receive_eof();  // a half-closed client still gets its answer
  EXPECT_FALSE(connection->closed());
  EXPECT_TRUE(drain().ends_with("now:hi"));
}

TEST_F(ConnectionTest, destruction_is_a_disconnect) {
  send(kLater);
  connection.reset();
  EXPECT_EQ(handler.observer->disconnects, 1);
  EXPECT_FALSE(handler.held[0]->connected());
}

TEST_F(ConnectionTest, draining_closes_after_the_answer) {
  handler.draining = true;
  EXPECT_NE(send(kNow).find("Connection: close\r\n"), std::string::npos);
  EXPECT_TRUE(connection->wants_shutdown());
}

// A drain waits for who has just connected, not for one that says nothing, nor for one that was answered.
TEST_F(ConnectionTest, a_client_that_has_just_connected_is_waited_for) {
  EXPECT_TRUE(connection->busy());
  advance(Connection::kFirstRequest);
  EXPECT_FALSE(connection->busy());
  open();
  connection->receive("GET ");
  advance(Connection::kFirstRequest);
  EXPECT_TRUE(connection->busy());  // its own limits hold
  open();
  send(kNow);
  EXPECT_FALSE(connection->busy());
}

TEST_F(ConnectionTest, field_values_cannot_split_the_head) {
  send(kLater);
  Response evil;
  evil.fields.push_back({"x-route", "a\r\nSet-Cookie: b"});
  handler.held[0]->respond(std::move(evil));
  EXPECT_EQ(drain().find("\r\nSet-Cookie"), std::string::npos);
}

}  // namespace
}  // namespace flyball::http
