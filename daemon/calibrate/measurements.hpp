// What `flyball calibrate` has kept, for the commands that decide.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/model/model_file.hpp"
#include "config/config.hpp"
#include "daemon/measure/book.hpp"
#include "daemon/measure/subject.hpp"
#include "daemon/probe/model_files.hpp"
#include "daemon/probe/probe.hpp"

namespace flyball::calibrate {

// The engines that this machine has for this configuration: the processor, and the devices that the probe
// approves.
std::vector<measure::Engine> engines_of(const probe::HardwareReport& report, const config::Config& config);

// The sizes of a model that is served as config.yaml says.
measure::ModelSize size_of(const config::ModelEntry& model, const model::ModelFile& file);
// Of those whose files said it.
measure::ModelSizes sizes_of(std::span<const config::ModelEntry> models, const probe::ModelFileInfos& files);

// What is known of the configuration's models on these engines, and predicted of those of known size; where
// options name no ledger the store's corrects it. io_error: there is a store, and it cannot be read.
Result<measure::Book> measured_book(const config::Config& config, std::span<const measure::Engine> engines,
                                    measure::BookOptions options);

// The same where the store cannot be read: nothing was measured.
measure::Book unmeasured_book(const config::Config& config, std::span<const measure::Engine> engines,
                              measure::BookOptions options);

// The engines on which this model has no measurement that counts now, in their order.
std::vector<std::string> unmeasured_on(const measure::Book& measured, const std::string& model,
                                       std::span<const measure::Engine> engines);

}  // namespace flyball::calibrate
