// A grammar from the fuzzer's bytes, behind a NUL byte a word for it. Nothing may crash, hang or leak, and a
// mask says of every token what the matcher says of its bytes.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/constrain/forced.hpp"
#include "backends/constrain/mask.hpp"
#include "backends/grammar/gbnf.hpp"
#include "config/utf8.hpp"

namespace {

using namespace flyball;

const std::vector<std::string>& tokens() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"ab",
                             "abc",
                             "aaaaaaaa",
                             "\"a",
                             "a\"",
                             "\"}",
                             "\":",
                             "\",\"",
                             "]]",
                             "}}",
                             "))))",
                             "  ",
                             "\n ",
                             "12",
                             "true",
                             "\xC3\xA9",
                             "\xC3\xA9\"",
                             "\xF0\x9F\x98\x80",
                             "some words of text",
                             "ab\xE4"}) {
      out.emplace_back(text);
    }
    return out;
  }();
  return all;
}

void check(bool holds) {
  if (!holds) std::abort();
}

// One sentence of text, and no copy of the source: the names in it are cut.
bool is_message(const Error& error) {
  return !error.message.empty() && error.message.size() <= 600 && is_utf8(error.message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::string_view> views(tokens().begin(), tokens().end());
  static const auto vocabulary =
      std::make_shared<const constrain::Vocabulary>(views, std::array{3U}, std::array{0U});

  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t split = std::min(bytes.find('\0'), bytes.size());
  const std::string_view word = bytes.substr(std::min(split + 1, bytes.size()));

  const grammar::Limits limits{.steps = 300'000, .memory = 1 << 20, .depth = 32, .text = 1 << 14};
  grammar::Fuel fuel(limits.steps);
  const auto grammar = grammar::read_gbnf(bytes.substr(0, split), fuel, limits);
  if (!grammar) {
    check(is_message(grammar.error()) && !grammar.error().where.empty());
    return 0;
  }
  auto program = constrain::compile(*grammar, fuel, limits);
  if (!program) {
    check(is_message(program.error()));
    return 0;
  }
  check(program->memory() <= 2 * limits.memory);
  const auto automaton = std::make_shared<constrain::Automaton>(
      std::make_shared<const constrain::Program>(std::move(*program)),
      constrain::AutomatonLimits{.memory = 256 << 10, .configurations = 200, .frames = 2'000});
  auto matcher = constrain::Matcher::begin(automaton);
  if (!matcher) return 0;
  constrain::Masks masks(automaton, vocabulary, {.memory = 64 << 10, .work = 20'000});
  std::vector<std::uint64_t> bits(vocabulary->words());
  for (std::size_t i = 0; i < std::min<std::size_t>(word.size(), 12); ++i) {
    const auto count = masks.fill(*matcher, bits);
    if (!count) return 0;
    for (std::size_t token = 0; token < tokens().size(); ++token) {
      bool expected = token == 0 && matcher->can_end();
      if (token != 0 && token != 3) {
        constrain::Matcher fork = *matcher;
        const auto taken = fork.accept(tokens()[token]);
        if (!taken) {  // over a limit by itself; the mask looks at counts from afar
          check(taken.error().code == ErrorCode::unsupported_feature &&
                automaton->met() != constrain::Overflow::none);
          continue;
        }
        expected = *taken;
      }
      check(((bits[token / 64] >> token % 64 & 1U) != 0) == expected);
    }
    check(matcher->takes_no_bytes() == automaton->bytes_after(matcher->now()).none());
    const std::string next = constrain::forced(*matcher, 8).bytes;
    if (!next.empty()) {
      constrain::Matcher fork = *matcher;
      const auto taken = fork.accept(next);
      check(!taken || *taken);
    }
    const auto taken = matcher->accept(word.substr(i, 1));
    if (!taken || !*taken) return 0;
    if (i % 3 == 2) {
      constrain::Matcher back = *matcher;
      check(back.rollback(2) && !back.rollback(i));
    }
  }
  return 0;
}
