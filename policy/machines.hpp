// Cards and machines that people name: policy/machines.tsv, a row each, with the source of its numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/error.hpp"

namespace flyball::policy {

struct Machine {
  // unified: processor and GPU share one memory. no_gpu: none for language models.
  enum class Class : std::uint8_t { discrete, unified, no_gpu };

  std::vector<std::string> names;  // lower case, the usual one first
  std::string vendor;              // a value of hardware.gpu.vendor
  Class kind = Class::discrete;
  std::vector<double> memory;     // GiB, each size that was sold
  std::vector<double> bandwidth;  // GB/s
  std::string generation;         // of an NVIDIA GPU: "ampere"; "" for others
  std::string source;

  // The size of the name, in GiB; 0 where the name has several.
  double only_memory() const noexcept { return memory.size() == 1 ? memory.front() : 0; }
  bool has_memory(double gib) const noexcept;
};

// config_invalid with file:line in Error::where: a column is missing, a number is none, a name is there
// twice.
Result<std::vector<Machine>> parse_machines(std::string_view tsv, std::string_view file_name);
// policy/machines.tsv, as this release has it.
const std::vector<Machine>& shipped_machines();

}  // namespace flyball::policy
