// mask_walks FILE WALKS [SEED]: FILE holds a JSON array of {"schema": ...}, one a line. Prints one line of
// JSON for each of them: {"error": [code, where, message]}, or {"documents": [...]} with the documents of
// random walks along masks. At most WALKS documents; walks that do not end within 300 tokens are left out.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "backends/constrain/mask.hpp"
#include "backends/grammar/json_schema.hpp"
#include "config/json_reader.hpp"
#include "tests/backends/constrain/mask_walk.hpp"
#include "tests/backends/constrain/vocabularies.hpp"

namespace flyball::constrain {
namespace {

using testing::Tokens;

constexpr std::size_t kLongest = 300;  // tokens of a walk

struct Words {
  Tokens tokens;
  std::shared_ptr<const Vocabulary> vocabulary;
};

Result<nlohmann::json> documents(std::string_view text, const Words& words, int walks,
                                 testing::Random& random) {
  const auto packed = read_packed(text, {.depth = 66, .nodes = 200'000});
  if (!packed) return pass(packed);
  const grammar::Limits limits;
  grammar::Fuel fuel(limits.steps);
  const auto made = grammar::from_json_schema(packed->view().find("schema"), {}, limits, fuel);
  if (!made) return pass(made);
  auto program = compile(*made, fuel, limits);
  if (!program) return pass(program);
  const auto automaton = std::make_shared<Automaton>(std::make_shared<const Program>(std::move(*program)));
  Masks masks(automaton, words.vocabulary);
  auto out = nlohmann::json::array();
  for (int i = 0; i < walks; ++i) {
    const auto walk = testing::mask_walk(automaton, masks, words.tokens, random, kLongest);
    if (!walk) return pass(walk);
    if (walk->ended) out.push_back(walk->document);
  }
  return out;
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: mask_walks FILE WALKS [SEED]\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const int walks = std::atoi(argv[2]);
  testing::Random random(argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1U);
  Words words{.tokens = testing::json_tokens(random), .vocabulary = {}};
  words.tokens.forbidden.clear();  // every byte is a token, so that no mask is empty
  words.vocabulary = words.tokens.vocabulary();
  for (std::string text; std::getline(file, text);) {
    if (text.ends_with(',')) text.pop_back();
    if (!text.starts_with('{')) continue;  // the brackets of an array
    nlohmann::json line;
    if (auto made = documents(text, words, walks, random))
      line["documents"] = std::move(*made);
    else
      line["error"] = {to_string(made.error().code), made.error().where, made.error().message};
    std::printf("%s\n", line.dump(-1, ' ', true).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace flyball::constrain

int main(int argc, char** argv) {
  return flyball::constrain::run(argc, argv);
}
