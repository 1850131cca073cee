#include "daemon/cli/check_machine.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "backends/device/memory.hpp"
#include "config/capabilities.hpp"
#include "config/units.hpp"
#include "daemon/cli/terminal.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/probe/hardware_facts.hpp"

namespace flyball::cli {
namespace {

namespace fs = std::filesystem;

// Why this user cannot make the folder, or write where it is there already; "" where they can.
std::string not_writable(const fs::path& folder) {
  for (fs::path at = folder; !at.empty(); at = at.parent_path()) {
    std::error_code ec;
    const fs::file_status status = fs::status(at, ec);
    if (status.type() == fs::file_type::not_found && at != at.parent_path()) continue;
    if (status.type() != fs::file_type::directory)
      return at.string() + ": " + (ec ? ec.message() : "not a folder");
    if (::access(at.c_str(), W_OK | X_OK) != 0) return at.string() + ": " + std::strerror(errno);
    break;
  }
  return {};
}

// The first part of the path that is written like a variable, such as $USER; "": there is none.
std::string variable_in(const fs::path& path) {
  for (const fs::path& part : path)
    if (part.native().size() > 1 && part.native().starts_with('$')) return part.string();
  return {};
}

}  // namespace

std::vector<policy::LintFinding> machine_warnings(const config::Config& config,
                                                  const probe::ModelFileInfos& files, Hardware& hardware) {
  std::vector<policy::LintFinding> out;
  const auto warn = [&](const std::string& key, const std::string& message) {
    out.push_back({policy::LintFinding::Level::warning, key + ": " + message, config.place(key)});
  };
  const auto folder = [&](const char* key, const fs::path& path, const char* without) {
    if (path.empty()) return;
    if (const std::string name = variable_in(path); !name.empty())
      warn(key, path.string() + ": " + name + " is part of the name: variables are not expanded");
    if (const std::string why = not_writable(path); !why.empty())
      warn(key, path.string() + " cannot be made or written (" + why + "): " + without);
  };
  folder("state_dir", config.state_dir, "nothing will survive a restart");
  folder("cache_dir", config.cache_dir, "nothing is kept to start faster");
  folder("kv_spill.directory", config.kv_spill.directory, "no KV will be kept on disk");

  for (const config::Listener& listener : config.listeners)
    if (const std::string missing = http::without_ipv4(listener, config.listeners); !missing.empty())
      warn("listeners." + listener.id, missing);

  for (const config::EngineKind& kind : config::kEngineKinds) {
    const config::DeviceNames& names = config.devices[kind];
    if (names.empty()) continue;
    const auto found = probe::approved_devices(hardware.report(), config.devices)[kind];
    const std::string several = std::string(kind.id) + ".devices";
    if (!found)
      warn(config.places.contains(several) ? several : std::string(kind.id) + ".device", found.error());
  }

  if (const std::uint64_t total = device::total_memory();
      total > 0 && config.memory.reserve.value_or(0) >= total)
    warn("memory.reserve", config::format_bytes(*config.memory.reserve) + " leaves engines nothing of this " +
                               "machine's " + config::size_text(total) + ": no model can be loaded");
  if (config.memory.limit > 0)
    for (const auto& [model, file] : files)
      if (file.weight_bytes > config.memory.limit)
        warn("memory.limit", config::format_bytes(config.memory.limit) + " has no room for the model \"" +
                                 model + "\": its weights alone are " +
                                 config::sizes_to_compare({file.weight_bytes, config.memory.limit})[0]);
  for (const auto& [model, file] : files)
    if (file.mixture_of_experts)
      for (const config::EngineKind& kind : config::kEngineKinds)
        if (kind.memory == config::EngineKind::Memory::device &&
            !probe::opened_devices(hardware.report(), config.devices)[kind].empty())
          warn("models." + model, "a mixture of experts: Flyball's " + std::string(kind.id) + " engine " +
                                      std::string(config::mixture_of_experts(kind.id)));
  return out;
}

}  // namespace flyball::cli
