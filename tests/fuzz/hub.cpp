// Any bytes as a hub's answers: a listing whose files stay in their folder or an error, and addresses that
// are sent back as they were read. The first line is an address, a redirect or a name, the rest a listing.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "daemon/hub/choice.hpp"
#include "daemon/hub/listing.hpp"
#include "daemon/hub/url.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_url(const flyball::hub::Url& url) {
  require(std::ranges::all_of(url.authority() + url.target,
                              [](unsigned char c) { return c > 0x20 && c < 0x7F; }));
  require(url.target.starts_with('/') && url.port != 0);
  const auto again = flyball::hub::parse_url(url.origin() + url.target);
  require(again && flyball::hub::same_origin(*again, url) && again->target == url.target);
  const std::string name = flyball::hub::file_name_of(url);
  require(name.empty() || flyball::hub::is_file_name(name));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace flyball::hub;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  const std::string_view first = text.substr(0, line), rest = text.substr(line);
  const Url hub = *parse_url("https://hub.example/base");
  if (const auto url = parse_url(first)) check_url(*url);
  if (const auto url = redirected(hub, first)) {
    check_url(*url);
    require(url->tls);
  }
  const std::string next = next_page(first);
  require(next.empty() || first.find(next) != std::string_view::npos);
  const auto name = read_name(first, hub);
  const auto* const wanted = name ? std::get_if<HubName>(&*name) : nullptr;
  if (wanted) require(is_safe_path(wanted->repo));
  std::vector<RepoFile> files;
  if (!add_page(files, rest)) return 0;
  for (const RepoFile& file : files)
    require(is_safe_path(file.path) && ("/" + file.path + "/").find("/../") == std::string::npos);
  if (const auto choice = choose(files, wanted ? *wanted : HubName{"org/repo"})) {
    require(!choice->files.empty() && !choice->name.empty());
    for (const RepoFile& file : choice->files)
      require(std::ranges::find(files, file.path, &RepoFile::path) != files.end());
  }
  return 0;
}
