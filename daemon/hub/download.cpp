#include "daemon/hub/download.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "config/units.hpp"
#include "daemon/hub/folder.hpp"

namespace flyball::hub {
namespace {

std::unexpected<Failure> final_failure(Error error) {
  return std::unexpected(Failure{std::move(error), false});
}
std::unexpected<Failure> passing(const Url& url, const std::string& why) {
  return std::unexpected(Failure{Error{ErrorCode::upstream_invalid, url.shown() + " " + why, {}, {}}, true});
}

// Weak tags name what means the same, not the same bytes. The tag goes into a header again.
bool is_strong(const std::string& etag) {
  return etag.size() >= 2 && etag.front() == '"' && etag.back() == '"' &&
         std::ranges::all_of(etag, [](unsigned char c) { return c > 0x20 && c < 0x7F; });
}

Result<void> check_room(const std::filesystem::path& folder, std::uint64_t needed) {
  const auto room = free_bytes(folder);
  if (!room) return pass(room);
  if (needed <= *room) return {};
  const auto sizes = config::sizes_to_compare({needed, *room});
  return fail(ErrorCode::io_error,
              "the disk of " + folder.string() + " has " + sizes[1] + " free, and " + sizes[0] +
                  " are missing: remove files there (flyball models rm), or name another "
                  "folder with models_dir in config.yaml");
}

// SHA-256 of an address's query, in hex; "" without one.
std::string query_digest(const Url& url) {
  const std::string path = url.path();
  if (path.size() >= url.target.size()) return "";
  Hasher digest;
  digest.add(std::as_bytes(std::span(url.target).subspan(path.size())));
  return digest.hex();
}

// One file on its way.
class Fetching {
 public:
  Fetching(const HttpSource& source, const Item& item, const Watcher& watcher, Part& part)
      : source_(source),
        item_(item),
        watcher_(watcher),
        part_(part),
        origin_{item.url.shown(), {}, item.expected, query_digest(item.url)} {}

  // Keeps the bytes that are there where they belong to the file that is wanted now.
  Result<void> begin() {
    const auto kept = read_origin(item_.file);
    const auto& wanted = item_.expected;
    const bool same = kept && kept->url == origin_.url && kept->expected.sha256 == wanted.sha256 &&
                      kept->expected.git_oid == wanted.git_oid &&
                      (!wanted.size || kept->expected.size == wanted.size) && kept->expected.size &&
                      part_.size() <= *kept->expected.size;
    if (same && (wanted.has_digest() || is_strong(kept->etag))) {
      origin_.etag = kept->etag;
      origin_.expected = kept->expected;
    } else if (part_.size() > 0) {
      if (auto emptied = part_.start_anew(); !emptied) return emptied;
    }
    return part_.begin(wanted, [&](std::uint64_t bytes) { tell(bytes, false); });
  }

  // The size of the whole file; nullopt before a server or the listing has told it.
  std::optional<std::uint64_t> total() const {
    return item_.expected.size ? item_.expected.size : origin_.expected.size;
  }
  bool complete() const { return total() == part_.size(); }

  Attempt<void> attempt() {
    HttpSource::Request request{item_.url};
    std::uint64_t from = part_.size();
    // Without a digest an ETag alone tells whether the server still has the same file.
    if (from > 0 && !item_.expected.has_digest() && !is_strong(origin_.etag)) {
      if (auto emptied = part_.start_anew(); !emptied) return final_failure(std::move(emptied.error()));
      from = 0;
    }
    if (from > 0) {
      request.from = from;
      if (is_strong(origin_.etag)) request.if_range = origin_.etag;
    }
    auto taken = source_.get(
        request, [&](const Head& head) { return begin_body(head, from); },
        [&](std::span<const std::byte> bytes) -> Attempt<void> {
          if (part_.size() + bytes.size() > *total())
            return final_failure({ErrorCode::upstream_invalid,
                                  item_.url.shown() + " sends more than the " + std::to_string(*total()) +
                                      " bytes that it promised",
                                  {},
                                  {}});
          if (auto written = part_.append(bytes); !written) return final_failure(std::move(written.error()));
          tell(part_.size(), true);
          return {};
        });
    if (!taken) return taken;
    if (!complete())
      return passing(item_.url, "ended after " + std::to_string(part_.size()) + " of " +
                                    std::to_string(*total()) + " bytes");
    return {};
  }

