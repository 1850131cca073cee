// What model files say of themselves before an engine has loaded them. Read by child processes (`flyball
// inspect`): the daemon maps no weights, and a file that is hostile or cut off under a reader harms nobody
// else. Of the embedded model by this process itself.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "backends/backend.hpp"
#include "backends/model/model_file.hpp"
#include "config/config.hpp"
#include "config/error.hpp"
#include "daemon/fleet/file_stamp.hpp"
#include "daemon/probe/children.hpp"

namespace flyball::probe {

// By id in config.yaml: architecture, quantization, parameters, mixture_of_experts, context_length,
// weight_bytes, token_weight_bytes, kv_token_bytes, tool_template, infills, form.
using ModelFileInfos = std::map<std::string, BackendInfo>;
// The same of a file that this process has opened.
BackendInfo info_of(const model::ModelFile& file);
struct TemplateTraits {  // of the file's chat template
  bool reads_tools = false;
  AnswerForm form;
};
// nullopt: it cannot be parsed.
std::optional<TemplateTraits> template_traits(const model::ModelFile& file);
// nullopt: the vocabulary cannot be read.
std::optional<bool> has_infill_tokens(const model::ModelFile& file);

// All that BackendInfo needs of the output of `flyball inspect --json` in a child process, which nobody
// trusts, or nothing.
std::optional<BackendInfo> info_from(const ChildAnswer& answer);
// The reason that the process gives, or what became of the process. timeout: that it was asked with.
Error trouble_of(const ChildAnswer& answer, std::chrono::milliseconds timeout);

struct ModelFilesRead {
  ModelFileInfos infos;
  // Why the file of a model that `infos` lacks could not be read, by the same id; the message is for the
  // operator. io_error: it is absent or hidden. model_invalid, model_unsupported: no engine can serve it as
  // it is. model_unavailable: it was not read in time, or the process that reads it failed, so nothing is
  // known of it.
  std::map<std::string, Error> troubles;
  fleet::FileStamps stamps;  // of the files of `infos`, as they were when those were read
};

class ModelFiles {
 public:
  explicit ModelFiles(std::filesystem::path program = "/proc/self/exe",
                      std::chrono::milliseconds timeout = std::chrono::seconds(5))
      : program_(std::move(program)), timeout_(timeout) {}

  // Reads those that were not read yet or have changed since; blocks for at most the timeout.
  ModelFilesRead read(std::span<const config::ModelEntry> models);

 private:
  struct Kept {
    std::uint64_t stamp = 0;
    BackendInfo info;
  };
  std::filesystem::path program_;
  std::chrono::milliseconds timeout_;
  std::map<std::filesystem::path, Kept> kept_;
  std::optional<BackendInfo> embedded_;
};

}  // namespace flyball::probe
