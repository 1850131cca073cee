// The memory that an engine of this machine will need with a model, and whether a policy's engines of their
// own have it beside the shared ones.
#pragma once

#include <string>
#include <vector>

#include "backends/memory_need.hpp"
#include "backends/model/model_file.hpp"
#include "config/config.hpp"
#include "daemon/cli/check_machine.hpp"
#include "policy/tree.hpp"

namespace flyball::cli {

// Of the model that the entry names.
Result<std::shared_ptr<const model::ModelFile>> open_model_file(const config::ModelEntry& model);
// backend: an instance, "cpu" or "cpu:night". own_memory: it lies in devices' own.
Result<MemoryNeed> need_on(const config::ModelEntry& model, const model::ModelFile& file,
                           const std::string& backend, bool own_memory);

// A warning for each model whose shared engine and whose engine of its own do not fit together in the memory
// that both lie in: one ends for the other at every turn. Models that cannot be read have none. Asks for the
// hardware where an engine of its own computes on devices.
std::vector<policy::LintFinding> crowded_engines(const config::Config& config, const policy::Tree& tree,
                                                 Hardware& hardware);

}  // namespace flyball::cli