  void says(const std::string& note) const {
    if (watcher_.says) watcher_.says(note);
  }

 private:
  Attempt<bool> begin_body(const Head& head, std::uint64_t from) {
    if (head.status == 416 && from > 0) return anew(head, "has no byte " + std::to_string(from));
    if (head.status != 200 && head.status != 206) return std::unexpected(status_failure(source_, head));
    std::optional<std::uint64_t> whole = head.length;
    if (head.status == 206) {
      if (from == 0)
        return final_failure({ErrorCode::upstream_invalid,
                              head.url.shown() + " answers 206, and nobody asked for a part",
                              {},
                              {}});
      if (!head.range || head.range->first != from)
        return anew(head, "answers with other bytes than those from " + std::to_string(from));
      whole = head.range->total;
      if (!whole && head.length) whole = from + *head.length;
      if (is_strong(head.etag) && is_strong(origin_.etag) && head.etag != origin_.etag)
        return anew(head, "has another file now");
      if (!is_strong(head.etag) && !item_.expected.has_digest())
        return anew(head, "does not say of which version of the file it sends a part");
    }
    if (item_.expected.size && whole && *whole != *item_.expected.size)
      return final_failure({ErrorCode::upstream_invalid,
                            head.url.shown() + " has " + std::to_string(*whole) + " bytes, expected " +
                                std::to_string(*item_.expected.size) +
                                ": the file has changed since it was listed; try again",
                            {},
                            {}});
    if (head.status == 206 && whole && total() && *whole != *total())
      return anew(head, "has another file now");
    if (!whole && !total())
      return final_failure({ErrorCode::upstream_invalid,
                            head.url.shown() +
                                " does not say how long the file is, so that one cut off would "
                                "not be told from a whole one",
                            {},
                            {}});
    if (head.status == 206) return true;
    if (from > 0) {
      says(item_.file.filename().string() + ": the server begins anew");
      if (auto emptied = part_.start_anew(); !emptied) return final_failure(std::move(emptied.error()));
    }
    origin_.etag = head.etag;
    if (!item_.expected.size && whole) {
      origin_.expected.size = whole;
      if (auto room = check_room(item_.file.parent_path(), *whole); !room)
        return final_failure(std::move(room.error()));
    } else {
      origin_.expected.size = total();
    }
    if (auto written = write_origin(item_.file, origin_); !written)
      return final_failure(std::move(written.error()));
    return true;
  }

  // The bytes that are here are of no use with this server: the next attempt asks for all of them.
  Attempt<bool> anew(const Head& head, const std::string& why) {
    origin_.etag.clear();
    if (!item_.expected.size) origin_.expected.size.reset();
    if (auto emptied = part_.start_anew(); !emptied) return final_failure(std::move(emptied.error()));
    return passing(head.url, why);
  }

  void tell(std::uint64_t bytes, bool arriving) const {
    if (watcher_.at) watcher_.at(item_, bytes, arriving);
  }

