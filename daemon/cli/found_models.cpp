#include "daemon/cli/found_models.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <set>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "backends/model/split_name.hpp"
#include "daemon/calibrate/measurements.hpp"
#include "daemon/cli/local_engine.hpp"
#include "daemon/cli/machine_pools.hpp"
#include "daemon/cli/model_entry.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/probe/children.hpp"
#include "daemon/probe/model_files.hpp"

namespace flyball::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kAtOnce = 4;                      // child processes
constexpr std::chrono::milliseconds kPatience{30'000};  // for one batch of them
constexpr std::size_t kMostText = 64;                   // bytes of a name in a child's words

using FileId = std::pair<dev_t, ino_t>;
std::optional<FileId> file_id(const std::filesystem::path& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return std::nullopt;
  return FileId(s.st_dev, s.st_ino);
}

// Another name of a model that is known. Ollama's clients may use any of its names, so all of them will be
// ids; the shortest one goes first.
void add_name(ExaminedModel& model, discover::FoundModel found, discover::StoreKind store) {
  if (model.found.name == found.name) return;
  if (store == discover::StoreKind::ollama && model.store == store) {
    if (found.stem.size() < model.found.stem.size()) std::swap(model.found, found);
    model.aliases.push_back(found.stem);
  }
  model.also.push_back(found.name);
}

// All models of all stores; a file that several stores have is one.
std::vector<ExaminedModel> merged(std::span<const discover::StoreContents> stores) {
  std::vector<ExaminedModel> out;
  std::map<FileId, std::size_t> known;
  for (const discover::StoreContents& store : stores) {
    for (const discover::FoundModel& found : store.models) {
      const auto id = file_id(found.path);
      if (id) {
        const auto [at, added] = known.emplace(*id, out.size());
        if (!added) {
          add_name(out[at->second], found, store.kind);
          continue;
        }
      }
      ExaminedModel& model = out.emplace_back();
      model.found = found;
      model.store = store.kind;
      model.store_index = static_cast<std::size_t>(&store - stores.data());
    }
  }
  return out;
}

void give_ids(std::vector<ExaminedModel>& models, const config::Config& config) {
  std::set<std::string> taken;
  std::map<FileId, std::string> configured;
  for (const config::ModelEntry& entry : config.models) {
    taken.insert(entry.id);
    taken.insert(entry.aliases.begin(), entry.aliases.end());
    if (const auto id = entry.embedded ? std::nullopt : file_id(entry.path))
      configured.emplace(*id, entry.id);
  }
  for (ExaminedModel& model : models) {
    const auto id = file_id(model.found.path);
    const auto own = id ? configured.find(*id) : configured.end();
    model.configured = own != configured.end();
    if (model.configured) {
      model.id = own->second;
      continue;
    }
    model.id = model_id_from(model.found.stem);
    if (taken.contains(model.id)) model.id = model_id_from(model.found.name);
    for (int n = 2; taken.contains(model.id); ++n)
      model.id = model_id_from(model.found.stem).substr(0, 120) + "-" + std::to_string(n);
    taken.insert(model.id);
    std::erase_if(model.aliases, [&](const std::string& alias) {
      return model_id_from(alias) != alias || !taken.insert(alias).second;
    });
  }
}

std::string plain_text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? terminal_text(it->get_ref<const std::string&>(), kMostText)
                                               : "";
}

std::uint64_t number_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_unsigned() ? it->get<std::uint64_t>() : 0;
}

// A child's words about one model.
void read_answer(const probe::ChildAnswer& answer, std::span<const MachinePool> pools, ExaminedModel& model) {
  model.info = probe::info_from(answer);
  if (!model.info) model.trouble = probe::trouble_of(answer, kPatience);
  const Json said = Json::parse(answer.text, nullptr, false);
  if (!said.is_object()) return;
  const auto outline = said.find("outline");
  const Json& facts = outline != said.end() && outline->is_object() ? *outline : said;
  model.family = plain_text(facts, "architecture");
  model.quantization = plain_text(facts, "quantization");
  if (const auto types = facts.find("types"); types != facts.end() && types->is_object())
    for (const auto& [type, count] : types->items())
      if (count.is_number_unsigned() && type.size() <= kMostText && model.tensors.size() < 64)
        model.tensors[type] = count.get<std::uint64_t>();
  if (model.info && said.value("chat_template", Json()) == Json(false))
    model.found.notes.emplace_back(
        "the file has no chat template: chats are written as ChatML, which may not be the model's form");
  const auto where = said.find("where");
  if (!model.info || where == said.end() || !where->is_array() || where->size() != pools.size()) return;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const Json& plan = (*where)[i];
    if (!plan.is_object()) continue;
    ModelFit fit;
    fit.backend = pools[i].backend;
    fit.pool = pools[i].pool.name;
    fit.fits = plan.value("fits", Json()) == Json(true);
    fit.missing = number_at(plan, "missing_bytes");
    fit.longest_context =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(number_at(plan, "longest_context"), UINT32_MAX));
    model.fits.push_back(std::move(fit));
  }
}

