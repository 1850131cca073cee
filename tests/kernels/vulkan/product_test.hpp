// Products of matrices on the device as plan_matmul and plan_expert_matmul have them, for the differential
// cases.
#pragma once

#include "tests/kernels/reference/matmul_cases.hpp"
#include "tests/kernels/vulkan/kernel_test.hpp"

namespace flyball::vulkan::test {

namespace cases = kernels::cases;
using cases::Floats;
using cases::Uints;

class ProductTest : public KernelTest, public cases::Multiplier {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped()) facts_ = device_->facts();
  }

 public:
  // x as the kernels take it.
  virtual Buffer input(const Floats& x) { return put(x); }
  std::vector<Floats> multiply(const std::vector<cases::Matrix>& matrices, const Floats& x,
                               std::uint32_t tokens, const Floats* before) override {
    const std::uint32_t cols = matrices[0].cols;
    const Buffer in = input(x);
    Uints rows;
    std::vector<DeviceFile> w;
    std::vector<Buffer> y;
    MatmulPush push{};
    push.x = in.address();
    push.n = tokens;
    push.cols = cols;
    push.row_bytes = static_cast<uint>(matrices[0].row_size());
    push.add = before != nullptr ? 1 : 0;
    for (const cases::Matrix& m : matrices) {
      const std::size_t i = rows.size();
      rows.push_back(m.rows);
      w.push_back(put_file(m.file, m.type, cols, at_ + 8 * (i % 2)));  // as little aligned as a file may be
      y.push_back(put(before != nullptr ? *before : Floats(std::size_t{tokens} * m.rows, NAN)));
      push.w[i] = w[i].address;
      push.y[i] = y[i].address();
      push.rows[i] = m.rows;
    }
    const MatmulPlan plan = plan_matmul(facts_, w[0].format, rows, cols, tokens);
    run(plan.kernel, plan.constants, push, plan.groups);
    std::vector<Floats> out;
    for (const Buffer& b : y) out.push_back(get<float>(b));
    for (std::size_t i = 0; i < w.size(); ++i)
      EXPECT_EQ(get<std::uint8_t>(w[i].parts[0]), matrices[i].file.bytes);
    EXPECT_EQ(get<std::uint8_t>(in).size(), in.bytes);
    return out;
  }
  Floats multiply_experts(const std::vector<cases::Matrix>& experts, const Uints& ids, const Floats& x,
                          std::uint32_t per_row) override {
    const std::uint32_t n_experts = static_cast<uint>(experts.size()), pairs = static_cast<uint>(ids.size());
    kernels::test::FileMatrix all;
    for (const cases::Matrix& m : experts) all.append(m.file);
    const DeviceFile w = put_file(all, experts[0].type, experts[0].cols, at_);
    const Buffer in = input(x), chosen = put(ids), offsets = put(Uints(n_experts + 1, 99)),
                 order = put(Uints(pairs, 99)), y = put(Floats(std::size_t{pairs} * experts[0].rows, NAN));
    const ExpertPlan plan =
        plan_expert_matmul(facts_, w.format, experts[0].rows, experts[0].cols, pairs, n_experts);
    EXPECT_EQ(plan.grouped, pairs > 2 * n_experts);
    if (plan.grouped) {
      run("moe_group", {group_size(facts_, "moe_group")},
          MoeGroupPush{.experts = chosen.address(),
                       .offsets = offsets.address(),
                       .order = order.address(),
                       .pairs = pairs,
                       .n_experts = n_experts},
          {1, 1, 1});
      cases::expect_grouped(ids, n_experts, get<std::uint32_t>(offsets), get<std::uint32_t>(order));
    }
    run(plan.matmul.kernel, plan.matmul.constants,
        MoeMatmulPush{.x = in.address(),
                      .w = w.address,
                      .y = y.address(),
                      .experts = chosen.address(),
                      .offsets = offsets.address(),
                      .order = order.address(),
                      .per_row = per_row,
                      .pairs = pairs,
                      .rows = experts[0].rows,
                      .cols = experts[0].cols,
                      .row_bytes = static_cast<uint>(experts[0].row_size()),
                      .n_experts = n_experts},
        plan.matmul.groups);
    EXPECT_EQ(get<std::uint8_t>(w.parts[0]), all.bytes);
    return get<float>(y);
  }

 protected:
  std::size_t at_ = 0;  // bytes behind a multiple of 8 at which matrices begin
  DeviceFacts facts_;
};

}  // namespace flyball::vulkan::test
