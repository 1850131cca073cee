#include "backends/vulkan/weights.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "backends/device/memory.hpp"

namespace flyball::vulkan {

using graph::WeightRef;
using graph::WeightRole;

// What lies together of a weight: its rows, and of affine types its scales and its biases.
struct Weights::Piece {
  const std::byte* begin = nullptr;
  std::uint64_t bytes = 0;
  Address address = 0;  // on the device
  const std::byte* end() const noexcept { return begin + bytes; }
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

constexpr std::ptrdiff_t kMostGap = 1 << 20;     // bytes between weights that nobody reads
constexpr std::size_t kCopyBytes = 64ULL << 20;  // at a time: progress is seen, and staging is small
constexpr std::uint64_t kCopyAlignment = 256;    // no device asks for more

std::size_t slot(WeightRef ref) noexcept {
  return ref.layer * model::kWeightRoleCount + static_cast<std::size_t>(ref.role);
}

// In order of slots. Calls use(ref, weight) for each that the model has.
template <class Use>
void each_weight(const model::ModelFile& model, Use&& use) {
  const auto layers = static_cast<std::uint32_t>(model.weights().n_layers());
  for (std::uint32_t layer = 0; layer <= layers; ++layer)
    for (std::size_t i = 0; i < model::kWeightRoleCount; ++i) {
      const auto role = static_cast<WeightRole>(i);
      if (model::of_a_layer(role) ? layer == layers : layer > 0) continue;
      const WeightRef ref{role, layer};
      if (const model::Weight& w = model.weights()[ref]; w.data != nullptr) use(ref, w);
    }
}

}  // namespace

WeightsIn Weights::copied(const DeviceFacts& facts) noexcept {
  return facts.unified || facts.host_visible ? WeightsIn::shared : WeightsIn::staged;
}

bool Weights::in_place(const DeviceFacts& facts, const model::ModelFile& model) noexcept {
  return facts.unified && facts.host_import && model.mapped();
}

Result<Weights> Weights::load(Device& device, const model::ModelFile& model, WeightsIn in,
                              std::uint64_t window, const graph::LoadProgress& progress) {
  std::vector<Piece> pieces;
  each_weight(model, [&](WeightRef, const model::Weight& w) {
    const std::uint64_t rows = std::uint64_t{w.experts} * w.rows;
    pieces.push_back({w.data, rows * kernels::row_bytes(w.type, w.cols)});
    if (w.scales == nullptr) return;
    const std::uint64_t scales = w.source().scale_bytes(w.type, rows, w.cols);
    pieces.push_back({w.scales, scales});
    pieces.push_back({w.biases, scales});
  });
  std::vector<Piece*> in_order;
  for (Piece& p : pieces) in_order.push_back(&p);
  std::ranges::stable_sort(in_order, std::less<>{}, [](const Piece* p) { return p->begin; });
  std::vector<Piece*> of_files, others;  // in mappings; and what was made while reading
  for (Piece* p : in_order)
    (model.mapped() && !model.storage_of(p->begin).empty() ? of_files : others).push_back(p);

  Weights out;
  out.in_ = in;
  if (in == WeightsIn::file) {
    if (of_files.empty())
      return fail(ErrorCode::unsupported_value, "Only a mapped model file can be read where it lies.",
                  "weights");
    std::vector<const std::byte*> begins;
    if (auto ok = out.import(device, model, of_files, window, begins); !ok) return pass(ok);
    if (auto ok = out.read_imported(device, begins); !ok) return pass(ok);
    if (out.bytes_ <= device::available_memory()) {
      std::vector<std::span<const std::byte>> stretches;
      for (std::size_t i = 0; i < begins.size(); ++i)
        stretches.emplace_back(begins[i], out.memories_[i].bytes());
      out.read_ahead_ = ReadAhead(std::move(stretches));
    }
    if (auto ok = out.copy(device, others, Place::shared, window, {}); !ok) return pass(ok);
    if (progress) progress(out.bytes_, out.bytes_);
  } else {
    const Place place = in == WeightsIn::shared ? Place::shared : Place::device;
    if (auto ok = out.copy(device, in_order, place, window, progress); !ok) return pass(ok);
    for (const Piece* p : of_files) device::release_file_pages({p->begin, p->end()});
  }
  if (auto ok = out.describe(device, model, pieces); !ok) return pass(ok);
  return out;
}

// Weights that lie close together in a file become one allocation: drivers have few thousands of them.
Result<void> Weights::import(Device& device, const model::ModelFile& model, std::span<Piece* const> pieces,
                             std::uint64_t window, std::vector<const std::byte*>& begins) {
  for (std::size_t i = 0, next = 0; i < pieces.size(); i = next) {
    const std::byte *begin = pieces[i]->begin, *end = pieces[i]->end();
    const auto mapping = model.storage_of(begin);
    for (next = i + 1; next < pieces.size(); ++next) {
      const Piece& p = *pieces[next];
      if (p.begin >= mapping.data() + mapping.size() || p.begin - end > kMostGap ||
          static_cast<std::uint64_t>(p.end() - begin) > window)
        break;
      end = std::max(end, p.end());
    }
    auto memory = device.import({begin, end}, "the model file");
    if (!memory) return pass(memory);
    for (std::size_t k = i; k < next; ++k)
      pieces[k]->address = memory->address() + static_cast<Address>(pieces[k]->begin - begin);
    bytes_ += static_cast<std::uint64_t>(end - begin);
    memories_.push_back(std::move(*memory));
    begins.push_back(begin);
  }
  return {};
}

Result<void> Weights::read_imported(Device& device, std::span<const std::byte* const> begins) const {
  constexpr std::uint64_t kRead = 16;  // bytes of a stretch's beginning, and of its end
  auto memory =
      device.allocate(2 * kRead * begins.size(), "a trial of the model file's pages", Place::readback);
  if (!memory) return pass(memory);
  const auto each = [&](auto&& use) {
    std::uint64_t to = 0;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const std::uint64_t n = std::min(kRead, memories_[i].bytes());
      for (const std::uint64_t from : {std::uint64_t{0}, memories_[i].bytes() - n})
        use(i, from, std::exchange(to, to + n), n);
    }
  };
  auto ran = device.run([&](Commands& c) {
    each([&](std::size_t i, std::uint64_t from, std::uint64_t to, std::uint64_t n) {
      c.copy(memories_[i], from, *memory, to, n);
    });
  });
  if (!ran) return pass(ran);
  bool same = true;
  each([&](std::size_t i, std::uint64_t from, std::uint64_t to, std::uint64_t n) {
    same = same && std::memcmp(memory->host() + to, begins[i] + from, n) == 0;
  });
  if (same) return {};
  return fail(ErrorCode::device_lost, "The Vulkan device " + device.facts().name +
                                          " reads something else in the model file's pages.");
}

