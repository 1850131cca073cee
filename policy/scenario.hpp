// A machine and a load that exist only in words ("one RTX 4090, chat, 8K"), as facts. docs/advise.md lists
// the words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/facts.hpp"

namespace flyball::policy {

// One row of the vocabulary: what may be written, and the facts it sets, as docs/advise.md shows them.
struct ScenarioWord {
  std::string_view words;   // alternatives with a bar between; # is a number
  std::string_view facts;   // "name=value", with a blank between; # is that number, ~= a guess
  std::string_view remark;  // "" or what else there is to know
};
std::span<const ScenarioWord> scenario_vocabulary();

// A model by name, where the size does not stand in the words: "tinyllama".
struct ScenarioModel {
  std::string_view names;       // alternatives with a bar between
  std::int64_t parameters = 0;  // 0: the name has several sizes
  bool moe = false;
  std::string_view architecture = {};  // as its files name it, where the name settles it
};
std::span<const ScenarioModel> scenario_models();

// How weights are packed, by the names that files carry.
struct ScenarioQuantization {
  std::string_view names;  // alternatives with a bar between
  std::string_view name;   // value of model.quantization; "" for none
  double bits = 0;         // per weight, scales included
  bool gguf = false;       // only GGUF files have it
};
std::span<const ScenarioQuantization> scenario_quantizations();

// Words that say nothing and are not worth naming: "a", "with", "please".
bool is_filler(std::string_view word);

// Source of a fact that the words say outright.
inline constexpr const char* kScenarioWords = "words";

// Bits per weight where no quantization is said: 4 bits, and scales.
inline constexpr double kUsualBits = 4.5;

// How a text was read.
struct Reading {
  struct Phrase {
    std::string words;  // as they were written
    std::string facts;  // "hardware.gpu.vendor=nvidia model.moe=true", or a remark
  };
  struct Model {
    std::string words;
    std::int64_t parameters = 0;
    double bits = kUsualBits;
    std::int64_t count = 1;  // "two 32B models"
  };
  std::vector<Phrase> understood;  // in the text's order
  std::vector<std::string> skipped;
  std::vector<std::string> notes;    // sentences: contradictions, corrected spelling, several apps
  std::vector<std::string> systems;  // ids of the engine catalogue that are named
  std::vector<std::string> classes;  // of work, each that is named: "chat", "embedding"
  std::vector<std::string> topics;   // work that no fact describes: "reranking"
  std::vector<std::string> oses;     // values of hardware.os, in the text's order
  std::vector<Model> models;         // those of known size
  std::string generation;            // of the NVIDIA GPU that is named, "ampere"; "" where not known
  std::vector<std::string> words;    // all of them, in small letters
  bool undecided = false;            // contradictory about whether there is a GPU
};

// Whether the words have this phrase in them: "isn't in MLX".
bool mentions(const Reading& reading, std::string_view phrase);

// Sets the facts that the words stand for, source "words", or "guess" (of "laptop": no GPU) for what other
// words and facts may say better. Words that say nothing are listed as skipped; of words that contradict each
// other the first hold. invalid_value: the text is too long.
Result<Reading> read_scenario(std::string_view words, Facts& facts);

// What a description leaves open and a machine never does, source "default": the other counts of GPUs, one
// memory or two, one machine, a chat that may go anywhere; and which of this release's engines such a machine
// would have. Derived facts last. invalid_value: counts of GPUs that contradict each other.
Result<void> complete_scenario(Facts& facts);

}  // namespace flyball::policy
