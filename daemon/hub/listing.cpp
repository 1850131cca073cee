#include "daemon/hub/listing.hpp"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "config/ascii_lower.hpp"
#include "config/json_reader.hpp"
#include "config/name_list.hpp"
#include "config/terminal_text.hpp"
#include "daemon/hub/url.hpp"

namespace flyball::hub {
namespace {

constexpr std::size_t kMaxPathBytes = 1024;

const nlohmann::json* found(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto* const value = found(object, key);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

Error listing_error(const std::string& why) {
  return Error{ErrorCode::upstream_invalid, "the hub's listing " + why, {}, {}};
}

Result<RepoFile> read_entry(const nlohmann::json& entry) {
  RepoFile file;
  file.path = text_at(entry, "path");
  if (!is_safe_path(file.path))
    return std::unexpected(listing_error("has the path " + config::quoted(terminal_text(file.path)) +
                                         ", which is refused: it could leave the folder of models"));
  const auto* const lfs = found(entry, "lfs");
  const bool large = lfs && lfs->is_object();
  const auto* const size = found(large ? *lfs : entry, "size");
  if (!size || !size->is_number_unsigned())
    return std::unexpected(listing_error("has no size for " + config::quoted(file.path)));
  file.size = size->get<std::uint64_t>();
  if (file.size > kMaxFileBytes)
    return std::unexpected(listing_error("gives " + config::quoted(terminal_text(file.path)) + " " +
                                         std::to_string(file.size) + " bytes, the limit is " +
                                         std::to_string(kMaxFileBytes)));
  const std::string oid = ascii_lower(text_at(large ? *lfs : entry, "oid"));
  if (large && !is_hex(oid, 64))
    return std::unexpected(listing_error("has no SHA-256 for " + config::quoted(file.path) + " (lfs.oid)"));
  (large ? file.sha256 : file.git_oid) = large || is_hex(oid, 40) ? oid : std::string();
  return file;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes) return false;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    if (!is_file_name(path.substr(at, slash - at))) return false;
    at = slash + 1;
  }
  return true;
}

Result<void> add_page(std::vector<RepoFile>& files, std::string_view json) {
  auto page = read_json(json, {}, "The hub's listing");
  if (!page) return std::unexpected(listing_error("cannot be read: " + page.error().message));
  if (!page->is_array())
    return std::unexpected(
        listing_error("is no JSON array: the server does not speak the Hugging Face file "
                      "API; correct hub.url in config.yaml"));
  std::vector<std::string> paths;
  for (const auto& entry : *page) {
    if (!entry.is_object()) return std::unexpected(listing_error("has an entry that is no object"));
    if (text_at(entry, "type") != "file") continue;
    auto file = read_entry(entry);
    if (!file) return pass(file);
    files.push_back(std::move(*file));
    if (files.size() > kMaxRepoFiles)
      return std::unexpected(
          listing_error("has more than " + std::to_string(kMaxRepoFiles) + " files, which is the limit"));
  }
  for (const RepoFile& file : files) paths.push_back(file.path);
  std::ranges::sort(paths);
  if (const auto twice = std::ranges::adjacent_find(paths); twice != paths.end())
    return std::unexpected(listing_error("has the path " + config::quoted(*twice) + " twice"));
  return {};
}

std::string next_page(std::string_view link) {
  for (std::size_t at = link.find('<'); at != std::string_view::npos; at = link.find('<', at + 1)) {
    const std::size_t close = link.find('>', at);
    if (close == std::string_view::npos) break;
    const std::string_view rest = link.substr(close, std::min(link.find('<', close), link.size()) - close);
    if (rest.find("rel=\"next\"") != std::string_view::npos ||
        rest.find("rel=next") != std::string_view::npos)
      return std::string(link.substr(at + 1, close - at - 1));
  }
  return {};
}

}  // namespace flyball::hub
