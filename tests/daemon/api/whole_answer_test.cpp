// An answer that is sent whole: the events it gathers, how compactly it holds them, and the pieces it leaves
// in.
#include "daemon/api/whole_answer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/api/json_text.hpp"
#include "daemon/api/openai/writer.hpp"

namespace flyball::api {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string spelling(int i) {
  return " w" + std::to_string(i % 1000);
}

TokenLogprob token_of(int i, int n_top) {
  TokenLogprob out{i, spelling(i), -0.5F * static_cast<float>(i % 7), {}};
  for (int k = 0; k < n_top; ++k) out.top.emplace_back(spelling(i + k), -0.25F * static_cast<float>(k));
  return out;
}

TEST(PackedLogprobs, GivesBackWhatWasAppended) {
  PackedLogprobs packed;
  constexpr int kTokens = 5000;
  for (int i = 0; i < kTokens; ++i) packed.append(token_of(i, i % 21));
  packed.append({0, std::string(100'000, 'x'), -1.0F, {{std::string(), -2.0F}}});  // larger than a block
  EXPECT_EQ(packed.size(), kTokens + 1U);
  PackedLogprobs::Cursor cursor;
  LogprobView got, expected;
  for (int i = 0; i < kTokens; ++i) {
    const TokenLogprob token = token_of(i, i % 21);
    expected.read(token);
    ASSERT_TRUE(packed.read(cursor, got)) << i;
    ASSERT_EQ(got.bytes, expected.bytes) << i;
    ASSERT_EQ(got.logprob, expected.logprob) << i;
    ASSERT_EQ(got.top, expected.top) << i;
  }
  ASSERT_TRUE(packed.read(cursor, got));
  EXPECT_EQ(got.bytes.size(), 100'000U);
  EXPECT_EQ(got.top.size(), 1U);
  EXPECT_FALSE(packed.read(cursor, got));
}

TEST(PackedLogprobs, HoldsFiveBytesATokenAboveItsText) {
  PackedLogprobs packed;
  std::size_t text = 0;
  constexpr std::size_t kTokens = 10'000, kTop = 20;
  for (std::size_t i = 0; i < kTokens; ++i) {
    const TokenLogprob token = token_of(static_cast<int>(i), kTop);
    text += token.bytes.size();
    for (const auto& [bytes, logprob] : token.top) text += bytes.size();
    packed.append(token);
  }
  const double above = static_cast<double>(packed.bytes() - text) / (kTokens * (1 + kTop));
  EXPECT_GE(above, 5.0);
  EXPECT_LE(above, 5.5);
}

TEST(JsonText, PartsOfAStringAreTheString) {
  for (const std::string& text : {std::string("a\n\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"),
                                  std::string("\xe2\x82\x41\x80\x80\x80\x80\x80\xf0\x9f\x98\xff")}) {
    std::string whole;
    append_json_string(whole, text);
    for (std::size_t part = 4; part <= text.size(); ++part) {
      std::string joined = "\"";
      for (std::string_view rest = text; !rest.empty();) {
        const std::size_t n = cut_of_text(rest, part);
        ASSERT_GT(n, 0U);
        ASSERT_LE(n, part);
        append_json_text(joined, rest.substr(0, n));
        rest.remove_prefix(n);
      }
      EXPECT_EQ(joined + "\"", whole) << part;
    }
  }
}

struct WholeAnswerTest : ::testing::Test {
  static constexpr std::uint64_t kLimit = 1 << 20;
  route::HeldBytes held;

  std::unique_ptr<WholeAnswer> answer(std::size_t choices = 1) {
    return std::make_unique<WholeAnswer>(choices, AnswerShare(held.share_of("a"), kLimit, 0, {}), 0);
  }
  // A token of an engine.
  static Result<void> gather(WholeAnswer& answer, std::size_t choice, int i, int n_top) {
    const TokenLogprob token = token_of(i, n_top);
    const AnswerEvents events{event::Logprobs{{&token, 1}}, event::Text{token.bytes}};
    return answer.gather(choice, events);
  }
  static void complete(WholeAnswer& answer, Generate::Kind kind, std::size_t choices) {
    auto writer = std::make_unique<openai::Writer>(kind, true, false);
    writer->begin({"req-1", 1, "m", choices});
    answer.complete(std::move(writer), {7, 3, 0});
  }
  // All pieces, and how much the app holds after each.
  static std::vector<std::string> pieces_of(WholeAnswer& answer) {
    std::vector<std::string> out;
    for (bool more = true; more;) more = answer.next(out.emplace_back());
    return out;
  }
};

TEST_F(WholeAnswerTest, LongAnswersLeaveInPiecesThatMakeOneDocument) {
  constexpr int kTokens = 3000, kTop = 3;
  for (const auto kind : {Generate::Kind::chat, Generate::Kind::completion}) {
    const auto whole = answer(2);
    for (int i = 0; i < kTokens; ++i)
      for (std::size_t choice = 0; choice < 2; ++choice) ASSERT_TRUE(gather(*whole, choice, i, kTop));
    complete(*whole, kind, 2);
    const auto pieces = pieces_of(*whole);
    EXPECT_GT(pieces.size(), 5U);
    std::string all;
    for (const std::string& piece : pieces) {
      EXPECT_LE(piece.size(), http::BodySource::kPieceBytes + 8192);
      if (&piece != &pieces.back()) {
        EXPECT_GE(piece.size(), http::BodySource::kPieceBytes);
      }
      all += piece;
    }
    EXPECT_TRUE(all.ends_with("}\n"));
    const json body = json::parse(all);
    EXPECT_EQ(body["usage"]["completion_tokens"], 3);
    ASSERT_EQ(body["choices"].size(), 2U);
    std::string text;
    for (int i = 0; i < kTokens; ++i) text += spelling(i);
    std::size_t offset = 0;
    for (const json& choice : body["choices"]) {
      const json& logprobs = choice["logprobs"];
      if (kind == Generate::Kind::chat) {
        EXPECT_EQ(choice["message"]["content"], text);
        ASSERT_EQ(logprobs["content"].size(), static_cast<std::size_t>(kTokens));
        for (int i = 0; i < kTokens; ++i) {
          const json& one = logprobs["content"][static_cast<std::size_t>(i)];
          ASSERT_EQ(one["token"], spelling(i));
          ASSERT_EQ(one["top_logprobs"].size(), static_cast<std::size_t>(kTop));
          ASSERT_EQ(one["top_logprobs"][2]["token"], spelling(i + 2));
        }
        continue;
      }
      EXPECT_EQ(choice["text"], text);
      offset = 0;
      for (std::size_t i = 0; i < kTokens; ++i) {
        ASSERT_EQ(logprobs["tokens"][i], spelling(static_cast<int>(i)));
        ASSERT_EQ(logprobs["text_offset"][i], offset);
        ASSERT_EQ(logprobs["top_logprobs"][i].size(), static_cast<std::size_t>(kTop));
        offset += spelling(static_cast<int>(i)).size();
      }
      EXPECT_EQ(logprobs["token_logprobs"].size(), static_cast<std::size_t>(kTokens));
    }
  }
}

TEST_F(WholeAnswerTest, ShortAnswersAreOnePiece) {
  const auto whole = answer();
  ASSERT_TRUE(gather(*whole, 0, 1, 2));
  complete(*whole, Generate::Kind::chat, 1);
  EXPECT_EQ(pieces_of(*whole).size(), 1U);
}

TEST_F(WholeAnswerTest, ChargesItsAppForWhatItHolds) {
  auto whole = answer(2);
  for (int i = 0; i < 1000; ++i)
    for (std::size_t choice = 0; choice < 2; ++choice) ASSERT_TRUE(gather(*whole, choice, i, 10));
  const std::uint64_t gathered = held.held("a");
  EXPECT_GE(gathered, 2U * 1000 * 11 * 5);
  complete(*whole, Generate::Kind::chat, 2);
  std::string piece;
  std::uint64_t least = gathered;
  while (whole->next(piece)) {
    EXPECT_LE(held.held("a"), least);
    least = held.held("a");
    piece.clear();
  }
  EXPECT_LT(least, gathered * 2 / 3) << "the first choice is given back while the second one leaves";
  whole.reset();
  EXPECT_EQ(held.held("a"), 0U);
}

TEST_F(WholeAnswerTest, AnAnswerBeyondTheLimitIsTooLarge) {
  auto whole = answer();
  Result<void> held_all;
  for (int i = 0; held_all && i < 100'000; ++i) held_all = gather(*whole, 0, i, 20);
  ASSERT_FALSE(held_all);
  EXPECT_EQ(held_all.error().code, ErrorCode::invalid_value);
  EXPECT_THAT(held_all.error().message, HasSubstr("1MiB (limits.held_bytes)"));
  EXPECT_LE(held.held("a"), kLimit);
  whole.reset();
  EXPECT_EQ(held.held("a"), 0U);
}

TEST_F(WholeAnswerTest, AnAnswerBesideOthersWaitsForThem) {
  route::HeldBytes::Share others = held.share_of("a");
  ASSERT_TRUE(others.grow(kLimit - 4096, kLimit));
  const auto whole = answer();
  ASSERT_TRUE(gather(*whole, 0, 0, 0));
  Result<void> held_all;
  for (int i = 0; held_all && i < 1000; ++i) held_all = gather(*whole, 0, i, 20);
  ASSERT_FALSE(held_all);
  EXPECT_EQ(held_all.error().code, ErrorCode::rate_limited);
  EXPECT_THAT(held_all.error().message,
              HasSubstr("holds 1MiB of the app's request bodies and unread answers"));
  others.shrink_to(0);
  EXPECT_TRUE(gather(*whole, 0, 1, 20));
}

}  // namespace
}  // namespace flyball::api
