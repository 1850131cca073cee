#include "backends/vulkan/weights.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "backends/cpu/memory.hpp"
#include "backends/graph/weights.hpp"

namespace flyball::vulkan {

using graph::WeightRef;
using graph::WeightRole;

// Weights that lie close together in the file are taken together: drivers have few thousands of allocations.
struct Weights::Window {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool of_file = false;    // among a file's bytes; else made while reading it, with anything around it
  std::size_t memory = 0;  // in windows_: where its first byte lies
  std::uint64_t at = 0;
  std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(end - begin); }
  std::span<const std::byte> span() const noexcept { return {begin, end}; }
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

std::vector<Weights::Window> Weights::windows_of(const model::ModelFile& model,
                                                 std::span<const model::Weight* const> weights,
                                                 std::vector<std::size_t>& window_of) {
  std::vector<Window> windows;
  for (const model::Weight* w : weights) {
    const std::byte* end = w->data + bytes_of(*w);
    const auto around = model.storage_of(w->data);
    const bool same = !windows.empty() && w->data == windows.back().begin;  // the table and the output, tied
    const bool near = !windows.empty() && !around.empty() && aligned(w->data) &&
                      aligned(windows.back().begin) &&
                      model.storage_of(windows.back().begin).data() == around.data() &&
                      w->data - windows.back().end <= kMostGap &&
                      static_cast<std::uint64_t>(end - windows.back().begin) <= kMostWindow;
    if (!same && !near) windows.push_back({w->data, end, !around.empty()});
    windows.back().end = std::max(windows.back().end, end);
    window_of.push_back(windows.size() - 1);
  }
  return windows;
}

Result<Weights> Weights::load(Device& device, const model::ModelFile& model, WeightsIn in,
                              const graph::LoadProgress& progress) {
  std::vector<Entry> entries = entries_of(model);
  std::ranges::stable_sort(entries, std::less<>{}, [](const Entry& e) { return e.weight->data; });
  std::vector<const model::Weight*> weights;
  for (const Entry& e : entries) weights.push_back(e.weight);
  std::vector<std::size_t> window_of;
  std::vector<Window> windows = windows_of(model, weights, window_of);

  Weights out;
  const DeviceFacts& f = device.facts();
  const bool automatic = in == WeightsIn::automatic;
  const bool in_place = model.mapped() && std::ranges::all_of(windows, [](const Window& w) {
                          return !w.of_file || aligned(w.begin);
                        });
  if (in == WeightsIn::file && !in_place)
    return fail(ErrorCode::unsupported_value,
                "Only a mapped model file with its tensors at multiples of 8 can be read where it lies.",
                "weights");
  if (in == WeightsIn::file || (automatic && f.unified && f.host_import && in_place)) {
    out.in_ = WeightsIn::file;
    if (auto ok = out.import(device, windows); !ok) {
      if (!automatic || ok.error().code == ErrorCode::device_lost)
        return std::unexpected(std::move(ok.error()));
      out.in_ = WeightsIn::automatic;
      out.windows_.clear();
    }
  }
  if (out.in_ == WeightsIn::automatic) {
    const bool shared = in == WeightsIn::shared || (automatic && (f.unified || f.host_visible));
    out.in_ = shared ? WeightsIn::shared : WeightsIn::staged;
  }
  if (auto ok = out.copy(device, windows, progress); !ok) return std::unexpected(std::move(ok.error()));
  if (model.mapped() && out.in_ != WeightsIn::file)
    for (const Window& w : windows)
      if (w.of_file) cpu::release_file_pages(w.span());

  out.index_.resize((model.weights().layers.size() + 1) * graph::kWeightRoleCount);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const model::Weight& w = *entries[i].weight;
    const Window& window = windows[window_of[i]];
    const Address address =
        out.windows_[window.memory].address() + window.at + static_cast<Address>(w.data - window.begin);
    out.index_[slot(entries[i].ref)] = static_cast<std::uint32_t>(out.weights_.size());
    out.weights_.push_back({w.type, w.rows, w.cols, w.experts, address});
  }
  for (const Window& w : windows) out.bytes_ += w.bytes();
  if (progress && out.in_ == WeightsIn::file) progress(out.bytes_, out.bytes_);
  return out;
}

Result<void> Weights::import(Device& device, std::span<Window> windows) {
  for (Window& w : windows) {
    if (!w.of_file) continue;
    auto memory = device.import(w.span(), "the model file");
    if (!memory) return std::unexpected(std::move(memory.error()));
    w.memory = windows_.size();
    windows_.push_back(std::move(*memory));
  }
  return {};
}

Result<void> Weights::copy(Device& device, std::span<Window> windows, const graph::LoadProgress& progress) {
  const bool imported = in_ == WeightsIn::file;
  // Small windows share an allocation. All the memory before any of the file: what does not fit is told at
  // once.
  std::uint64_t used = 0, total = 0;
  const auto allocate = [&]() -> Result<void> {
    if (used == 0) return {};
    auto memory = device.allocate(std::exchange(used, 0), "the model's weights",
                                  in_ == WeightsIn::staged ? Place::device : Place::shared);
    if (!memory) return std::unexpected(std::move(memory.error()));
    windows_.push_back(std::move(*memory));
    return {};
  };
  for (Window& w : windows) {
    if (imported && w.of_file) continue;
    const auto place = [&] {
      return (used + kKeptAlignment - 1) / kKeptAlignment * kKeptAlignment + kept(w.begin);
    };
    if (used > 0 && place() + w.bytes() > kMostWindow)
      if (auto ok = allocate(); !ok) return ok;
    w.memory = windows_.size();
    w.at = place();
    used = w.at + w.bytes();
    total += w.bytes();
  }
  if (auto ok = allocate(); !ok) return ok;

  Memory staging;
  if (in_ == WeightsIn::staged) {
    auto memory = device.allocate(kCopyBytes, "the way of the weights", Place::shared);
    if (!memory) return std::unexpected(std::move(memory.error()));
    staging = std::move(*memory);
  }
  std::uint64_t done = 0;
  for (const Window& w : windows) {
    if (imported && w.of_file) continue;
    for (std::uint64_t from = 0; from < w.bytes(); from += kCopyBytes) {
      const std::uint64_t n = std::min<std::uint64_t>(kCopyBytes, w.bytes() - from);
      if (!staging) {
        std::memcpy(windows_[w.memory].host() + w.at + from, w.begin + from, n);
      } else {
        std::memcpy(staging.host(), w.begin + from, n);
        if (auto ok =
                device.run([&](Commands& c) { c.copy(staging, 0, windows_[w.memory], w.at + from, n); });
            !ok)
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
