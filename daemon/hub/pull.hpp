// A model from its name to its files: listing, choice, download.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/hub/choice.hpp"
#include "daemon/hub/download.hpp"

namespace flyball::hub {

// The files of a model, before the first of them is fetched.
struct PullPlan {
  std::vector<Item> items;       // the first is the one that the model is opened by
  std::filesystem::path folder;  // of an MLX directory; "": files of their own
  std::string name;              // of the model, for its id
  std::string from;              // for messages: "Qwen/Qwen3-0.6B-GGUF, Q8_0", or the address
  bool of_unknown_bytes =
      false;  // no digest is known: the files have to be models before they get their names
  std::filesystem::path model() const { return folder.empty() ? items.front().file : folder; }
  std::vector<std::filesystem::path> files() const;  // without those that an MLX directory has beside them
};

// Holds the plan to the digests that the configuration pins: a single file is expected to have its model's,
// and shards of a pinned model are not replaced. config_invalid, with the place, where the hub lists another
// digest.
Result<void> heed_pins(PullPlan& plan, const config::Config& config);

// Asks the hub for the files of a repository and chooses among them.
Result<PullPlan> plan_from_hub(const HttpSource& source, const HubName& wanted,
                               const std::filesystem::path& models_dir, const Patience& patience,
                               const Says& says);
// A file of any server; where its name is a shard's, all shards beside it. `sha256`: "" or 64 hex digits,
// which several files cannot have.
Result<PullPlan> plan_from_url(const Url& url, const std::string& sha256,
                               const std::filesystem::path& models_dir);

}  // namespace flyball::hub
