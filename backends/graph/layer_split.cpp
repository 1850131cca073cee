#include "backends/graph/layer_split.hpp"

#include <algorithm>
#include <limits>

#include "config/units.hpp"

namespace flyball::graph {
namespace {

class Planner {
 public:
  explicit Planner(const PartSizes& sizes) : sizes_(sizes), below_{0} {
    for (const std::uint64_t bytes : sizes.layers) below_.push_back(below_.back() + bytes);
  }
  std::uint32_t n_layers() const { return static_cast<std::uint32_t>(sizes_.layers.size()); }

  PlannedPart plan(std::uint32_t begin, std::uint32_t end) const {
    PlannedPart planned{{begin, end, begin == 0, end == n_layers()}, {}};
    const ModelPart& part = planned.part;
    planned.memory.weight_bytes = below_[end] - below_[begin] + (part.embeds ? sizes_.embedding : 0) +
                                  (part.projects ? sizes_.output : 0);
    planned.memory.kv_bytes = sizes_.layer_kv * part.n_layers();
    planned.memory.scratch_bytes = sizes_.scratch + (part.projects ? sizes_.output_scratch : 0);
    return planned;
  }

  // How many times the least of a KV cache a device has room for; below 1: the part does not fit.
  double caches(const DeviceRoom& device, std::uint32_t begin, std::uint32_t end) const {
    const MemoryPlan memory = plan(begin, end).memory;
    const double left = static_cast<double>(device.free_bytes) - static_cast<double>(memory.weight_bytes) -
                        static_cast<double>(memory.scratch_bytes);
    return left / static_cast<double>(std::max<std::uint64_t>(memory.kv_bytes, 1));
  }

 private:
  const PartSizes& sizes_;
  std::vector<std::uint64_t> below_;  // [n + 1] weights of all layers below the i-th
};

// The best of all ways, from the first device on. To fill one device after the other would not do: the last
// may be left with a layer too large for it.
std::vector<PlannedPart> best_split(const Planner& planner, std::span<const DeviceRoom> devices) {
  struct Way {
    double caches = -std::numeric_limits<double>::infinity();  // of the device with the fewest
    std::uint32_t begin = 0;                                   // of the last device's part
  };
  const std::uint32_t n = planner.n_layers();
  // ways[d][end]: devices 0 to d hold layers [0, end).
  std::vector<std::vector<Way>> ways(devices.size(), std::vector<Way>(n + 1));
  for (std::uint32_t d = 0; d < devices.size(); ++d)
    for (std::uint32_t end = d + 1; end <= n; ++end)
      for (std::uint32_t begin = d; begin < (d == 0 ? 1 : end); ++begin) {
        double caches = planner.caches(devices[d], begin, end);
        if (d > 0) caches = std::min(caches, ways[d - 1][begin].caches);
        if (caches > ways[d][end].caches) ways[d][end] = {caches, begin};
      }
  std::vector<PlannedPart> parts(devices.size());
  for (std::uint32_t d = static_cast<std::uint32_t>(devices.size()), end = n; d-- > 0;
       end = parts[d].part.begin)
    parts[d] = planner.plan(ways[d][end].begin, end);
  return parts;
}

}  // namespace

PartSizes part_sizes(const model::ModelFile& model, std::uint64_t kv_bytes, std::uint32_t step_tokens,
                     std::uint32_t logit_rows) {
  const model::ModelConfig& config = model.config();
  const auto bytes_of = [&](WeightRole role, std::uint32_t layer) {
    const model::Weight& w = model.weights().of(role, layer);
    return w.data == nullptr ? 0 : w.experts * w.matrix_bytes();
  };
  PartSizes sizes;
  for (std::uint32_t layer = 0; layer < config.n_layers; ++layer) {
    std::uint64_t& bytes = sizes.layers.emplace_back(0);
    for (std::size_t i = 0; i < model::kWeightRoleCount; ++i)
      if (const auto role = static_cast<WeightRole>(i); model::of_a_layer(role))
        bytes += bytes_of(role, layer);
  }
  sizes.embedding = bytes_of(WeightRole::token_embedding, 0);
  sizes.output = bytes_of(WeightRole::output_norm, 0) + bytes_of(WeightRole::output, 0);
  sizes.layer_kv = kv_bytes / config.n_layers;
  sizes.scratch = scratch_bytes(config, step_tokens, 0);
  sizes.output_scratch = scratch_bytes(config, step_tokens, logit_rows) - sizes.scratch;
  return sizes;
}

KvRoom kv_room(std::span<const DevicePart> parts, std::uint64_t available_bytes) {
  std::uint32_t n_layers = 0, machine_layers = 0;
  for (const DevicePart& p : parts) {
    n_layers += p.n_layers;
    machine_layers += p.room.unified ? p.n_layers : 0;
  }
  KvRoom room{UINT64_MAX, {}};
  for (const DevicePart& p : parts) {
    const std::uint64_t share =
        p.room.unified ? std::min(p.room.free_bytes / p.n_layers, available_bytes / 4 / machine_layers)
                       : p.room.free_bytes / 8 * 7 / p.n_layers;
    if (share * n_layers < room.bytes) room = {share * n_layers, p.room.name};
  }
  return room;
}

void share_machine_memory(std::span<DeviceRoom> devices, std::uint64_t available_bytes) {
  const auto n = static_cast<std::uint64_t>(std::ranges::count_if(devices, &DeviceRoom::unified));
  for (DeviceRoom& d : devices)
    if (d.unified) d.free_bytes = std::min(d.free_bytes, available_bytes / n);
}

Result<std::vector<PlannedPart>> split_layers(const PartSizes& sizes, std::span<const DeviceRoom> devices) {
  if (devices.empty() || devices.size() > sizes.layers.size())
    return fail(ErrorCode::unsupported_value,
                "The model's " + std::to_string(sizes.layers.size()) + " layers cannot be split over " +
                    std::to_string(devices.size()) + " devices.",
                "devices");
  auto parts = best_split(Planner(sizes), devices);
  std::string missing;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const MemoryPlan& m = parts[d].memory;
    if (m.total() <= devices[d].free_bytes) continue;
    const auto bytes = config::sizes_to_compare({m.total(), devices[d].free_bytes});
    missing += (missing.empty() ? "" : "; ") + devices[d].name + " needs " + bytes[0] + " for " +
               std::to_string(parts[d].part.n_layers()) + " of " + std::to_string(sizes.layers.size()) +
               " layers (weights " + config::size_text(m.weight_bytes) + ", KV cache " +
               config::size_text(m.kv_bytes) + ", scratch " + config::size_text(m.scratch_bytes) +
               ") and has " + bytes[1];
  }
  if (missing.empty()) return parts;
  return fail(ErrorCode::insufficient_memory,
              "The model does not fit on its devices, however it is split: " + missing + ".", "devices");
}

}  // namespace flyball::graph
