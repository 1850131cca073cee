#include "backends/vulkan/step_buffer.hpp"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

namespace flyball::vulkan {
namespace {

constexpr std::size_t kAskedWords = 5;      // of top_k: row, k, of, exp_sum, where in the output
constexpr std::size_t kPartAlignment = 64;  // bytes

}  // namespace

Result<void> StepBuffer::allocate() {
  const std::uint64_t rows = limits_.step_tokens;
  std::uint64_t size = 0;
  const auto reserve = [&](auto& part, std::uint64_t count) {
    part.address = size;  // until the buffer is there
    size += (count * sizeof(*part.host) + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  };
  const auto each_part = [&](auto&& use) {
    use(tokens_, rows);
    use(slots_, rows);
    use(wanted_, rows);
    use(asked_, limits_.logit_rows * kAskedWords);
    use(rotations_, device::rope_tables(config_) * rows * config_.rope_dim());
    use(row_work_, rows);
    use(split_work_, limits_.logit_rows);
    use(grids_, 3);
  };
  each_part(reserve);
  auto memory = device_.allocate(size, "a step's inputs", Place::shared);
  if (!memory) return pass(memory);
  memory_ = std::move(*memory);
  each_part([&](auto& part, std::uint64_t) {
    part.host = reinterpret_cast<std::remove_reference_t<decltype(part.host)>>(memory_.host() + part.address);
    part.address += memory_.address();
  });
  return {};
}

Result<void> StepBuffer::reserve_tables(const AttendLayout& layout, std::uint32_t n_blocks) {
  layout_ = layout;
  return room_for_tables(n_blocks);
}

Result<void> StepBuffer::room_for_tables(std::size_t blocks) {
  const std::uint64_t bytes = blocks * sizeof(std::uint32_t);
  if (tables_.bytes() >= bytes) return {};
  auto memory = device_.allocate(bytes, "block tables", Place::shared);
  if (!memory) return pass(memory);
  tables_ = std::move(*memory);
  ++generation_;
  return {};
}

Address StepBuffer::rotations_at(std::uint32_t table) const noexcept {
  return rotations_.address + sizeof(float) * std::uint64_t{table} * limits_.step_tokens * config_.rope_dim();
}

Result<void> StepBuffer::write(const graph::StepInputs& inputs) {
  const std::uint32_t block_size = layout_.block_size;
  std::ranges::copy(inputs.tokens, tokens_.host);
  std::ranges::copy(inputs.wanted, wanted_.host);
  n_wanted_ = static_cast<std::uint32_t>(inputs.wanted.size());
  for (std::size_t i = 0; i < inputs.tokens.size(); ++i) {
    const std::uint32_t position = inputs.positions[i];
    slots_.host[i] = inputs.block_tables[inputs.sequence_of[i]][position / block_size] * block_size +
                     position % block_size;
  }
  for (std::size_t table = 0; table < rope_tables_.size(); ++table) {
    float* to = rotations_.host + table * limits_.step_tokens * config_.rope_dim();
    for (std::size_t i = 0; i < inputs.tokens.size(); ++i, to += config_.rope_dim())
      rope_tables_[table].rotation(inputs.positions[i], to);
  }
  std::uint32_t* asked = asked_.host;
  std::uint32_t pair = 0;
  for (const graph::TopK& t : inputs.top_k) {
    for (const std::uint32_t word : {t.row, t.k, t.of, t.exp_sum ? 1U : 0U, pair}) *asked++ = word;
    pair += 1 + t.k;
  }
  n_asked_ = static_cast<std::uint32_t>(inputs.top_k.size());
  return lay_out_attention(inputs);
}

// Each row attends for itself in either kernel and with the same result, so what runs where is a matter of
// speed: sequences with one row spread over splits, others share what they read in items of rows.
Result<void> StepBuffer::lay_out_attention(const graph::StepInputs& inputs) {
  const auto n = static_cast<std::uint32_t>(inputs.tokens.size());
  std::size_t blocks = 0;  // in all tables
  for (std::uint32_t row = 0; row < n; ++row)
    if (row + 1 == n || inputs.sequence_of[row + 1] != inputs.sequence_of[row])
      blocks += inputs.positions[row] / layout_.block_size + 1;
  // Sequences that share blocks have longer tables than there are blocks.
  if (blocks * sizeof(std::uint32_t) > tables_.bytes())
    if (auto ok = room_for_tables(2 * blocks); !ok) return pass(ok);
  auto* tables = reinterpret_cast<std::uint32_t*>(tables_.host());
  const AttendPlan& plan = layout_.plan;
  std::uint32_t table_at = 0, rows = 0, splits = 0, most_splits = 0;
  for (std::uint32_t row = 0; row < n;) {
    const std::uint32_t sequence = inputs.sequence_of[row];
    std::uint32_t end = row;
    while (end < n && inputs.sequence_of[end] == sequence) ++end;
    const std::uint32_t last = inputs.positions[end - 1];
    if (last >= plan.most_positions)
      return fail(ErrorCode::internal, "A sequence of " + std::to_string(last + 1ULL) +
                                           " tokens met attention that is for " +
                                           std::to_string(plan.most_positions) + " at most.");
    const auto table = inputs.block_tables[sequence].first(last / layout_.block_size + 1);
    std::ranges::copy(table, tables + table_at);
    const std::uint32_t of_row = last / plan.split + 1;
    if (end - row == 1 && splits < limits_.logit_rows && of_row <= layout_.max_splits) {
      split_work_.host[splits++] = {row, 1, last, table_at};
      most_splits = std::max(most_splits, of_row);
      row = end;
    }
    for (; row < end; row += plan.item_rows)
      row_work_.host[rows++] = {row, std::min(plan.item_rows, end - row), inputs.positions[row], table_at};
    row = end;
    table_at += static_cast<std::uint32_t>(table.size());
  }
  // The longest first: the short ones fill the gaps at the end.
  std::ranges::stable_sort(std::span(row_work_.host, rows), std::greater{}, &Work::first_position);
  grids_.host[0] = {1, config_.n_kv_heads, rows, 0};
  grids_.host[1] = {most_splits, config_.n_kv_heads, splits, 0};
  grids_.host[2] = {config_.n_heads, splits, 1, 0};
  attends_by_ = {rows > 0, splits > 0, most_splits > 1};
  return {};
}

}  // namespace flyball::vulkan
