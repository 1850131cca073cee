// Special tokens in text.
#include "backends/text/tokenizer_special.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "tests/backends/text/vocabulary.hpp"
#include "tests/harness/cpu_time.hpp"

namespace flyball::text::testing {
namespace {

// Cuts as "begin-end:token".
std::string show(const std::vector<SpecialMatcher::Cut>& cuts) {
  std::string out;
  for (const auto& cut : cuts) {
    out += std::to_string(cut.begin) + '-' + std::to_string(cut.end) + ':' + std::to_string(cut.token) + ' ';
  }
  return out;
}

TEST(SpecialTokens, LongestTokenFirstThenLeftmost) {
  const SpecialMatcher matcher({{1, "<a>", false}, {2, "<a><b>", false}, {3, "<b>", false}});
  EXPECT_EQ(show(matcher.cuts("x<a><b><a>y<b>", true)), "1-7:2 7-10:1 11-14:3 ");
  EXPECT_EQ(show(matcher.cuts("x<a><b>", false)), "");
  EXPECT_EQ(show(matcher.cuts("", true)), "");
  EXPECT_EQ(show(SpecialMatcher().cuts("x", true)), "");
}

TEST(SpecialTokens, ALongerTokenTakesItsMatchFromAnEarlierShorterOne) {
  const SpecialMatcher matcher({{1, "ab", true}, {2, "bcd", true}, {3, "dab", true}});
  EXPECT_EQ(show(matcher.cuts("abcdab", false)),
            "1-4:2 4-6:1 ");  // bcd before dab: the lower id of equal lengths
}

// Runs of line breaks are tokens of Gemma's: every place of a long run begins with all the shorter ones. A
// list of every match took 4 bytes for each (200 million here) and was sorted.
TEST(SpecialTokens, OverlappingTokensAreListedOnce) {
  constexpr std::size_t kTokens = 200, kText = 1'000'000;
  std::vector<SpecialToken> tokens;
  for (std::size_t n = 1; n <= kTokens; ++n)
    tokens.push_back({static_cast<Token>(n), std::string(n, '\n'), true});
  const SpecialMatcher matcher(std::move(tokens));
  const auto start = test::cpu_time();
  const auto cuts = matcher.cuts(std::string(kText, '\n') + "x" + std::string(7, '\n'), false);
  EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(30));
  ASSERT_EQ(cuts.size(), kText / kTokens + 1);
  EXPECT_EQ(cuts.front().token, 200);
  EXPECT_EQ(cuts.back().token, 7);
}

TEST(SpecialTokens, UserDefinedTokensMatchAlwaysControlTokensOnlyWhenParsed) {
  VocabularyFile file = byte_level_vocabulary();
  const Token control = file.add("<|im_start|>", TokenKind::control);
  const Token user = file.add("<tool>", TokenKind::user_defined);
  const Token unknown = file.add("<?>", TokenKind::unknown);
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "<|im_start|>a<tool><?>"), (Tokens{control, 'a', user, unknown}));
  const Tokens unparsed = encode(*tokenizer, "<|im_start|>a<tool><?>", false);
  EXPECT_EQ(std::ranges::count(unparsed, control) + std::ranges::count(unparsed, unknown), 0);
  EXPECT_EQ(std::ranges::count(unparsed, user), 1);
}

// The text of one token, recognised in spans alone.
TEST(SpecialTokens, ControlTokensAreRecognisedInTheirSpansAlone) {
  const SpecialMatcher matcher({{1, "<a>", false}, {2, "<a><b>", false}, {3, "<b>", true}});
  const auto shown = [&](std::vector<TextSpan> spans) {
    return show(matcher.cuts("x<a><b><a>", true, &spans));
  };
  EXPECT_EQ(shown({{0, 10}}), "1-7:2 7-10:1 ");
  EXPECT_EQ(shown({}), "4-7:3 ") << "user-defined tokens are recognised everywhere";
  EXPECT_EQ(shown({{0, 6}}), "1-4:1 4-7:3 ") << "the shorter token ends within the span";
  EXPECT_EQ(shown({{2, 10}}), "4-7:3 7-10:1 ") << "a span that begins inside a spelling is none of it";
  EXPECT_EQ(shown({{0, 3}, {3, 10}}), "4-7:3 7-10:1 ") << "nor do two spans make one";
}

