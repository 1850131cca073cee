#include "backends/model/mlx_directory.hpp"

#include <system_error>
#include <utility>

namespace flyball::model {
namespace {

// Generous to every published model; a tokenizer.json of 262,144 tokens has 34 MB.
constexpr std::size_t kMaxConfigBytes = 16'777'216, kMaxTokenizerBytes = 134'217'728;

Result<MappedFile> map_text(const std::filesystem::path& path, std::size_t limit, bool optional) {
  std::error_code error;  // what cannot be told to be absent is opened
  if (optional && !std::filesystem::exists(path, error) && !error) return MappedFile();
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
  MlxDirectory out;
  std::string_view index;
  struct Text {
    const char* name;
    std::string_view& text;
    std::size_t limit;
    bool optional;
  };
  const Text texts[] = {{"config.json", out.files.config, kMaxConfigBytes, false},
                        {"tokenizer.json", out.files.tokenizer, kMaxTokenizerBytes, false},
                        {"tokenizer_config.json", out.files.tokenizer_config, kMaxConfigBytes, true},
                        {"generation_config.json", out.files.generation_config, kMaxConfigBytes, true},
                        {"chat_template.jinja", out.files.chat_template, kMaxConfigBytes, true},
                        {"model.safetensors.index.json", index, kMaxConfigBytes, true}};
  for (const Text& each : texts) {
    auto file = map_text(path / each.name, each.limit, each.optional);
    if (!file) return std::unexpected(std::move(file.error()));
    each.text = text_of(*file);
    out.texts.push_back(std::move(*file));
  }
  std::vector<std::string> names = {"model.safetensors"};
  if (!index.empty()) {
    auto listed = read_mlx_index(index);
    if (!listed) return std::unexpected(std::move(listed.error()));
    names = std::move(*listed);
  }
  for (std::string& name : names) {
    auto shard = MappedFile::open(path / name);
    if (!shard) return std::unexpected(std::move(shard.error()));
    out.files.shards.push_back({std::move(name), shard->bytes()});
    out.shards.push_back(std::move(*shard));
  }
  return out;
}

}  // namespace flyball::model
