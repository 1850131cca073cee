#include "daemon/calibrate/measuring.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>

#include <nlohmann/json.hpp>

#include "daemon/fleet/slot.hpp"
#include "daemon/probe/children.hpp"
#include "daemon/settings/config_files.hpp"

namespace flyball::calibrate {
namespace {

using measure::Figure;
using Json = nlohmann::json;

constexpr std::chrono::hours kLongest{1};

std::string dump(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The figures in another process's words: all of them, or none.
Result<std::vector<Figure>> figures_in(const Json& said, const measure::Subject& subject, std::int64_t now) {
  const auto none =
      fail(ErrorCode::model_unavailable, "The process that measures it ended, and gave no figures.");
  if (!said.is_object() || !said.contains("figures") || !said["figures"].is_array()) return none;
  if (said.value("digest", Json()) != subject.model)
    return fail(ErrorCode::model_unavailable, "Its file is another by now.");
  std::vector<Figure> out;
  for (const Json& row : said["figures"]) {
    if (!row.is_array() || row.size() != 3 || !row[0].is_string() || !row[1].is_number_unsigned() ||
        row[1].get<std::uint64_t>() > UINT32_MAX || !row[2].is_number())
      return none;
    const auto kind = measure::kind_named(row[0].get_ref<const std::string&>());
    const auto value = row[2].get<double>();
    if (!kind || !std::isfinite(value) || value < 0) return none;
    out.push_back({*kind, row[1].get<std::uint32_t>(), value, now});
  }
  return out;
}

Error refusal_in(const Json& said) {
  const Json& error = said["error"];
  const auto text = [&](const char* key) {
    return error.contains(key) && error[key].is_string() ? error[key].get<std::string>() : std::string();
  };
  return {error_code_from(text("code")), text("message"), "", text("where")};
}

constexpr std::uint64_t kMostBytes = 1ULL << 50U;  // of another process's words: sums stay far from any limit

std::optional<MemoryNeed> need_in(const Json& said) {
  const Json& need = said["needs"];
  const auto bytes = [&](const char* key) {
    return need.is_object() && need.value(key, Json()).is_number_unsigned()
               ? std::optional(need[key].get<std::uint64_t>())
               : std::nullopt;
  };
  const auto weights = bytes("weight_bytes"), scratch = bytes("scratch_bytes"), kv = bytes("kv_bytes"),
             least = bytes("least_kv_bytes");
  if (!weights || !scratch || !kv || !least) return std::nullopt;
  if (std::max({*weights, *scratch, *kv, *least}) > kMostBytes) return std::nullopt;
  return MemoryNeed{*weights, *scratch, *kv, *least};
}

// What the process asks, answered by who lends it memory. `refused`: by him.
class Dialogue {
 public:
  explicit Dialogue(const Measuring& measuring) : memory_(measuring.memory) {}
  std::optional<std::string> reply(std::string_view line) {
    last_ = line;
    if (!memory_) return "";
    const Json said = Json::parse(line, nullptr, false);
    if (!said.is_object()) return "";
    if (said.contains("holds")) {
      if (told_ != Told::needs || !said["holds"].is_number_unsigned() ||
          said["holds"].get<std::uint64_t>() > kMostBytes)
        return std::nullopt;
      told_ = Told::holds;
      memory_->holds(said["holds"].get<std::uint64_t>());
      return "";
    }
    if (!said.contains("needs")) return "";
    const auto need = need_in(said);
    if (!need || told_ != Told::nothing) return std::nullopt;
    told_ = Told::needs;
    const auto kv_bytes = memory_->ask(*need);
    if (!kv_bytes) {
      refused_ = kv_bytes.error();
      return std::nullopt;
    }
    return dump({{"kv_bytes", *kv_bytes}}) + "\n";
  }
  const std::optional<Error>& refused() const { return refused_; }
  const std::string& last() const { return last_; }

 private:
  enum class Told : std::uint8_t { nothing, needs, holds };  // each once, in this order
  const std::optional<MeasuringMemory>& memory_;
  Told told_ = Told::nothing;
  std::optional<Error> refused_;
  std::string last_;  // line
};

}  // namespace

Measuring measuring_of(const config::Config& config, const config::ModelEntry* model,
                       const measure::Engine& engine, bool own_memory) {
  Measuring m;
  if (model) m.engine = fleet::engine_options(*model);
  m.engine.backend = engine.backend;
  m.engine.device_ids = engine.device_ids;
  m.engine.own_memory = own_memory;
  m.engine.cache_dir = (config.cache_dir.empty() ? settings::default_cache_dir() : config.cache_dir).string();
  m.engine.sha256.clear();  // figures are kept by what the file is found to be
  return m;
}

Result<std::vector<measure::Figure>> measure_in_child(const Measuring& m, const measure::Subject& subject,
                                                      const std::stop_token& stop) {
  std::vector<std::string> words{"measure"};
  const std::vector<std::string> engine = worker::engine_words(m.engine);
  words.insert(words.end(), engine.begin(), engine.end());
  if (m.quick) words.emplace_back("--quick");
  if (m.memory) words.emplace_back("--beside-others");
  Dialogue dialogue(m);
  const auto reply = [&](std::string_view line) { return dialogue.reply(line); };
  const probe::ChildAnswer answer = probe::talk_to_child(m.engine.executable, words, reply, kLongest, stop);
  if (stop.stop_requested()) return fail(ErrorCode::cancelled, "Something else was to be done.");
  if (dialogue.refused()) return std::unexpected(*dialogue.refused());
  const Json said = Json::parse(dialogue.last(), nullptr, false);
  if (said.is_object() && said.contains("error") && said["error"].is_object())
    return std::unexpected(refusal_in(said));
  if (!answer.ended_well())
    return fail(ErrorCode::model_unavailable,
                answer.end == probe::ChildAnswer::End::timed_out
                    ? "Measuring took longer than an hour."
                    : "The process that measures it ended, and did not say why.");
  return figures_in(said, subject, std::time(nullptr));
}

}  // namespace flyball::calibrate
