#include "backends/model/mlx_directory.hpp"

#include <system_error>
#include <utility>

namespace flyball::model {
namespace {

// Generous to every published model; a tokenizer.json of 262,144 tokens has 34 MB, an index of 207,000
// tensors 21 MB.
constexpr std::size_t kMaxConfigBytes = 16'777'216, kMaxTokenizerBytes = 134'217'728,
                      kMaxIndexBytes = 134'217'728;

constexpr const char* kConfig = "config.json";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool is_absent(const std::filesystem::path& path) {
  std::error_code error;  // what cannot be told to be absent is opened
  return !std::filesystem::exists(path, error) && !error;
}

// A GGUF file that lies there: somebody may have meant it.
std::string first_gguf_in(const std::filesystem::path& directory) {
  std::string first;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(".gguf") && (first.empty() || name < first)) first = name;
  }
  return first;
}

// All that is missing at once: who named the wrong directory is not led from file to file.
Result<void> check_files(const std::filesystem::path& directory) {
  std::string missing;
  const auto miss = [&](const std::string& name) { missing += (missing.empty() ? "" : ", ") + name; };
  for (const char* name : {kConfig, kTokenizer})
    if (is_absent(directory / name)) miss(name);
  if (is_absent(directory / kWeights) && is_absent(directory / kIndex)) miss(kWeights);
  if (missing.empty()) return {};
  const std::string gguf = first_gguf_in(directory);
  return fail(ErrorCode::io_error,
              "this directory is no model: there is no " + missing +
                  "; a model directory holds config.json, tokenizer.json and model.safetensors (or "
                  "several *.safetensors and their model.safetensors.index.json)" +
                  (gguf.empty() ? "" : "; a GGUF model is one file, such as " + gguf + " there"),
              {}, directory.string());
}

Result<MappedFile> map_text(const std::filesystem::path& path, std::size_t limit, bool optional) {
  if (optional && is_absent(path)) return MappedFile();
  auto file = MappedFile::open(path);
  if (file && file->bytes().size() > limit)
    return fail(ErrorCode::model_invalid,
                path.filename().string() + " has " + std::to_string(file->bytes().size()) +
                    " bytes, the limit is " + std::to_string(limit),
                {}, path.string());
  return file;
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

Result<MlxDirectory> map_mlx_directory(const std::filesystem::path& path) {
  if (auto all_there = check_files(path); !all_there) return pass(all_there);
  MlxDirectory out;
  std::string_view index;
  struct Text {
    const char* name;
    std::string_view& text;
    std::size_t limit;
    bool optional;
  };
  const Text texts[] = {{kConfig, out.files.config, kMaxConfigBytes, false},
                        {kTokenizer, out.files.tokenizer, kMaxTokenizerBytes, false},
                        {"tokenizer_config.json", out.files.tokenizer_config, kMaxConfigBytes, true},
                        {"generation_config.json", out.files.generation_config, kMaxConfigBytes, true},
                        {"chat_template.jinja", out.files.chat_template, kMaxConfigBytes, true},
                        {kIndex, index, kMaxIndexBytes, true}};
  for (const Text& each : texts) {
    auto file = map_text(path / each.name, each.limit, each.optional);
    if (!file) return pass(file);
    each.text = text_of(*file);
    out.texts.push_back(std::move(*file));
  }
  std::vector<std::string> names = {kWeights};
  if (!index.empty()) {
    auto listed = read_mlx_index(index);
    if (!listed) return pass(listed);
    names = std::move(*listed);
  }
  for (std::string& name : names) {
    auto shard = MappedFile::open(path / name);
    if (!shard) return pass(shard);
    out.files.shards.push_back({std::move(name), shard->bytes()});
    out.shards.push_back(std::move(*shard));
  }
  return out;
}

}  // namespace flyball::model
