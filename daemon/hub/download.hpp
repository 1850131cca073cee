// Files from a server to the folder of models: gone on with after any break, checked before they get their
// names.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "daemon/hub/http_source.hpp"
#include "daemon/hub/part.hpp"

namespace flyball::hub {

struct Item {
  Url url;
  std::filesystem::path file;  // its final name
  Expected expected;
  // The place in the configuration whose `sha256` covers this file and others: another file here is refused.
  std::string pin = {};
};

// Attempts that bring less do not count as progress: a server could else keep a pull busy for ever.
inline constexpr std::uint64_t kProgressBytes = 64U << 10;

struct Watcher {
  // A file's bytes so far. `arriving` is false for those that were here and are read to be checked.
  std::function<void(const Item& item, std::uint64_t bytes, bool arriving)> at = {};
  Says says = {};
};

struct Arrived {
  std::filesystem::path file;
  std::uint64_t size = 0;
  std::string sha256;
  bool was_here = false;
  std::string compared = {};  // for a file that was here: what its digest was compared with
};

// Fetches all that an item lacks into its part. The part's bytes have the expected size and digests then, and
// no name yet.
Result<Part> fetch_part(const HttpSource& source, const Item& item, const Patience& patience,
                        const Watcher& watcher);

// Looks at the parts of all files before any of them gets its name.
using Inspect = std::function<Result<void>(std::span<const std::filesystem::path> files)>;
// All items, or none of them under a final name that was not there before. A model is opened by its first
// shard: where any of several items changes, the first one loses its name before and gets it last, so nobody
// opens a model of two versions. io_error where the disk has no room for what is missing, before the first
// byte; config_invalid where an item with a pin would be replaced.
Result<std::vector<Arrived>> fetch_all(const HttpSource& source, std::span<const Item> items,
                                       const Patience& patience, const Watcher& watcher,
                                       const Inspect& inspect = {});
// The same for files that make a folder, whose names are those that they have in it: they are gathered in
// FOLDER.part, which gets its name when all are there.
Result<std::vector<Arrived>> fetch_folder(const HttpSource& source, const std::filesystem::path& folder,
                                          std::span<const Item> items, const Patience& patience,
                                          const Watcher& watcher);

}  // namespace flyball::hub
