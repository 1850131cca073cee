// The tokens of kept prefixes, counted with the model's own tokenizer and chat template. Another process
// reads the model file: it is untrusted, and so is its template.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/model/model_file.hpp"
#include "config/app_manifest.hpp"
#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/probe/model_files.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

struct KeptText {
  const config::AppManifest* app = nullptr;
  const config::KeptPrefix* kept = nullptr;
};

// The number of each prefix's tokens with this model, or why it has none: context_length_exceeded,
// template_error. The error of all: the process could not count.
Result<std::vector<Result<std::uint64_t>>> count_kept_tokens(const config::ModelEntry& model,
                                                             std::uint32_t context,
                                                             std::span<const KeptText> texts);
// The other process's part: reads prefixes from stdin, a line each, and writes their counts to stdout.
int answer_kept_tokens(const model::ModelFile& file, std::uint32_t context);

struct KeptFindings {
  std::vector<Error> errors;
  std::vector<policy::LintFinding> warnings;
};
// Prefixes that no engine would keep. files: of the configuration's models that could be read.
KeptFindings check_kept_prefixes(const config::Config& config, const std::vector<config::AppManifest>& apps,
                                 const probe::ModelFileInfos& files);

}  // namespace flyball::cli
