#include "daemon/hub/pull.hpp"

#include <algorithm>
#include <span>

#include "backends/model/split_name.hpp"
#include "config/name_list.hpp"
#include "config/percent.hpp"
#include "daemon/hub/digest.hpp"
#include "daemon/hub/shelf.hpp"

namespace flyball::hub {
namespace {

constexpr std::string_view kPart = ".part";

// A hub's base may have a path of its own, which stands before all others.
Url at_hub(const Url& hub, const std::string& target) {
  Url out = hub;
  const std::string base = hub.path();
  out.target = (base == "/" ? "" : base) + target;
  return out;
}

// "refs/pr/1" -> "refs%2Fpr%2F1"
std::string one_component(std::string_view text) {
  std::string out;
  for (const char c : percent_encoded(text)) out += c == '/' ? std::string("%2F") : std::string(1, c);
  return out;
}

Result<std::vector<RepoFile>> list_files(const HttpSource& source, const HubName& wanted,
                                         const Patience& patience, const Says& says) {
  std::vector<RepoFile> files;
  Url url = at_hub(source.hub(), "/api/models/" + percent_encoded(wanted.repo) + "/tree/" +
                                     one_component(wanted.revision) + "?recursive=true");
  for (std::size_t pages = 1;; ++pages) {
    const auto page = get_document(source, url, kMaxPageBytes, patience, says);
    if (!page) return pass(page);
    if (auto added = add_page(files, page->body); !added) return pass(added);
    const std::string next = next_page(page->head.link);
    if (next.empty()) return files;
    if (pages == kMaxListingPages)
      return fail(ErrorCode::upstream_invalid, "the hub's listing of " + wanted.repo + " has more than " +
                                                   std::to_string(kMaxListingPages) +
                                                   " pages, which is the limit");
    auto followed = redirected(page->head.url, next);
    if (!followed) return pass(followed);
    if (!same_origin(*followed, source.hub()))
      return fail(ErrorCode::upstream_invalid, "the hub's listing goes on at " + followed->origin() +
                                                   ", and " + source.hub().origin() +
                                                   " alone says which files a model has");
    url = std::move(*followed);
  }
}

// HOST/DIRECTORIES of an address: two addresses whose paths differ have two files. Folders that are too deep
// or have names that are no plain ones become one, named by their digest.
std::filesystem::path folder_of(const Url& url) {
  constexpr std::size_t kMaxFolders = 5, kMaxNameBytes = 100, kDigits = 16;
  std::string host = url.authority();
  std::ranges::replace_if(
      host, [](char c) { return c == ':' || c == '[' || c == ']'; }, '_');
  const std::string path = url.path();
  const std::string folders = path.substr(0, path.rfind('/') + 1);  // "/" or "/a/b/"
  std::filesystem::path out = host;
  std::size_t number = 0;
  bool plain = true;
  for (std::size_t at = 1; plain && at < folders.size();) {
    const std::size_t slash = folders.find('/', at);
    const std::string name = percent_decoded(std::string_view(folders).substr(at, slash - at)).value_or("");
    plain = ++number <= kMaxFolders && name.size() <= kMaxNameBytes && is_file_name(name) &&
            !name.ends_with(kPart);
    out /= name;
    at = slash + 1;
  }
  if (plain) return out;
  Hasher digest;
  digest.add(std::as_bytes(std::span(folders)));
  return std::filesystem::path(host) / digest.hex().substr(0, kDigits);
}

}  // namespace

Result<PullPlan> plan_from_hub(const HttpSource& source, const HubName& wanted,
                               const std::filesystem::path& models_dir, const Patience& patience,
                               const Says& says) {
  const auto files = list_files(source, wanted, patience, says);
  if (!files) return pass(files);
  const auto choice = choose(*files, wanted);
  if (!choice) return pass(choice);
  PullPlan out;
  out.name = choice->name;
  out.from = wanted.repo + (choice->quant.empty() ? "" : ", " + choice->quant);
  const std::filesystem::path repo = models_dir / wanted.repo;
  if (choice->kind == Choice::Kind::mlx) out.folder = repo;
  for (const RepoFile& file : choice->files) {
    const std::string target = "/" + percent_encoded(wanted.repo) + "/resolve/" +
                               one_component(wanted.revision) + "/" + percent_encoded(file.path);
    out.items.push_back(
        {at_hub(source.hub(), target), repo / file.path, {file.size, file.sha256, file.git_oid}});
    out.of_unknown_bytes = out.of_unknown_bytes || !out.items.back().expected.has_digest();
  }
  return out;
}

Result<PullPlan> plan_from_url(const Url& url, const std::string& sha256,
                               const std::filesystem::path& models_dir) {
  const std::string file = file_name_of(url);
  if (!file.ends_with(".gguf"))
    return fail(ErrorCode::invalid_value,
                "the address " + config::quoted(url.shown()) + " does not end in the name of a .gguf file");
  PullPlan out;
  out.from = url.shown();
  out.of_unknown_bytes = sha256.empty();
  const auto shard = model::shard_name(file);
  out.name = shard ? shard->stem : file.substr(0, file.size() - std::string_view(".gguf").size());
  const std::filesystem::path folder = models_dir / folder_of(url);
  std::vector<std::filesystem::path> names{file};
  if (shard) names = model::shards_of(*shard);
  if (names.size() > 1 && !sha256.empty())
    return fail(ErrorCode::invalid_value, "--sha256 is one file's digest, and the model has " +
                                              std::to_string(names.size()) +
                                              " shards: leave it out, and compare what is printed");
  const std::string path = url.path(), query = url.target.substr(path.size());
  for (const std::filesystem::path& name : names) {
    Url one = url;
    one.target = path.substr(0, path.rfind('/') + 1) + percent_encoded(name.string()) + query;
    out.items.push_back({one, folder / name, {std::nullopt, sha256, {}}});
  }
  return out;
}

std::vector<std::filesystem::path> PullPlan::files() const {
  std::vector<std::filesystem::path> out;
  for (const Item& item : items) out.push_back(item.file);
  return out;
}

Result<void> heed_pins(PullPlan& plan, const config::Config& config) {
  if (!plan.folder.empty()) return {};  // a pin is a file's
  const auto users = users_of(config, plan.files());
  for (const config::ModelEntry& model : config.models) {
    if (model.sha256.empty() || std::ranges::find(users, model.id) == users.end()) continue;
    const std::string place = config.place("models." + model.id + ".sha256");
    if (plan.items.size() > 1) {
      for (Item& item : plan.items) item.pin = place;
      continue;
    }
    Expected& expected = plan.items.front().expected;
    const std::string& pin = model.sha256;
    if (!expected.sha256.empty() && expected.sha256 != pin)
      return fail(ErrorCode::config_invalid,
                  "the file " + plan.items.front().file.string() + " would have the SHA-256 " +
                      expected.sha256 + ", and the configuration says " + pin + " for the model " + model.id +
                      ": change `sha256` there first",
                  {}, place);
    expected.sha256 = pin;
    plan.of_unknown_bytes = false;
  }
  return {};
}

}  // namespace flyball::hub
