// Servers of models that listen on this machine: their ports, and how their answers tell which kind they are.
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace flyball::discover {

struct KnownPort {
  std::uint16_t port;
  std::string_view kinds;  // that take it unless they are told otherwise
};
std::span<const KnownPort> known_ports() noexcept;

// A question, and the kind of server that it is asked for. Several kinds answer some questions alike, so the
// first kind whose answer fits is it.
struct ServerSign {
  std::string_view kind;    // "Ollama"
  std::string_view target;  // "/api/version"
};
std::span<const ServerSign> server_signs() noexcept;

// The version of a server of sign.kind, "" where it says none; nullopt: the answer, of any status, is not of
// such a server.
std::optional<std::string> version_by(const ServerSign& sign, const nlohmann::json& answer);

// Ids of the models in an answer to GET /v1/models; those of servers of unknown kind, too. nullopt: it is
// none.
std::optional<std::vector<std::string>> models_in(const nlohmann::json& answer);

}  // namespace flyball::discover
