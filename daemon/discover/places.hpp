// The places where other tools keep their models.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "daemon/discover/stores.hpp"

namespace flyball::discover {

// Homes of the user of this process, of the one who called sudo, and of Ollama's service.
std::vector<std::filesystem::path> homes();

// The stores of these homes, whether anything is there or not, and those that the environment, the unit of
// Ollama's service and LM Studio's settings name. The first home is that of the user of this process.
std::vector<StorePlace> known_places(std::span<const std::filesystem::path> homes);

// OLLAMA_MODELS in the text of a systemd unit or drop-in; nullopt: it does not say. Pure.
std::optional<std::filesystem::path> ollama_models_in(std::string_view unit);
// The folder of models in LM Studio's settings.json; nullopt: it does not say. Pure.
std::optional<std::filesystem::path> downloads_folder_in(std::string_view settings);

}  // namespace flyball::discover
