// The memory that an engine of this machine will need with a model, and whether a policy's engines of their
// own have it beside the shared ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/memory_need.hpp"
#include "backends/model/model_file.hpp"
#include "config/config.hpp"
#include "daemon/cli/check_machine.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

// The file of the model that the entry names.
Result<std::shared_ptr<const model::ModelFile>> open_model_file(const config::ModelEntry& model);
// backend: an instance, "cpu" or "cpu:night". own_memory: it lies in devices' own. threads: of the profile
// that has the engine to itself; nullopt: the entry's.
Result<MemoryNeed> need_on(const config::ModelEntry& model, const model::ModelFile& file,
                           const std::string& backend, bool own_memory,
                           std::optional<std::uint32_t> threads = {});

// A warning for each model and pool of memory in which the model's engines, shared ones and those of
// profiles, do not fit together: one ends for another at every turn. An engine that does not fit alone is
// left out, and models that cannot be read have no warning. Asks for the hardware where an engine of its own
// computes on devices.
std::vector<policy::LintFinding> crowded_engines(const config::Config& config, const policy::Tree& tree,
                                                 Hardware& hardware);

}  // namespace flyball::cli
