// The servers of models that listen on this machine's loopback, asked what they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace flyball::cli {

struct LocalServer {
  std::uint16_t port = 0;
  std::string kind;                 // "Ollama"; "": it answers, and not as any kind that is known
  std::string version;              // "": it does not say
  std::string usual;                // the kinds that take this port by default; "": none is known
  std::size_t models_served = 0;    // as GET /v1/models has them
  std::vector<std::string> models;  // the first of them
};
// The servers that answer HTTP on these ports; without ports on the well-known ones. A port that nothing
// listens on costs nothing, one that does not answer half a second.
std::vector<LocalServer> local_servers(std::span<const std::uint16_t> ports);

}  // namespace flyball::cli
