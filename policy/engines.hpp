// The engine catalogue: the systems that the source documents speak of, what they state about each, and what
// stands for it in this house. Knowledge for people, rules and `flyball advise`; decide() does not read it.
// docs/engines.md describes each key of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "config/error.hpp"
#include "policy/target.hpp"

namespace flyball::policy {

enum class EngineKind : std::uint8_t {
  engine,
  server,
  orchestrator,
  app,
  framework,
  system,
  library,
  kernels
};
// How a mixture of experts runs: only the routed experts, in part so, all of them, or not at all.
enum class MoeSupport : std::uint8_t { gated, partial, all_experts, none };
enum class Streaming : std::uint8_t { streamed, batched, none };
enum class Maturity : std::uint8_t { production, stable, beta, active, archived };
std::string_view to_string(EngineKind kind) noexcept;
std::string_view to_string(MoeSupport moe) noexcept;
std::string_view to_string(Streaming streaming) noexcept;
std::string_view to_string(Maturity maturity) noexcept;

// Empty or absent: the documents do not say.
struct EngineEntry {
  std::string id, name;
  EngineKind kind = EngineKind::engine;
  std::vector<std::string> platforms, devices;
  std::optional<MoeSupport> moe;
  std::vector<std::string> kv_quant;  // what its KV cache may be kept as, in the documents' words
  std::optional<bool> paged_attention;
  std::optional<Streaming> streaming;
  std::vector<std::string> formats, formats_partly;
  std::string licence;
  std::optional<Maturity> maturity;
  std::string verdict;
  std::string denied;               // why no rule may name it, "" if one may
  std::vector<std::string> aliases;      // other names that people write
  std::vector<std::string> taken_for;  // phrases of a question that names it, for which the documents take it
  std::vector<std::string> generations;  // of NVIDIA's GPUs that it runs on; empty: not known
  bool model_source = false;        // models may be taken from its store
  std::vector<Target> here;         // what stands for it, the best first; empty: advice only
  std::vector<std::string> source;  // ids of EngineCatalogue::documents
  std::uint32_t line = 0, column = 0;
};

struct EngineCatalogue {
  struct Document {
    std::string id, name;
  };
  std::string file;
  std::vector<Document> documents;
  std::vector<EngineEntry> engines;  // in the file's order

  const EngineEntry* find(std::string_view id) const noexcept;
  std::vector<std::string_view> ids() const;
};

// config_invalid with file:line:column in Error::where. Ids are unique, targets known, documents declared,
// and a system that is denied has no target.
Result<EngineCatalogue> parse_engines(std::string_view yaml, std::string_view file_name);
std::expected<EngineCatalogue, std::vector<Error>> parse_engines_all(std::string_view yaml,
                                                                     std::string_view file_name);
// JSON Schema of engines.yaml, from the table that the parser reads by.
std::string engines_schema();
// config/engines.yaml, as this release has it.
const EngineCatalogue& shipped_engines();

nlohmann::json to_json(const EngineEntry& engine);
// Several lines for a terminal: every fact of one system.
std::string describe(const EngineEntry& engine);

}  // namespace flyball::policy
