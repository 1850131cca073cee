// A schema of any bytes, or a pattern: it becomes a grammar within the limits or a typed error, the same one
// each time; the grammar has no node without a word.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backends/grammar/json_schema.hpp"
#include "backends/grammar/regex.hpp"
#include "config/json_reader.hpp"
#include "tests/fuzz/check_grammar.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Enough for small schemas of every keyword, and few enough for many runs a second.
constexpr std::uint64_t kSteps = 300'000, kPatternSteps = 30'000;

void compile_pattern(std::string_view pattern) {
  using namespace flyball;
  using namespace flyball::grammar;
  for (const auto spelling : {Spelling::utf8, Spelling::json_string}) {
    Fuel fuel(kPatternSteps);
    const auto dfa =
        from_regex(pattern, {.match = RegexOptions::Match::search, .spelling = spelling}, {&fuel, 5'000});
    if (!dfa) {
      require(!dfa.error().message.empty());
      continue;
    }
    require(dfa->states.size() <= 5'000);
    for (const auto& edge : dfa->edges) require(edge.from <= edge.to && edge.next < dfa->states.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flyball;
  using namespace flyball::grammar;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  compile_pattern(text);
  const auto schema = read_packed(text);
  if (!schema) return 0;
  const Limits limits{.steps = kSteps};
  Fuel fuel(limits.steps), again(limits.steps);
  const auto grammar = from_json_schema(schema->view(), {}, limits, fuel);
  const auto same = from_json_schema(schema->view(), {}, limits, again);
  require(grammar.has_value() == same.has_value() && fuel.left() == again.left());
  if (!grammar) {
    require(!grammar.error().message.empty() && grammar.error().where == same.error().where);
    return 0;
  }
  require(grammar->nodes() == same->nodes());
  check_grammar(*grammar, limits);
  return 0;
}
