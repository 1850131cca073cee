// The output of `flyball models find`, for a person and for a program.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/cli/found_models.hpp"
#include "daemon/cli/local_servers.hpp"
#include "daemon/cli/model_entry.hpp"
#include "daemon/discover/found.hpp"
#include "daemon/discover/reach.hpp"

namespace flyball::cli {

// A model of the configuration whose file is not there any more.
struct GoneModel {
  std::string id;
  std::filesystem::path path;
  std::string place;  // file:line:column of its entry
};

struct Found {
  std::vector<discover::StoreContents> stores;  // those in which anything lies
  std::vector<ExaminedModel> models;
  std::vector<GoneModel> gone;
  std::vector<LocalServer> servers;
  std::optional<discover::Reader> reader;  // whose access to the models was judged
};

// The models that may be added to the configuration, in the order of `models`.
std::vector<const ExaminedModel*> candidates_of(const Found& found);

// numbered: candidates have their place in candidates_of(), from 1.
void print_text(const Found& found, bool numbered);
void print_json(const Found& found, const std::optional<WrittenModels>& written);

// "chmod o+x /home/me && chmod o+r /home/me/a.gguf", behind sudo where this user may not make the changes;
// "": no shell could be given these names.
std::string mend_command(const std::vector<discover::Closing>& closed);

}  // namespace flyball::cli
