// A model's layers divided over several devices: decided from sizes alone, before anything is allocated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/graph/decoder.hpp"
#include "backends/graph/memory_plan.hpp"
#include "backends/model/model_file.hpp"

namespace flyball::graph {

struct DeviceRoom {
  std::string name;  // for errors
  std::uint64_t free_bytes = 0;
  bool unified = false;  // its memory is the machine's
};

// Bytes that a KV cache of all layers may have.
struct KvRoom {
  std::uint64_t bytes = 0;
  std::string device;  // the one that sets the limit; "": the machine
};

struct DevicePart {
  DeviceRoom room;  // after its weights are in
  std::uint32_t n_layers = 0;
};
// 7/8 of what a device's own memory has left is there for its layers' share; of what the machine has
// available a quarter, for all layers that lie in it. Precondition: not empty, a layer each at the least.
KvRoom kv_room(std::span<const DevicePart> parts, std::uint64_t available_bytes);

// Devices that work in the machine's memory share it: each has its part of what is available, at the most.
void share_machine_memory(std::span<DeviceRoom> devices, std::uint64_t available_bytes);

// What a model's parts take, in bytes.
struct PartSizes {
  std::vector<std::uint64_t> layers;        // weights of each layer
  std::uint64_t embedding = 0, output = 0;  // weights before the first layer and after the last one
  std::uint64_t layer_kv = 0;               // the least that one layer's KV cache is of use with
  std::uint64_t scratch = 0;                // activations of every device
  std::uint64_t output_scratch = 0;         // and of the one that projects
};
// With the weights as the file has them. kv_bytes: the least that a cache of all layers is of use with.
PartSizes part_sizes(const model::ModelFile& model, std::uint64_t kv_bytes, std::uint32_t step_tokens,
                     std::uint32_t logit_rows);

struct PlannedPart {
  ModelPart part;
  MemoryPlan memory;  // with the least of a KV cache
};
// The consecutive parts that these devices hold in their order, a layer each at the least, such that the KV
// cache, of which every device keeps its own layers' share, can grow largest. unsupported_value: more devices
// than layers. insufficient_memory: which device needs how much and has how much.
Result<std::vector<PlannedPart>> split_layers(const PartSizes& sizes, std::span<const DeviceRoom> devices);

}  // namespace flyball::graph