void read_files(std::vector<ExaminedModel>& models, std::span<const MachinePool> pools, bool progress) {
  std::vector<std::string> shared{"inspect", "--json"};
  for (const MachinePool& one : pools) {
    shared.emplace_back("--pool");
    shared.push_back(pool_argument(one.pool));
  }
  const auto end = std::chrono::steady_clock::now() + kMostReading;
  for (std::size_t at = 0; at < models.size(); at += kAtOnce) {
    if (at >= kMostExamined || std::chrono::steady_clock::now() > end) {
      const std::string limit = at >= kMostExamined ? std::to_string(kMostExamined) + " files"
                                                    : std::to_string(kMostReading.count()) + " minutes";
      for (std::size_t i = at; i < models.size(); ++i)
        models[i].trouble =
            Error{ErrorCode::model_unavailable, "it was not examined: the limit is " + limit, {}, {}};
      break;
    }
    if (progress) std::fprintf(stderr, "\rreading model files: %zu of %zu ", at, models.size());
    const std::size_t n = std::min(kAtOnce, models.size() - at);
    std::vector<std::vector<std::string>> arguments;
    for (std::size_t i = 0; i < n; ++i) {
      arguments.push_back(shared);
      arguments.back().insert(arguments.back().end(), {"--", models[at + i].found.path.string()});
    }
    const auto answers = probe::ask_children("/proc/self/exe", arguments, kPatience);
    for (std::size_t i = 0; i < n; ++i) read_answer(answers[i], pools, models[at + i]);
  }
  if (progress && !models.empty()) std::fprintf(stderr, "\r%48s\r", "");
}

// Speeds of one stream, as they were measured of these files here or are predicted.
void predict(std::vector<ExaminedModel>& models, Hardware& hardware, const config::Config& config) {
  config::Config served = config;
  served.models.clear();
  probe::ModelFileInfos infos;
  for (const ExaminedModel& model : models) {
    if (!model.info) continue;
    config::ModelEntry entry;
    entry.id = model.id;
    entry.path = model.found.path;
    served.models.push_back(std::move(entry));
    infos.emplace(model.id, *model.info);
  }
  if (infos.empty()) return;
  const auto engines = calibrate::engines_of(hardware.report(), config);
  const measure::BookOptions options{calibrate::sizes_of(served.models, infos)};
  // The store of a service may be another user's.
  const measure::Book book = calibrate::measured_book(served, engines, options)
                                 .value_or(calibrate::unmeasured_book(served, engines, options));
  for (ExaminedModel& model : models)
    for (ModelFit& fit : model.fits)
      if (const auto likely =
              book.likely(model.id, fit.backend, measure::Kind::decode_tps, 1, std::time(nullptr))) {
        fit.decode_tps = likely->value;
        fit.measured = likely->basis == measure::Basis::measured;
      }
}

// The files that an engine opens for a model.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return model::shard_files(path);
  std::vector<std::filesystem::path> out{path};
  for (std::filesystem::directory_iterator it(path, failed), end; !failed && it != end && out.size() < 1000;
       it.increment(failed))
    out.push_back(it->path());
  return out;
}

std::vector<discover::Closing> closings_of(const std::filesystem::path& path,
                                           const discover::Reader& reader) {
  std::vector<discover::Closing> out;
  for (const std::filesystem::path& file : files_of(path))
    for (discover::Closing& closing : discover::closed_to(reader, discover::steps_to(file)))
      if (std::ranges::find(out, closing) == out.end()) out.push_back(std::move(closing));
  return out;
}

}  // namespace

std::vector<ExaminedModel> examine(std::span<const discover::StoreContents> stores, Hardware& hardware,
                                   const ExamineOptions& options) {
  std::vector<ExaminedModel> models = merged(stores);
  if (models.empty()) return models;
  give_ids(models, options.config);
  const std::vector<MachinePool> pools = machine_pools(hardware, options.config, kAllEngines);
  read_files(models, pools, options.progress);
  predict(models, hardware, options.config);
  if (options.reader)
    for (ExaminedModel& model : models) model.closed = closings_of(model.found.path, *options.reader);
  return models;
}

bool fits_somewhere(const ExaminedModel& model) {
  return std::ranges::any_of(model.fits,
                             [](const ModelFit& fit) { return fit.missing == 0 && fit.longest_context > 0; });
}

std::string census_text(const std::map<std::string, std::uint64_t>& tensors) {
  std::vector<std::pair<std::string, std::uint64_t>> rows(tensors.begin(), tensors.end());
  std::ranges::stable_sort(rows, std::greater(), &std::pair<std::string, std::uint64_t>::second);
  std::string out;
  for (const auto& [type, count] : rows)
    out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + type;
  return out;
}

}  // namespace flyball::cli
