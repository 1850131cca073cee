// The engine kinds of this tree, one row each: what policy, daemon and backends must know to tell them apart.
// The functions of a kind (probe, footprint, open, ceilings) stand in backends/local/engine_kinds.cpp, in
// rows of the same order. Nowhere else does a kind's id stand as a literal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace flyball::config {

struct EngineKind {
  // Which memory a model lies in: always the machine's, or its devices' where they have memory of their own.
  enum class Memory : std::uint8_t { machine, device };
  // The hardware that makes this kind available on a machine described in words (flyball advise).
  enum class Expects : std::uint8_t { processor, gpu, discrete_gpu };

  std::string_view id;           // in rules, facts, commands, metrics and names of cache folders
  std::string_view name;         // in sentences
  std::string_view description;  // of its section in config.yaml
  Memory memory = Memory::machine;
  std::uint32_t most_devices = 0;  // that one engine spreads a model over; 0: it computes on the processor
  Expects expects = Expects::processor;
  std::string_view chart_color;  // of its bars in `flyball bench --svg`

  constexpr bool has_devices() const noexcept { return most_devices > 0; }
  bool operator==(const EngineKind& other) const noexcept { return id == other.id; }
};

// In the order in which commands list them.
inline constexpr std::array kEngineKinds{
    EngineKind{"cpu", "CPU", "the CPU engine", EngineKind::Memory::machine, 0, EngineKind::Expects::processor,
               "#4c78a8"},
    EngineKind{"vulkan", "Vulkan", "the Vulkan engine", EngineKind::Memory::device, 1,
               EngineKind::Expects::gpu, "#b5423c"},
    EngineKind{"opencl", "OpenCL", "the OpenCL engine", EngineKind::Memory::device, 16,
               EngineKind::Expects::discrete_gpu, "#54a24b"},
};
inline constexpr const EngineKind& kCpu = kEngineKinds[0];
inline constexpr const EngineKind& kVulkan = kEngineKinds[1];
inline constexpr const EngineKind& kOpenCl = kEngineKinds[2];

// nullptr: no kind has this id.
constexpr const EngineKind* find_engine_kind(std::string_view id) noexcept {
  for (const EngineKind& kind : kEngineKinds)
    if (kind.id == id) return &kind;
  return nullptr;
}

// The kind of an engine of this machine, by its id in facts, receipts and metrics: an engine of its own is
// called "cpu:night", after its kind and its profile. An upstream's id comes back as it is.
constexpr std::string_view kind_of(std::string_view instance) noexcept {
  return instance.substr(0, instance.find(':'));
}

enum class KindFilter : std::uint8_t { all, with_devices };
// Ids of the kinds, in the table's order.
inline std::vector<std::string> engine_ids(KindFilter filter = KindFilter::all) {
  std::vector<std::string> out;
  for (const EngineKind& kind : kEngineKinds)
    if (filter == KindFilter::all || kind.has_devices()) out.emplace_back(kind.id);
  return out;
}

// One value for each engine kind.
template <class T>
class PerKind {
 public:
  T& operator[](const EngineKind& kind) { return values_[place(kind)]; }
  const T& operator[](const EngineKind& kind) const { return values_[place(kind)]; }
  bool operator==(const PerKind&) const = default;

 private:
  static std::size_t place(const EngineKind& kind) {
    for (std::size_t i = 0; i < kEngineKinds.size(); ++i)
      if (kEngineKinds[i].id == kind.id) return i;
    std::abort();  // kinds are rows of the table
  }
  std::array<T, kEngineKinds.size()> values_{};
};

}  // namespace flyball::config
