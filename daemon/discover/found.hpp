// Model files that lie in a store of another tool or in a folder, before anything has read them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::discover {

enum class StoreKind : std::uint8_t { ollama, lm_studio, hugging_face, folder };
std::string_view to_string(StoreKind kind) noexcept;  // "Ollama"
std::string_view id_of(StoreKind kind) noexcept;      // "ollama", in JSON

struct FoundModel {
  std::string name;                // as its store calls it: "qwen3:8b", "Qwen/Qwen3-0.6B-GGUF/q8_0.gguf"
  std::string stem;                // the part of the name that is the model's own: "qwen3:8b", "q8_0"
  std::filesystem::path path;      // for config.yaml: the file, its first shard, or the MLX directory
  std::uint64_t bytes = 0;         // of all its files
  std::vector<std::string> notes;  // facts that its store tells and its file does not
};

// A part of a store that is no model, and why.
struct Obstacle {
  enum class Kind : std::uint8_t {
    unfinished,   // a download that has not ended
    dangling,     // a link to nothing
    damaged,      // a manifest that contradicts what is there, or cannot be read
    closed,       // this process may not look into it
    unsupported,  // a model in a form that no engine here reads
    cut           // there is more than the limit, and the rest was not looked at
  };
  Kind kind = Kind::unfinished;
  std::filesystem::path path;
  std::string name;    // the model's, where it is known
  std::string what;    // a sentence's end: "lacks 1.2 GiB of 4.9 GiB"
  std::string remedy;  // a command or a sentence; "": none is known
};
std::string_view to_string(Obstacle::Kind kind) noexcept;  // "unfinished"

struct StoreContents {
  StoreKind kind = StoreKind::folder;
  std::filesystem::path root;
  std::vector<FoundModel> models;   // by name
  std::vector<Obstacle> obstacles;  // by path
};

}  // namespace flyball::discover
