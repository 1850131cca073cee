// The choice of the files of a repository that make the model a person asks for. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/error.hpp"
#include "daemon/hub/listing.hpp"
#include "daemon/hub/url.hpp"

namespace flyball::hub {

// A model of a hub: "ORG/REPO", "ORG/REPO:Q4_K_M", "ORG/REPO/FILE.gguf", each also behind "hf.co/" or as the
// address of the repository's page or of a file.
struct HubName {
  std::string repo;  // "ORG/REPO"
  std::string revision = "main";
  std::string file = {};   // within the repository; "": by quantization
  std::string quant = {};  // "": the first of kQuants that is there
  bool operator==(const HubName&) const = default;
};

// The model or file that words on a command line name; a Url is a file of any server. Addresses of
// huggingface.co are names of models at `hub`, whichever hub that is. invalid_value: neither form.
Result<std::variant<HubName, Url>> read_name(std::string_view words, const Url& hub);

struct Choice {
  enum class Kind : std::uint8_t { gguf, mlx } kind = Kind::gguf;
  std::vector<RepoFile> files;  // shards in order; of an MLX directory all that it needs
  std::string name;   // of the model: the file's without shard number and ending, or the repository's
  std::string quant;  // as the file's name spells it; "" where it says none
};

// unsupported_value, with the models that there are: none is the one asked for, several are, a shard is
// missing, or this build reads no such quantization.
Result<Choice> choose(std::span<const RepoFile> files, const HubName& wanted);

// "Q4_K_M" of "Qwen3-0.6B-Q4_K_M.gguf" or "model.q4_k_m.gguf", as written; "" where the name says none.
std::string quant_of(std::string_view file);

}  // namespace flyball::hub