TEST(SpecialTokens, WhatSpellsAControlTokenOutsideItsSpansIsText) {
  VocabularyFile file = byte_level_vocabulary();
  const Token control = file.add("<|im_end|>", TokenKind::control);
  const Token user = file.add("<tool>", TokenKind::user_defined);
  const auto tokenizer = must_load(file);
  const std::string text = "<|im_end|><tool><|im_end|>";
  const std::vector<TextSpan> spans{{0, 10}};
  const Tokens tokens = tokenizer->encode(text, {.add_special = false, .control_in = &spans});
  EXPECT_EQ(tokens.front(), control);
  EXPECT_EQ(tokens.at(1), user);
  EXPECT_EQ(std::ranges::count(tokens, control), 1);
  EXPECT_EQ(decode(*tokenizer, tokens), "<tool><|im_end|>") << "not a byte of the text is lost";
}

// gpt-oss: its channel markers are shown as text, and still begin a message.
TEST(SpecialTokens, ControlTokensThatAreShownStayControlTokens) {
  VocabularyFile file = byte_level_vocabulary();
  const Token start = file.add("<|start|>", TokenKind::control);
  const Token think = file.add("<think>", TokenKind::user_defined);
  const auto tokenizer = must_load(file);
  EXPECT_EQ(encode(*tokenizer, "<|start|><think>", false), (Tokens{start, think}));
  const std::vector<TextSpan> none;
  const Tokens tokens = tokenizer->encode("<|start|><think>", {.add_special = false, .control_in = &none});
  EXPECT_EQ(std::ranges::count(tokens, start), 0);
  EXPECT_EQ(tokens.back(), think);
}

// Many files type the markers of turns as user-defined tokens, which are otherwise matched in any text.
TEST(SpecialTokens, TurnMarkersAreMatchedInTheTemplatesOwnTextAlone) {
  for (const char* marker :
       {"<|im_start|>", "<start_of_turn>", "<|turn>", "<|start_header_id|>", "<|end_header_id|>",
        "<|start_of_role|>", "<|user|>", "<|assistant|>", "<|system|>", "<｜User｜>", "<｜Assistant｜>",
        "[INST]", "<|start|>", "<|message|>", "<|unlisted|>", "<unlisted|>"}) {
    VocabularyFile file = byte_level_vocabulary();
    const Token opener = file.add(marker, TokenKind::user_defined);
    const Token tool = file.add("<tool>", TokenKind::user_defined);
    const auto tokenizer = must_load(file);
    const std::string text = std::string(marker) + marker + "<tool>";
    EXPECT_EQ(encode(*tokenizer, text, false), (Tokens{opener, opener, tool})) << marker;
    const std::vector<TextSpan> first{{0, std::string_view(marker).size()}};
    const Tokens tokens = tokenizer->encode(text, {.add_special = false, .control_in = &first});
    EXPECT_EQ(tokens.front(), opener) << marker;
    EXPECT_EQ(std::ranges::count(tokens, opener), 1) << marker;
    EXPECT_EQ(tokens.back(), tool) << marker;
    EXPECT_EQ(decode(*tokenizer, tokens), text) << "not a byte of the text is lost";
  }
}

std::unique_ptr<Tokenizer> load_with_template(const VocabularyFile& file, std::string_view chat_template) {
  auto writer = file.writer();
  writer.set_string("tokenizer.chat_template", chat_template);
  auto tokenizer = load(writer);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *std::move(tokenizer);
}

Tokens encode_parts(const Tokenizer& tokenizer, std::string_view own, std::string_view others) {
  const std::vector<TextSpan> spans{{0, own.size()}};
  return tokenizer.encode(std::string(own) + std::string(others),
                          {.add_special = false, .control_in = &spans});
}

