#include "daemon/fleet/touched.hpp"

#include <fstream>
#include <sstream>

namespace flyball::fleet {

std::optional<std::uint64_t> touched_memory(int pid, const std::string& proc) {
  std::ifstream file(proc + "/" + std::to_string(pid) + "/status");
  std::uint64_t bytes = 0;
  bool told = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::uint64_t kib = 0;
    if (!(words >> key >> kib) || (key != "RssAnon:" && key != "RssShmem:")) continue;
    bytes += kib << 10U;
    told = true;
  }
  return told ? std::optional(bytes) : std::nullopt;
}

}  // namespace flyball::fleet
