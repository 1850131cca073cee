// The settings of a profile's own engine, as `engine: own` of that profile in the policy has them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace flyball::config {

inline constexpr std::uint32_t kMaxThreads = 4096;
inline constexpr std::int32_t kMaxNice = 19;

struct EngineSettings {
  std::optional<std::uint32_t> threads = {};  // of the cpu engine; absent: the model entry's
  std::int32_t nice = 0;                      // of its process, 0 to kMaxNice
  bool lock_memory = false;  // its weights and KV stay in memory (mlock), where the limit allows it
  bool keep_loaded = false;  // once loaded it ends for no other engine's load, and never for want of work
  // It computes nothing while answers that people wait for are computed on its cores or cards.
  bool yields = false;

  bool operator==(const EngineSettings&) const = default;
};

// By the engine's instance id, "cpu:night".
using OwnEngines = std::map<std::string, EngineSettings, std::less<>>;

}  // namespace flyball::config