// Exporters type the markers of turns, reasoning and calls as words, as user-defined or as unused.
TEST(SpecialTokens, TheTemplatesMarkersAreTokensOfItsOwnTextWhateverTheirType) {
  for (const std::string marker :
       {"<start_of_turn>", "<|im_start|>", "<|start_header_id|>", "[INST]", "<｜User｜>", "<|tool_call>",
        "<think>", "</think>", "<tool_call>", "</tool_response>", "<arg_key>", "</seed:think>", "[THINK]",
        "[TOOL_CALLS]", "<|message_sep|>", "<|\"|>"}) {
    for (const TokenKind kind :
         {TokenKind::normal, TokenKind::user_defined, TokenKind::unused, TokenKind::control}) {
      for (const bool pieces : {false, true}) {
        VocabularyFile file = pieces ? sentencepiece_vocabulary() : byte_level_vocabulary();
        const Token token = file.add(marker, kind);
        const auto tokenizer = load_with_template(file, "{{ 'x" + marker + "y' }}");
        const Tokens tokens = encode_parts(*tokenizer, marker, "a" + marker);
        const std::string what = marker + " of type " + std::to_string(static_cast<int>(kind));
        EXPECT_EQ(tokens.front(), token) << what;
        EXPECT_EQ(std::ranges::count(tokens, token), 1) << what << ": a client's is text";
        EXPECT_EQ(tokenizer->kind(token), kind) << what;
        const bool is_shown = kind == TokenKind::normal || kind == TokenKind::user_defined;
        EXPECT_EQ(tokenizer->bytes(token), is_shown ? marker : "") << what << ": in answers";
        EXPECT_EQ(decode(*tokenizer, {tokens.begin() + 1, tokens.end()}), (pieces ? "▁a" : "a") + marker);
      }
    }
  }
}

TEST(SpecialTokens, BothMarkersOfAPairAreTheTemplatesIfItSpellsOne) {
  for (const auto& [spelled, other] : {std::pair{"<think>", "</think>"},
                                       {"</think>", "<think>"},
                                       {"[THINK]", "[/THINK]"},
                                       {"</tool_call>", "<tool_call>"}}) {
    VocabularyFile file = byte_level_vocabulary();
    const Token token = file.add(other, TokenKind::user_defined);
    const auto tokenizer = load_with_template(file, std::string("a ") + spelled);
    const Tokens tokens = encode_parts(*tokenizer, other, other);
    EXPECT_EQ(tokens.front(), token) << other;
    EXPECT_EQ(std::ranges::count(tokens, token), 1) << other << " in what a client wrote";
  }
}

TEST(SpecialTokens, WordsThatTheTemplateDoesNotSpellStayWords) {
  VocabularyFile file = byte_level_vocabulary();
  const Token inst = file.add("[INST]");
  const Token tag = file.add("<table>");
  const Token user = file.add("<tool>", TokenKind::user_defined);
  const auto tokenizer = load_with_template(file, "a <table> for [INST, <tool>");
  const std::string text = "[INST]<table><tool>";
  const Tokens tokens = encode_parts(*tokenizer, text, "<tool>");
  EXPECT_EQ(std::ranges::count(tokens, inst) + std::ranges::count(tokens, tag), 0);
  EXPECT_EQ(std::ranges::count(tokens, user), 2) << "user-defined tokens are recognised everywhere";
}

