// schema_words FILE WORDS [SEED]: FILE holds a JSON array of {"schema": ..., "texts": [...]}. For each of
// them one line of JSON: {"error": [code, where, message]}, or {"words": [...], "accepted": [...]}
// with random words of the schema's grammar and whether each of the texts is one (compact; blanks of the
// flexible form are in the words).
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

#include "backends/grammar/json_schema.hpp"
#include "config/json_reader.hpp"
#include "recognizer.hpp"
#include "sampler.hpp"

int main(int argc, char** argv) {
  using namespace flyball;
  using namespace flyball::grammar;
  if (argc < 3) {
    std::fprintf(stderr, "usage: schema_words FILE WORDS [SEED]\n");
    return 2;
  }
  std::ifstream file(argv[1]);
  const int words = std::atoi(argv[2]);
  std::mt19937 random(argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 1u);
  for (std::string text; std::getline(file, text);) {
    if (text.ends_with(',')) text.pop_back();
    if (!text.starts_with('{')) continue;  // the brackets of an array
    nlohmann::json line;
    const Limits limits;
    Fuel fuel(limits.steps);
    const auto packed = read_packed(text, {.depth = 66, .nodes = 200'000});
    const JsonView each = packed ? packed->view() : JsonView();
    const Result<Grammar> made =
        packed ? from_json_schema(each.find("schema"), {}, limits, fuel) : pass(packed);
    if (!made) {
      line["error"] = {to_string(made.error().code), made.error().where, made.error().message};
    } else {
      line["words"] = nlohmann::json::array();
      Sampler sampler(*made);
      for (int i = 0; i < words; ++i) line["words"].push_back(sampler.word(random, 10u << random() % 6));
      line["accepted"] = nlohmann::json::array();
      if (const JsonView texts = each.find("texts"))
        for (const auto [_key, value] : texts.members())
          line["accepted"].push_back(Recognizer(*made, value.text()).accepts());
      line["steps"] = limits.steps - fuel.left();
      line["memory"] = made->memory();
    }
    std::printf("%s\n", line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
  }
  return 0;
}
