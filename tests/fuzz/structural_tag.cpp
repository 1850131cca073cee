// A structural tag of any bytes: it becomes a grammar within the limits or a typed error, the same one each
// time.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backends/grammar/structural_tag.hpp"
#include "config/json_reader.hpp"
#include "tests/fuzz/check_grammar.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Enough for small tags of every format, and few enough for many runs a second.
constexpr std::uint64_t kSteps = 500'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flyball;
  using namespace flyball::grammar;
  const auto tag = read_packed(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!tag || !tag->view().is_object()) return 0;
  const Limits limits{.steps = kSteps};
  Fuel fuel(limits.steps), again(limits.steps);
  const auto grammar = from_structural_tag(tag->view(), {}, limits, fuel);
  const auto same = from_structural_tag(tag->view(), {}, limits, again);
  require(grammar.has_value() == same.has_value() && fuel.left() == again.left());
  if (!grammar) {
    require(!grammar.error().message.empty() && grammar.error().where == same.error().where);
    return 0;
  }
  require(grammar->nodes() == same->nodes());
  check_grammar(*grammar, limits);
  return 0;
}
