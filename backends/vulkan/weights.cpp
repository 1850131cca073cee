#include "backends/vulkan/weights.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/memory.hpp"
#include "backends/graph/weights.hpp"

namespace flyball::vulkan {

using graph::WeightRef;
using graph::WeightRole;

// Weights that lie close together in the file become one allocation: drivers have few thousands of them.
struct Weights::Window {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(end - begin); }
};

const char* to_string(WeightsIn in) noexcept {
  switch (in) {
    case WeightsIn::automatic:
      return "not placed";
    case WeightsIn::file:
      return "read in the file's own pages";
    case WeightsIn::shared:
      return "copied to memory shared with the host";
    case WeightsIn::staged:
      return "copied to the device's own memory";
  }
  return "";
}

namespace {

constexpr std::uint64_t kMostWindow = 1ULL << 30;  // bytes: two fit where the driver gives 2 GiB at once
constexpr std::ptrdiff_t kMostGap = 1 << 20;       // bytes between weights that nobody reads
constexpr std::size_t kCopyBytes = 64ULL << 20;    // at a time: progress is seen, and staging is small
constexpr std::size_t kKeptAlignment = 256;        // a copy begins where the file has it, modulo this
constexpr std::size_t kWordAlignment = 8;          // the kernels' widest load; safetensors promise none

std::size_t slot(WeightRef ref) noexcept {
  return ref.layer * graph::kWeightRoleCount + static_cast<std::size_t>(ref.role);
}

std::uint64_t bytes_of(const model::Weight& w) {
  return w.experts * w.matrix_bytes();
}

bool aligned(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kWordAlignment == 0;
}

std::size_t kept(const std::byte* at) {
  return aligned(at) ? reinterpret_cast<std::uintptr_t>(at) % kKeptAlignment : 0;
}

struct Entry {
  WeightRef ref;
  const model::Weight* weight;
};

std::vector<Entry> entries_of(const model::ModelFile& model) {
  std::vector<Entry> entries;
  const auto layers = static_cast<std::uint32_t>(model.weights().layers.size());
  for (std::size_t i = 0; i < graph::kWeightRoleCount; ++i) {
    const auto role = static_cast<WeightRole>(i);
    const bool once =
        role == WeightRole::token_embedding || role == WeightRole::output_norm || role == WeightRole::output;
    for (std::uint32_t layer = 0; layer < (once ? 1 : layers); ++layer)
      if (const model::Weight& w = graph::weight_of(model.weights(), {role, layer}); w.data != nullptr)
        entries.push_back({{role, layer}, &w});
  }
  return entries;
}

}  // namespace

Result<Weights> Weights::load(Device& device, const model::ModelFile& model, WeightsIn in,
                              const graph::LoadProgress& progress) {
  std::vector<Entry> entries = entries_of(model);
  std::ranges::stable_sort(entries, {}, [](const Entry& e) { return e.weight->data; });
  std::vector<Window> windows;
  std::vector<std::size_t> window_of;
  for (const Entry& e : entries) {
    const std::byte* end = e.weight->data + bytes_of(*e.weight);
    const bool apart = !windows.empty() && (!aligned(e.weight->data) || !aligned(windows.back().begin) ||
                                            model.mapping_of(e.weight->data).data() !=
                                                model.mapping_of(windows.back().begin).data());
    if (windows.empty() || apart || e.weight->data - windows.back().end > kMostGap ||
        static_cast<std::uint64_t>(end - windows.back().begin) > kMostWindow)
      windows.push_back({e.weight->data, end});
    windows.back().end = std::max(windows.back().end, end);
    window_of.push_back(windows.size() - 1);
  }

  Weights out;
  const DeviceFacts& f = device.facts();
  const bool automatic = in == WeightsIn::automatic;
  std::vector<Address> base(windows.size());  // of the windows' first bytes
  const bool mapped = model.mapped();
  const bool in_place =
      mapped && std::ranges::all_of(windows, [](const Window& w) { return aligned(w.begin); });
  if (in == WeightsIn::file && !in_place)
    return fail(ErrorCode::unsupported_value,
                "Only a mapped model file with its tensors at multiples of 8 can be read where it lies.",
                "weights");
  if (in == WeightsIn::file || (automatic && f.unified && f.host_import && in_place)) {
    out.in_ = WeightsIn::file;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      auto memory = device.import({windows[i].begin, windows[i].end}, "the model file");
      if (!memory && automatic && memory.error().code != ErrorCode::device_lost) {
        out.in_ = WeightsIn::automatic;
        out.windows_.clear();
        break;
      }
      if (!memory) return std::unexpected(std::move(memory.error()));
      base[i] = memory->address();
      out.windows_.push_back(std::move(*memory));
    }
  }
  if (out.in_ == WeightsIn::automatic) {
    const bool shared = in == WeightsIn::shared || (automatic && (f.unified || f.host_visible));
    out.in_ = shared ? WeightsIn::shared : WeightsIn::staged;
    // All the memory before any of the file: what does not fit is told at once.
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const std::size_t at = kept(windows[i].begin);
      auto memory = device.allocate(at + windows[i].bytes(), "the model's weights",
                                    shared ? Place::shared : Place::device);
      if (!memory) return std::unexpected(std::move(memory.error()));
      base[i] = memory->address() + at;
      out.windows_.push_back(std::move(*memory));
    }
    if (auto ok = out.fill(device, windows, progress); !ok) return std::unexpected(std::move(ok.error()));
    for (const Window& w : windows)
      if (!model.mapping_of(w.begin).empty()) cpu::release_file_pages({w.begin, w.end});
  }

  out.index_.resize((model.weights().layers.size() + 1) * graph::kWeightRoleCount);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const model::Weight& w = *entries[i].weight;
    const Address address = base[window_of[i]] + static_cast<Address>(w.data - windows[window_of[i]].begin);
    out.index_[slot(entries[i].ref)] = static_cast<std::uint32_t>(out.weights_.size());
    out.weights_.push_back({w.type, w.rows, w.cols, w.experts, address});
  }
  for (const Window& w : windows) out.bytes_ += w.bytes();
  if (progress && out.in_ == WeightsIn::file) progress(out.bytes_, out.bytes_);
  return out;
}

Result<void> Weights::fill(Device& device, std::span<const Window> windows,
                           const graph::LoadProgress& progress) {
  std::uint64_t done = 0, total = 0;
  for (const Window& w : windows) total += w.bytes();
  Memory staging;
  if (in_ == WeightsIn::staged) {
    auto memory = device.allocate(kCopyBytes, "the way of the weights", Place::shared);
    if (!memory) return std::unexpected(std::move(memory.error()));
    staging = std::move(*memory);
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    for (std::uint64_t from = 0; from < windows[i].bytes(); from += kCopyBytes) {
      const std::uint64_t n = std::min<std::uint64_t>(kCopyBytes, windows[i].bytes() - from);
      const std::uint64_t to = kept(windows[i].begin) + from;
      if (!staging) {
        std::memcpy(windows_[i].host() + to, windows[i].begin + from, n);
      } else {
        std::memcpy(staging.host(), windows[i].begin + from, n);
        if (auto ok = device.run([&](Commands& c) { c.copy(staging, 0, windows_[i], to, n); }); !ok)
          return ok;
      }
      done += n;
      if (progress) progress(done, total);
    }
  }
  return {};
}

const DeviceWeight& Weights::operator[](WeightRef ref) const noexcept {
  return weights_[index_[slot(ref)]];
}

}  // namespace flyball::vulkan