  const HttpSource& source_;
  const Item& item_;
  const Watcher& watcher_;
  Part& part_;
  PartOrigin origin_;
};

// nullopt: the server has another file than the one that lies here without a digest to compare with. Else
// the words for what was compared. An error: the server cannot be asked, and a part waits for its bytes; or
// the file came from the same address with another query, and nothing shows that both are one.
Result<std::optional<std::string>> compared_with_server(const HttpSource& source, const Item& item,
                                                        std::uint64_t size) {
  std::optional<std::uint64_t> total;
  std::string etag;
  const auto asked =
      source.get({.url = item.url, .from = 0, .last = 0},
                 [&](const Head& head) -> Attempt<bool> {
                   if (head.status != 200 && head.status != 206)
                     return std::unexpected(status_failure(source, head));
                   total = head.status == 200 ? head.length : head.range ? head.range->total : std::nullopt;
                   etag = head.etag;
                   return false;
                 },
                 {});
  std::error_code absent;
  if (!asked && std::filesystem::exists(part_file(item.file), absent))
    return std::unexpected(asked.error().error);
  if (!asked) return "not compared with the server's file: " + asked.error().error.message;
  const auto kept = read_source(item.file);
  if (kept && kept->url == item.url.shown() && is_strong(kept->etag) && kept->etag == etag)
    return "the server has this version";
  if (kept && kept->query != query_digest(item.url))
    return fail(ErrorCode::unsupported_value,
                item.file.string() +
                    " came from this address with another query, and may be another file: say which one is "
                    "meant with --sha256, or remove it first (flyball models rm)");
  if (total && *total != size) return std::nullopt;
  if (kept && kept->url == item.url.shown() && is_strong(kept->etag) && is_strong(etag)) return std::nullopt;
  return total ? "the server's file has this size, and its bytes were not compared"
               : "not compared with the server's file, whose size and version it does not tell";
}

// A file that has its name already: as expected, or as the server has it where no digest is expected.
// nullopt: it is absent or another one.
Result<std::optional<Arrived>> already_there(const HttpSource& source, const Item& item,
                                             const Watcher& watcher) {
  struct stat info {};
  if (::stat(item.file.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return std::unexpected(system_error(item.file, "looked at", errno));
  }
  if (!S_ISREG(info.st_mode))
    return fail(ErrorCode::io_error, item.file.string() + " is no regular file: move it away");
  Arrived out{item.file, static_cast<std::uint64_t>(info.st_size), written_digest(item.file), true};
  const Expected& wanted = item.expected;
  if (wanted.size && *wanted.size != out.size) return std::nullopt;
  std::string compared;
  if (!wanted.has_digest()) {
    const auto same = compared_with_server(source, item, out.size);
    if (!same) return pass(same);
    if (!*same) return std::nullopt;
    compared = "; " + **same;
  }
  if (!out.sha256.empty() && (!wanted.has_digest() || out.sha256 == wanted.sha256)) {
    out.compared = "recorded, not checked" + compared;
    return out;
  }
  // Killed between its name and its digest, or laid there by a person.
  const auto own = digests_of(item.file, out.size, !wanted.git_oid.empty(), [&](std::uint64_t bytes) {
    if (watcher.at) watcher.at(item, bytes, false);
  });
  if (!own) return pass(own);
  if (!wanted.sha256.empty() && own->sha256 != wanted.sha256) return std::nullopt;
  if (!wanted.git_oid.empty() && own->git_oid != wanted.git_oid) return std::nullopt;
  out.sha256 = own->sha256;
  out.compared = wanted.has_digest() ? "checked" : "of the file that was here" + compared;
  if (auto written = write_digest(item.file, out.sha256); !written) return pass(written);
  return out;
}

// Removes what a killed process has left beside a whole file, its part included. Nothing is removed while
// another process has the part.
void tidy(const std::filesystem::path& file) {
  auto part = Part::open(file);
  if (!part) return;
  part->remove_leftovers();
  part->remove();
}

// The first shard becomes a part again: nobody opens the model while its other shards change. The lock on
// what is returned keeps other pulls away.
Result<Descriptor> take_away(const Item& item, std::uint64_t size) {
  Descriptor opened(::open(item.file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened || ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0)
    return std::unexpected(system_error(item.file, "locked", errno));
  // A pull that is killed now goes on with these bytes.
  PartOrigin origin = read_source(item.file).value_or(
      PartOrigin{item.url.shown(), {}, item.expected, query_digest(item.url)});
  origin.expected.size = size;
  if (auto written = write_origin(item.file, origin); !written) return pass(written);
  if (::rename(item.file.c_str(), part_file(item.file).c_str()) != 0)
    return std::unexpected(system_error(item.file, "renamed", errno));
  return opened;
}

Result<void> put_back(const Item& item) {
  if (::rename(part_file(item.file).c_str(), item.file.c_str()) != 0)
    return std::unexpected(system_error(item.file, "given its name", errno));
  ::unlink(origin_file(item.file).c_str());
  return sync_folder(item.file.parent_path());
}

// Files in a folder that are none of the items, nor their digests: an older version had them.
void remove_others(const std::filesystem::path& folder, std::span<const Item> items) {
  for (const std::filesystem::path& entry : entries_of(folder))
    if (std::ranges::none_of(
            items, [&](const Item& item) { return entry == item.file || entry == digest_file(item.file); }))
      ::unlink(entry.c_str());
}

}  // namespace

Result<Part> fetch_part(const HttpSource& source, const Item& item, const Patience& patience,
                        const Watcher& watcher) {
  auto part = Part::open(item.file);
  if (!part) return part;
  part->remove_leftovers();
  // A first request that fails leaves nothing.
  const auto failed = [&](Error error) -> Result<Part> {
    if (part->size() == 0) part->remove();
    return std::unexpected(std::move(error));
  };
  Fetching fetching(source, item, watcher, *part);
  if (auto begun = fetching.begin(); !begun) return pass(begun);
  std::uint64_t furthest = part->size();
  const Says says = [&](const std::string& note) {
    fetching.says(item.file.filename().string() + ": " + note);
  };
  for (Retries retries(patience); !fetching.complete();) {
    const auto taken = fetching.attempt();
    if (taken) break;
    // The connection is poor, and worth going on with.
    if (part->size() >= furthest + kProgressBytes) {
      furthest = part->size();
      retries.progress();
    }
    if (retries.again(taken.error(), says)) continue;
    Error error = taken.error().error;
    if (taken.error().passing)
      error.message += "; given up after " + std::to_string(retries.tries()) +
                       (retries.tries() == 1 ? " attempt" : " attempts") +
                       " that brought too little: the same command goes on from byte " +
                       std::to_string(part->size());
    return failed(std::move(error));
  }
  if (auto right = part->check(item.url.origin()); !right) return pass(right);
  return part;
}

Result<std::vector<Arrived>> fetch_all(const HttpSource& source, std::span<const Item> items,
                                       const Patience& patience, const Watcher& watcher,
                                       const Inspect& inspect) {
  std::vector<std::optional<Arrived>> there;
  std::uint64_t missing = 0;
  for (const Item& item : items) {
    if (auto made = make_folders(item.file.parent_path()); !made) return pass(made);
    auto here = already_there(source, item, watcher);
    if (!here) return pass(here);
    if (std::error_code ignored; !*here && !item.pin.empty() && std::filesystem::exists(item.file, ignored))
      return fail(ErrorCode::config_invalid,
                  item.file.string() +
                      " would be replaced by another version, and the configuration says which SHA-256 the "
                      "model has: change `sha256` there first",
                  {}, item.pin);
    if (*here) tidy(item.file);
    if (!*here && item.expected.size) {
      std::error_code absent;
      const auto held = std::filesystem::file_size(part_file(item.file), absent);
      missing += *item.expected.size - (absent ? 0 : std::min<std::uint64_t>(held, *item.expected.size));
    }
    there.push_back(std::move(*here));
  }
  if (!items.empty())
    if (auto room = check_room(items.front().file.parent_path(), missing); !room) return pass(room);

  std::vector<std::optional<Part>> parts;
  std::vector<std::filesystem::path> files;
  for (std::size_t i = 0; i < items.size(); ++i) {
    parts.emplace_back();
    files.push_back(there[i] ? items[i].file : part_file(items[i].file));
    if (there[i]) continue;
    auto part = fetch_part(source, items[i], patience, watcher);
    if (!part) return pass(part);
    parts.back() = std::move(*part);
  }
  const bool all_here = std::ranges::none_of(parts, [](const auto& part) { return part.has_value(); });
  if (inspect && !all_here)
    if (auto sound = inspect(files); !sound) {
      if (sound.error().code == ErrorCode::model_invalid)
        for (auto& part : parts)
          if (part) part->remove();
      return pass(sound);
    }
  Descriptor first;
  if (items.size() > 1 && parts.front()) {
    ::unlink(digest_file(items.front().file).c_str());
    ::unlink(items.front().file.c_str());
  } else if (items.size() > 1 && !all_here) {
    auto taken = take_away(items.front(), there.front()->size);
    if (!taken) return pass(taken);
    first = std::move(*taken);
  }
  for (std::size_t i = items.size(); i-- > 0;) {
    if (!parts[i]) continue;
    there[i] = Arrived{items[i].file, parts[i]->size(), parts[i]->sha256(), false};
    if (auto named = parts[i]->publish(); !named) return pass(named);
  }
  if (first)
    if (auto named = put_back(items.front()); !named) return pass(named);
  std::vector<Arrived> out;
  for (auto& one : there) out.push_back(std::move(*one));
  return out;
}

Result<std::vector<Arrived>> fetch_folder(const HttpSource& source, const std::filesystem::path& folder,
                                          std::span<const Item> items, const Patience& patience,
                                          const Watcher& watcher) {
  const std::filesystem::path gathered = folder.string() + ".part";
  std::error_code ignored;
  // rename() replaces an empty folder.
  if (std::filesystem::exists(folder, ignored) &&
      !(std::filesystem::is_directory(folder, ignored) && std::filesystem::is_empty(folder, ignored))) {
    std::vector<Arrived> out;
    for (const Item& item : items) {
      auto here = already_there(source, {item.url, folder / item.file.filename(), item.expected}, watcher);
      if (!here) return pass(here);
      if (!*here)
        return fail(ErrorCode::io_error, folder.string() + " holds another version, whose " +
                                             item.file.filename().string() +
                                             " differs or is absent: remove it (flyball models rm " +
                                             folder.string() + ") or, where it is no model, move it away");
      out.push_back(std::move(**here));
    }
    ::unlink(origin_file(folder).c_str());  // of a process that was killed
    return out;
  }
  if (auto made = make_folders(folder.parent_path()); !made) return pass(made);
  // Beside the folder, so that it is known for a part, and for how much of one.
  PartOrigin origin{items.front().url.origin(), {}, {}};
  origin.expected.size = 0;
  for (const Item& item : items) *origin.expected.size += item.expected.size.value_or(0);
  if (auto marked = write_origin(folder, origin); !marked) return pass(marked);
  if (auto made = make_folders(gathered); !made) return pass(made);
  const Descriptor lock(::open(gathered.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(ErrorCode::io_error, gathered.string() + " is being fetched by another process: wait for it");
  std::vector<Item> inner(items.begin(), items.end());
  for (Item& item : inner) item.file = gathered / item.file.filename();
  auto out = fetch_all(source, inner, patience, watcher);
  if (!out && std::filesystem::is_empty(gathered, ignored)) {  // a first request that fails leaves nothing
    ::rmdir(gathered.c_str());
    ::unlink(origin_file(folder).c_str());
  }
  if (!out) return out;
  remove_others(gathered, inner);
  if (::rename(gathered.c_str(), folder.c_str()) != 0)
    return std::unexpected(system_error(folder, "given its name", errno));
  ::unlink(origin_file(folder).c_str());
  if (auto synced = sync_folder(folder.parent_path()); !synced) return pass(synced);
  for (Arrived& one : *out) one.file = folder / one.file.filename();
  return out;
}

}  // namespace flyball::hub