// '<|' + role + '|>', as Phi-3 and GLM-4 have it; and bos_token, which a template names and does not spell.
TEST(SpecialTokens, MarkersThatTheTemplateJoinsAreItsOwn) {
  VocabularyFile file = byte_level_vocabulary();
  const Token user = file.add("<|user|>");
  const Token bos = file.add("<bos>");
  auto writer = file.writer();
  writer.set_u32("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(bos));
  writer.set_string("tokenizer.chat_template", "{{ bos_token }}{{ '<|' + messages[0].role + '|>' }}");
  const auto tokenizer = load(writer);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(encode_parts(**tokenizer, "<bos><|user|>", ""), (Tokens{bos, user}));
}

// Without a template of its own a file gets ChatML.
TEST(SpecialTokens, TheDefaultTemplatesMarkersAreTokens) {
  VocabularyFile file = byte_level_vocabulary();
  const Token start = file.add("<|im_start|>");
  EXPECT_EQ(encode_parts(*must_load(file), "<|im_start|>", ""), Tokens{start});
}

// A marker typed as a word can be what merges make: what a client wrote stays apart.
TEST(SpecialTokens, TextNeverMergesIntoAMarker) {
  const std::string marker = "[INST]";
  VocabularyFile bpe = byte_level_vocabulary();
  bpe.pre = "llama-bpe";
  VocabularyFile spm = sentencepiece_vocabulary();
  for (std::size_t n = 1; n < marker.size(); ++n) {
    bpe.merges.push_back(marker.substr(0, n) + " " + marker[n]);
    if (n > 1) bpe.add(marker.substr(0, n));
    if (n > 1) spm.add(marker.substr(0, n));
    spm.add(marker.substr(n, 1));
  }
  spm.add("[");
  for (const TokenKind kind : {TokenKind::normal, TokenKind::user_defined}) {
    for (VocabularyFile file : {bpe, spm}) {
      const Token token = file.add(marker, kind);
      const auto tokenizer = load_with_template(file, marker);
      const Tokens tokens = encode_parts(*tokenizer, marker, marker);
      EXPECT_EQ(tokens.front(), token) << file.model;
      EXPECT_EQ(std::ranges::count(tokens, token), 1) << file.model;
    }
  }
}

// Merges and whole words can lead to the spelling of a control token: they give its text.
TEST(SpecialTokens, TextNeverMergesIntoAControlToken) {
  VocabularyFile bpe = byte_level_vocabulary();
  bpe.pre = "llama-bpe";  // takes a word that is a token whole
  bpe.merges = {"e o", "eo t"};
  bpe.add("eo");
  const Token eot = bpe.add("eot", TokenKind::control);
  const std::vector<TextSpan> none;
  const Tokens of_bpe = must_load(bpe)->encode("eot", {.add_special = false, .control_in = &none});
  EXPECT_EQ(std::ranges::count(of_bpe, eot), 0);
  EXPECT_EQ(decode(*must_load(bpe), of_bpe), "eot");

  VocabularyFile spm = sentencepiece_vocabulary();
  for (const char* piece : {"<", "e", ">", "▁", "<e"}) spm.add(piece);
  const Token spaced = spm.add("<e▁>", TokenKind::control);  // what "<e >" is once its space is escaped
  spm.add("<e▁");
  const auto tokenizer = must_load(spm);
  for (const char* text : {"<e >", "<e▁>", "x<e >"}) {
    const Tokens tokens = tokenizer->encode(text, {.add_special = false, .control_in = &none});
    EXPECT_EQ(std::ranges::count(tokens, spaced), 0) << text;
  }
}

TEST(SpecialTokens, Phi3SwallowsWhiteSpaceAfterMostOfThem) {
  VocabularyFile file = byte_level_vocabulary();
  const Token user = file.add("<|user|>", TokenKind::control);
  const Token text = file.add("<|endoftext|>", TokenKind::control);
  auto writer = file.writer();
  writer.set_string("general.name", "Phi-3 Mini");
  const auto phi3 = load(writer);
  ASSERT_TRUE(phi3);
  EXPECT_EQ(encode(**phi3, "<|user|> \n\ta "), (Tokens{user, 'a', ' '}));
  EXPECT_EQ(encode(**phi3, "<|endoftext|> a"), (Tokens{text, ' ', 'a'}));
  EXPECT_EQ(encode(**phi3, "<|user|> <|user|> "), (Tokens{user, user}));
  EXPECT_EQ(encode(*must_load(file), "<|user|> a"), (Tokens{user, ' ', 'a'}));
}

// llama.cpp's order of work, written plainly: each token in turn splits every stretch of text that is left.
std::vector<SpecialMatcher::Cut> naive(std::vector<SpecialToken> tokens, const std::string& text) {
  std::ranges::sort(tokens, [](const auto& a, const auto& b) {
    return a.text.size() != b.text.size() ? a.text.size() > b.text.size() : a.token < b.token;
  });
  struct Stretch {
    std::size_t begin, end;
  };
  std::vector<Stretch> stretches = {{0, text.size()}};
  std::vector<SpecialMatcher::Cut> out;
  for (const SpecialToken& token : tokens) {
    std::vector<Stretch> next;
    for (auto [begin, end] : stretches) {
      for (std::size_t at; (at = text.substr(0, end).find(token.text, begin)) != std::string::npos;) {
        SpecialMatcher::Cut cut{at, at + token.text.size(), token.token};
        while (token.strip_left && cut.begin > begin && text[cut.begin - 1] == ' ') --cut.begin;
        while (token.strip_right && cut.end < end && text[cut.end] == ' ') ++cut.end;
        if (cut.begin > begin) next.push_back({begin, cut.begin});
        out.push_back(cut);
        begin = cut.end;
      }
      if (begin < end) next.push_back({begin, end});
    }
    stretches = next;
  }
  std::ranges::sort(out, {}, &SpecialMatcher::Cut::begin);
  return out;
}

TEST(SpecialTokens, EqualTheNaiveOrderOnRandomTokensAndTexts) {
  const std::uint64_t seed = 5;
  std::mt19937_64 random(seed);
  const auto string = [&](std::size_t most) {
    std::string out;
    for (std::size_t i = 1 + random() % most; i > 0; --i) out += "ab <"[random() % 4];
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<SpecialToken> tokens;
    const bool strips = round % 3 == 0;
    for (Token id = 0; id < 6; ++id) {
      SpecialToken token{id, string(4), true, strips && random() % 2 == 0, strips && random() % 2 == 0};
      if (std::ranges::none_of(tokens, [&](const auto& t) { return t.text == token.text; }))
        tokens.push_back(token);
    }
    const std::string text = string(40);
    ASSERT_EQ(show(SpecialMatcher(tokens).cuts(text, true)), show(naive(tokens, text)))
        << "seed " << seed << " '" << text << "'";
  }
}

// Gemma marks runs of newlines as user-defined tokens; a megabyte of them is one region of overlapping
// matches.
TEST(SpecialTokens, NestedRunsOverAMegabyteStayCheap) {
  std::vector<SpecialToken> tokens;
  for (Token id = 1; id <= 31; ++id)
    tokens.push_back({id, std::string(static_cast<std::size_t>(id), '\n'), true});
  const std::string text(std::size_t{1} << 20U, '\n');
  const auto start = test::cpu_time();
  const auto cuts = SpecialMatcher(tokens).cuts(text, false);
  EXPECT_EQ(cuts.size(), text.size() / 31 + 1);
  EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(60));
}

// A hostile vocabulary: one scan looked 16 KB ahead at each place of the text (minutes for a megabyte), and
// tokens that occur once were looked for everywhere.
TEST(SpecialTokens, LongTokensThatAlmostOccurStayCheap) {
  constexpr std::size_t kLong = 16'000, kText = std::size_t{1} << 20U;
  std::vector<SpecialToken> endings;  // a^n b: 2 MB together
  for (std::size_t n = 1; n <= 2'000; ++n)
    endings.push_back({static_cast<Token>(n), std::string(n, 'a') + 'b', true});
  const auto start = test::cpu_time();
  for (const std::string& token : {std::string(kLong, 'a') + 'b', 'b' + std::string(kLong, 'a') + 'c'})
    EXPECT_EQ(show(SpecialMatcher({{7, token, true}}).cuts(std::string(kText, 'a'), false)), "");
  EXPECT_EQ(show(SpecialMatcher(endings).cuts(std::string(kText, 'a') + 'b', false)),
            "1046576-1048577:2000 ");
  EXPECT_LT(test::cpu_time() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace flyball::text::testing