Result<void> Weights::copy(Device& device, std::span<Piece* const> pieces, Place place, std::uint64_t window,
                           const graph::LoadProgress& progress) {
  struct Copy {
    const Piece* from;
    std::size_t memory;  // of memories_
    std::uint64_t at;
  };
  std::vector<Copy> copies;
  std::uint64_t total = 0;
  // All the memory before any of the file: what does not fit is told at once.
  for (std::size_t i = 0, next = 0; i < pieces.size(); i = next) {
    std::uint64_t bytes = 0;
    const std::size_t first = copies.size();
    for (next = i; next < pieces.size(); ++next) {
      const Piece& p = *pieces[next];
      if (next > 0 && p.begin == pieces[next - 1]->begin) continue;  // one matrix in two roles
      const std::uint64_t at = (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
      if (next > i && at + p.bytes > window) break;
      copies.push_back({&p, memories_.size(), at});
      bytes = at + p.bytes;
      total += p.bytes;
    }
    auto memory = device.allocate(bytes, "the model's weights", place);
    if (!memory) return pass(memory);
    for (std::size_t k = i, c = first; k < next; ++k) {
      if (copies[c].from->begin != pieces[k]->begin) ++c;
      pieces[k]->address = memory->address() + copies[c].at;
    }
    memories_.push_back(std::move(*memory));
  }
  bytes_ += total;

  Memory staging;
  if (place == Place::device && total > 0) {
    auto memory = device.allocate(kCopyBytes, "the way of the weights", Place::shared);
    if (!memory) return pass(memory);
    staging = std::move(*memory);
  }
  std::uint64_t done = 0;
  for (const Copy& c : copies) {
    for (std::uint64_t from = 0; from < c.from->bytes; from += kCopyBytes) {
      const std::uint64_t n = std::min<std::uint64_t>(kCopyBytes, c.from->bytes - from);
      if (!staging) {
        std::memcpy(memories_[c.memory].host() + c.at + from, c.from->begin + from, n);
      } else {
        std::memcpy(staging.host(), c.from->begin + from, n);
        if (auto ok =
                device.run([&](Commands& to) { to.copy(staging, 0, memories_[c.memory], c.at + from, n); });
            !ok)
          return ok;
      }
      done += n;
      if (progress) progress(done, total);
    }
  }
  return {};
}

Result<void> Weights::describe(Device& device, const model::ModelFile& model, std::span<const Piece> pieces) {
  std::vector<AffineMatrix> affine;
  index_.resize((model.weights().n_layers() + 1) * model::kWeightRoleCount);
  const Piece* at = pieces.data();
  each_weight(model, [&](WeightRef ref, const model::Weight& w) {
    index_[slot(ref)] = static_cast<std::uint32_t>(weights_.size());
    DeviceWeight out{{}, w.rows, w.cols, w.experts, at[0].address};
    if (w.scales == nullptr) {
      out.format = format_of(w.type, w.cols, at[0].address);
      at += 1;
    } else {
      out.format = format_of(w.type, w.cols, at[0].address, w.scale_type, at[1].address, at[2].address);
      out.address = affine.size() * sizeof(AffineMatrix);  // in affine_
      affine.push_back({at[0].address, at[1].address, at[2].address});
      at += 3;
    }
    weights_.push_back(out);
  });
  if (affine.empty()) return {};
  auto memory = device.allocate(affine.size() * sizeof(AffineMatrix), "the model's weights", Place::shared);
  if (!memory) return pass(memory);
  affine_ = std::move(*memory);
  std::memcpy(affine_.host(), affine.data(), affine.size() * sizeof(AffineMatrix));
  for (DeviceWeight& w : weights_)
    if (kernels::affine_of(w.format.type)) w.address += affine_.address();
  return {};
}

const DeviceWeight& Weights::operator[](WeightRef ref) const noexcept {
  return weights_[index_[slot(ref)]];
}

}  // namespace flyball::vulkan
