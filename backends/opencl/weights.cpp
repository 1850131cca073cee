#include "backends/opencl/weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "backends/device/thread_pool.hpp"
#include "backends/opencl/matmul_plan.hpp"
#include "kernels/formats/row_groups.hpp"

namespace flyball::opencl {

using graph::WeightRef;
using graph::WeightRole;

struct Weights::Entry {
  WeightRef ref;
  const model::Weight* weight;
  bool added;  // what it gives is added to the residual, by the product itself
};

namespace {

// What drivers with zero copies ask of memory they did not allocate.
constexpr std::size_t kPage = 4096;
// Rows of a thread's turn while packing: some hundred kilobytes, so that turns cost nothing and threads end
// together.
constexpr std::uint32_t kPackRows = 8 * kGroupRows;

std::size_t slot(WeightRef ref) noexcept {
  return ref.layer * model::kWeightRoleCount + static_cast<std::size_t>(ref.role);
}

std::size_t round_up(std::size_t n, std::size_t to) noexcept {
  return (n + to - 1) / to * to;
}

bool is_vector(WeightRole role) {
  return model::kind_of(role) == model::WeightKind::vector;
}

bool is_matrix(WeightRole role) {
  return !is_vector(role) && role != WeightRole::token_embedding;
}

std::size_t packed_matrix_bytes(const model::Weight& w) {
  return kernels::grouped_bytes(kGroupRows, w.type, w.rows, w.cols);
}

using FileBytes = std::array<std::span<const std::byte>, 3>;  // rows, and of affine types scales and biases

FileBytes file_bytes(const model::Weight& w) {
  const std::size_t rows = std::size_t{w.experts} * w.rows;
  const std::size_t scales = w.source().scale_bytes(w.type, rows, w.cols);
  return {{{w.data, rows * kernels::row_bytes(w.type, w.cols)}, {w.scales, scales}, {w.biases, scales}}};
}
std::uint64_t total(const FileBytes& parts) {
  return parts[0].size() + parts[1].size() + parts[2].size();
}

DeviceMatrix described(WeightRef ref, const model::Weight& w, bool added) {
  DeviceMatrix matrix;
  matrix.type = w.type;
  matrix.rows = w.rows;
  matrix.cols = w.cols;
  matrix.experts = w.experts;
  matrix.of_experts = model::kind_of(ref.role) == model::WeightKind::experts;
  matrix.added = added;
  matrix.expert_bytes = packed_matrix_bytes(w);
  return matrix;
}

// Calls pack(expert, first row, end row) for ranges that cover the weight.
template <class Pack>
void each_range(device::ThreadPool& pool, const model::Weight& w, Pack&& pack) {
  const std::uint32_t ranges = (w.rows + kPackRows - 1) / kPackRows;
  pool.for_each(ranges * w.experts, [&](std::uint32_t i) {
    const std::uint32_t begin = i % ranges * kPackRows;
    pack(i / ranges, begin, std::min(w.rows, begin + kPackRows));
  });
}

// Calls use(ref, weight) for every weight that this part of the model has.
template <class Use>
void each_weight(const model::ModelFile& model, const graph::ModelPart& part, Use&& use) {
  const auto offer = [&](WeightRole role, std::uint32_t layer) {
    if (const model::Weight& w = model.weights().of(role, layer); w.data != nullptr)
      use(WeightRef{role, layer}, w);
  };
  for (std::size_t i = 0; i < model::kWeightRoleCount; ++i) {
    const auto role = static_cast<WeightRole>(i);
    if (model::of_a_layer(role)) {
      for (std::uint32_t layer = part.begin; layer < part.end; ++layer) offer(role, layer);
    } else if (role == WeightRole::token_embedding ? part.embeds : part.projects) {
      offer(role, 0);
    }
  }
}

}  // namespace

std::vector<MatrixShape> matrix_shapes(const model::ModelFile& model) {
  std::map<MatrixShape, std::uint64_t> bytes;
  each_weight(model, graph::whole_model(model.config()), [&](WeightRef ref, const model::Weight& w) {
    if (is_matrix(ref.role)) bytes[{w.type, w.rows, w.cols}] += w.experts * w.matrix_bytes();
  });
  std::vector<std::pair<std::uint64_t, MatrixShape>> sorted;
  for (const auto& [shape, n] : bytes) sorted.emplace_back(n, shape);
  std::ranges::sort(sorted, std::greater());
  std::vector<MatrixShape> out;
  for (const auto& [n, shape] : sorted) out.push_back(shape);
  return out;
}

Result<Weights> Weights::load(Device& device, const model::ModelFile& model, const graph::ModelPart& part,
                              bool in_place, const graph::LoadProgress& progress) {
  std::vector<Entry> entries;
  const bool adds = !model.config().post_norms;
  each_weight(model, part, [&](WeightRef ref, const model::Weight& w) {
    entries.push_back({ref, &w, adds && (ref.role == WeightRole::o || ref.role == WeightRole::down)});
  });
  const auto layers = model.weights().n_layers();

  Weights out;
  out.in_place_ = in_place;
  out.index_.resize(layers * model::kWeightRoleCount + model::kWeightRoleCount);
  out.describe_table(model.weights().of(WeightRole::token_embedding));
  if (auto ok = out.load_vectors(device, entries); !ok) return pass(ok);
  auto ok = in_place ? out.load_in_place(device, model, entries, progress)
                     : out.load_by_upload(device, entries, progress);
  if (!ok) {
    if (!device.at_rest()) (void)new Weights(std::move(out));  // buffers are over its pages
    return pass(ok);
  }
  return out;
}

// As its parts lie one after the other.
void Weights::describe_table(const model::Weight& table) noexcept {
  const FileBytes parts = file_bytes(table);
  embedding_.type = table.type;
  embedding_.scale_type = table.scale_type;
  embedding_.cols = table.cols;
  embedding_.scale_row_bytes = table.source().scale_bytes(table.type, 1, table.cols);
  embedding_.scales_at = parts[0].size();
  embedding_.biases_at = parts[0].size() + parts[1].size();
}

Result<void> Weights::load_vectors(Device& device, std::span<const Entry> entries) {
  std::vector<float> values;
  for (const Entry& e : entries) {
    if (!is_vector(e.ref.role)) continue;
    const std::size_t at = values.size();
    index_[slot(e.ref)] = static_cast<std::uint32_t>(at);
    values.resize(at + e.weight->cols);
    std::memcpy(values.data() + at, e.weight->data, e.weight->cols * sizeof(float));
  }
  auto buffer = device.allocate(values.size() * sizeof(float), "the model's norms");
  if (!buffer) return pass(buffer);
  vectors_ = std::move(*buffer);
  bytes_ = vectors_.bytes;
  return device.write(vectors_, 0, std::as_bytes(std::span(values)));
}

Result<void> Weights::load_in_place(Device& device, const model::ModelFile& model,
                                    std::span<const Entry> entries, const graph::LoadProgress& progress) {
  // Of an affine table the parts are brought together: one buffer for all of them.
  const auto is_table = [](const Entry& e) { return e.ref.role == WeightRole::token_embedding; };
  const FileBytes table = file_bytes(model.weights().of(WeightRole::token_embedding));
  const bool embeds = std::ranges::any_of(entries, is_table);
  const bool together = embeds && !table[1].empty();
  std::size_t whole = together ? round_up(total(table), kPage) : 0;
  for (const Entry& e : entries)
    if (is_matrix(e.ref.role)) whole += round_up(e.weight->experts * packed_matrix_bytes(*e.weight), kPage);
  auto pages = device::Pages::allocate(whole, "the model's weights");
  if (!pages) return pass(pages);
  packed_ = std::move(*pages);

  device::ThreadPool pool(device::usable_processors());
  std::size_t at = 0;
  for (const Entry& e : entries) {
    if (!is_matrix(e.ref.role)) continue;
    const model::Weight& w = *e.weight;
    DeviceMatrix matrix = described(e.ref, w, e.added);
    std::byte* packed = packed_.data() + at;
    each_range(pool, w, [&](std::uint32_t expert, std::uint32_t begin, std::uint32_t end) {
      kernels::group_rows(kGroupRows, w.type, w.rows, w.cols, w.source(expert),
                          packed + expert * matrix.expert_bytes, begin, end);
    });
    const std::size_t bytes = w.experts * matrix.expert_bytes;
    if (model.mapped())
      for (const auto& part : file_bytes(w)) device::release_file_pages(part);
    auto imported = device.import({packed, bytes}, "a weight");
    if (!imported) return pass(imported);
    matrix.buffer = std::move(*imported);
    at += round_up(bytes, kPage);
    bytes_ += bytes;
    if (progress) progress(at, whole);
    index_[slot(e.ref)] = static_cast<std::uint32_t>(matrices_.size());
    matrices_.push_back(std::move(matrix));
  }

  if (!embeds) return {};
  bytes_ += total(table);
  std::span<const std::byte> rows = table[0];
  if (together) {
    rows = {packed_.data() + at, total(table)};
    for (const auto& part : table) {
      std::ranges::copy(part, packed_.data() + at);
      at += part.size();
      if (model.mapped()) device::release_file_pages(part);
    }
    if (progress) progress(whole, whole);
  } else if (model.mapped()) {  // from the page it begins on; the mapping begins on one, too
    embedding_.at = reinterpret_cast<std::uintptr_t>(rows.data()) % kPage;
    rows = {rows.data() - embedding_.at, rows.size() + embedding_.at};
  }
  auto imported = device.import(rows, "the embedding table");
  if (!imported) return pass(imported);
  embedding_.buffer = std::move(*imported);
  return {};
}

Result<void> Weights::load_by_upload(Device& device, std::span<const Entry> entries,
                                     const graph::LoadProgress& progress) {
  std::uint64_t whole = 0;
  for (const Entry& e : entries) {
    if (is_matrix(e.ref.role)) whole += e.weight->experts * packed_matrix_bytes(*e.weight);
    if (e.ref.role == WeightRole::token_embedding) whole += total(file_bytes(*e.weight));
  }
  // All the memory before any of the file: what does not fit is told at once.
  for (const Entry& e : entries) {
    if (is_vector(e.ref.role)) continue;
    const bool table = e.ref.role == WeightRole::token_embedding;
    DeviceMatrix matrix = described(e.ref, *e.weight, e.added);
    const std::uint64_t bytes =
        table ? total(file_bytes(*e.weight)) : e.weight->experts * matrix.expert_bytes;
    auto allocated = device.allocate(bytes, "the model's weights");
    if (!allocated) return pass(allocated);
    bytes_ += bytes;
    if (table) {
      embedding_.buffer = std::move(*allocated);
      continue;
    }
    matrix.buffer = std::move(*allocated);
    index_[slot(e.ref)] = static_cast<std::uint32_t>(matrices_.size());
    matrices_.push_back(std::move(matrix));
  }

  auto uploader = Uploader::make(device, whole, progress);
  if (!uploader) return pass(uploader);
  device::ThreadPool pool(device::usable_processors());
  std::vector<std::byte> packed;  // of one expert's matrix
  for (const Entry& e : entries) {
    const model::Weight& w = *e.weight;
    if (is_vector(e.ref.role)) continue;
    if (e.ref.role == WeightRole::token_embedding) {
      std::uint64_t at = 0;
      for (const auto& part : file_bytes(w)) {
        if (auto ok = (*uploader)->put(embedding_.buffer, at, part); !ok) return pass(ok);
        at += part.size();
      }
      continue;
    }
    const DeviceMatrix& to = matrix(e.ref);
    packed.resize(to.expert_bytes);
    model::Weight one = w;
    one.experts = 1;
    for (std::uint32_t expert = 0; expert < w.experts; ++expert) {
      each_range(pool, one, [&](std::uint32_t, std::uint32_t begin, std::uint32_t end) {
        kernels::group_rows(kGroupRows, w.type, w.rows, w.cols, w.source(expert), packed.data(), begin, end);
      });
      if (auto ok = (*uploader)->put(to.buffer, expert * to.expert_bytes, packed); !ok) return pass(ok);
    }
  }
  return (*uploader)->finish();
}

const DeviceMatrix& Weights::matrix(WeightRef ref) const noexcept {
  return matrices_[index_[slot(ref)]];
}

std::uint32_t Weights::vector_at(WeightRef ref) const noexcept {
  return index_[slot(ref)];
}

}  // namespace flyball::opencl
