// Every op of the Vulkan engine against kernels/reference (tests/kernels/reference/op_cases.hpp), in work-groups of the
// size the engine takes and of one subgroup.
#include <cmath>
#include <set>

#include "backends/model/model_config.hpp"
#include "tests/kernels/reference/op_cases.hpp"
#include "tests/kernels/vulkan/kernel_test.hpp"

namespace flyball::vulkan::test {
namespace {

namespace cases = kernels::cases;
using cases::Bytes;
using cases::Floats;
using cases::Uints;
using kernels::DType;

class VulkanOps : public KernelTest, public cases::Column {
 protected:
  void each_size(const std::function<void()>& check) {
    for (const bool small : {false, true}) {
      small_ = small;
      check();
      if (HasFatalFailure()) return;
    }
  }
  std::uint32_t size(std::string_view kernel) const {
    return small_ ? device_->facts().subgroup_size : group_size(device_->facts(), kernel);
  }
  std::uint32_t fours(std::string_view kernel, std::size_t values) const {
    const std::size_t of = std::size_t{4} * size(kernel);
    return static_cast<std::uint32_t>((values + of - 1) / of);
  }
  Floats elementwise(const std::string& kernel, const Floats& x, const Floats& y,
                     std::vector<std::uint32_t> constants = {}) {
    const Buffer inout = put(x), other = put(y);
    constants.insert(constants.begin(), size(kernel));
    run(kernel, constants,
        ElementwisePush{
            .x = inout.address(), .y = other.address(), .count = static_cast<uint>(x.size()), .unused = 0},
        {fours(kernel, x.size()), 1, 1});
    return get<float>(inout);
  }

 public:
  Floats rms_norm(const Floats& x, const Floats& weight, std::uint32_t n, std::uint32_t dim,
                  float eps) override {
    const Buffer in = put(x), w = put(weight), out = put(Floats(x.size(), NAN));
    run("rms_norm", {size("rms_norm")},
        RmsNormPush{.x = in.address(), .weight = w.address(), .to = out.address(), .cols = dim, .eps = eps},
        {1, n, 1});
    return get<float>(out);
  }
  Floats head_norm(const Floats& x, const Floats& weight, std::uint32_t n, std::uint32_t heads,
                   float eps) override {
    const Buffer inout = put(x), w = put(weight);
    run("head_norm", {size("head_norm")},
        HeadNormPush{.x = inout.address(),
                     .weight = w.address(),
                     .heads = heads,
                     .head_dim = static_cast<uint>(weight.size()),
                     .eps = eps,
                     .unused = 0},
        {1, n, 1});
    return get<float>(inout);
  }
  Floats add(const Floats& x, const Floats& y, std::uint32_t) override { return elementwise("add", x, y); }
  Floats glu(kernels::Activation activation, const Floats& gate, const Floats& up, std::uint32_t) override {
    return elementwise("glu", gate, up, {activation == kernels::Activation::gelu ? 1U : 0U});
  }
  Floats softcap(const Floats& x, float cap, std::uint32_t) override {
    const Buffer inout = put(x);
    run("softcap", {size("softcap")},
        SoftcapPush{.x = inout.address(), .count = static_cast<uint>(x.size()), .cap = cap},
        {fours("softcap", x.size()), 1, 1});
    return get<float>(inout);
  }
  Floats bias(const Floats& x, const Floats& b, std::uint32_t cols) override {
    const Buffer inout = put(x), other = put(b);
    run("bias", {size("bias")},
        BiasPush{.x = inout.address(), .bias = other.address(), .cols = cols, .unused = 0},
        {fours("bias", cols), static_cast<uint>(x.size() / cols), 1});
    return get<float>(inout);
  }
  Floats gather(const Floats& x, const Uints& rows, std::uint32_t cols) override {
    const Buffer in = put(x), which = put(rows), out = put(Floats(rows.size() * cols, NAN));
    run("gather", {size("gather")},
        GatherPush{
            .x = in.address(), .rows = which.address(), .to = out.address(), .cols = cols, .unused = 0},
        {fours("gather", cols), static_cast<uint>(rows.size()), 1});
    return get<float>(out);
  }
  Floats embed(DType type, const kernels::test::FileMatrix& table, std::size_t at,
               const std::vector<std::int32_t>& tokens, std::uint32_t cols, float scale) override {
    const DeviceFile file = put_file(table, type, cols, at);
    const Buffer which = put(tokens), out = put(Floats(tokens.size() * cols, NAN));
    run(per_format("embed", type), {size("embed"), file.format.place()},
        EmbedPush{.table = file.address,
                  .tokens = which.address(),
                  .to = out.address(),
                  .row_bytes = static_cast<uint>(kernels::row_bytes(type, cols)),
                  .cols = cols,
                  .scale = scale,
                  .unused = 0},
        {1, static_cast<uint>(tokens.size()), 1});
    return get<float>(out);
  }
  std::pair<Uints, Floats> moe_route(const Floats& router, std::uint32_t n, std::uint32_t experts,
                                     std::uint32_t used) override {
    const Buffer in = put(router), ids = put(Uints(n * used, 99)), weights = put(Floats(n * used, NAN));
    run("moe_route", {size("moe_route")},
        MoeRoutePush{.router = in.address(),
                     .experts = ids.address(),
                     .weights = weights.address(),
                     .n_experts = experts,
                     .n_used = used},
        {1, n, 1});
    return {get<std::uint32_t>(ids), get<float>(weights)};
  }
  Floats moe_add(const Floats& y, const Floats& weights, const Floats& residual, std::uint32_t used,
                 std::uint32_t cols) override {
    const Buffer in = put(y), by = put(weights), inout = put(residual);
    run("moe_add", {size("moe_add")},
        MoeAddPush{.y = in.address(),
                   .weights = by.address(),
                   .residual = inout.address(),
                   .n_used = used,
                   .cols = cols},
        {fours("moe_add", cols), static_cast<uint>(residual.size() / cols), 1});
    return get<float>(inout);
  }
  std::vector<std::vector<cases::TopKPair>> top_k(const Floats& logits, std::uint32_t cols,
                                                  const std::vector<cases::TopKAsked>& asked) override {
    Uints words;
    std::uint32_t pairs = 0;
    for (const auto& a : asked) {
      words.insert(words.end(), {a.row, a.k, a.of, a.exp_sum, pairs});
      pairs += 1 + a.k;
    }
    const Buffer in = put(logits), what = put(words),
                 out = put(std::vector<cases::TopKPair>(pairs, {0xdeadbeef, NAN}));
    run("top_k", {size("top_k")},
        TopKPush{
            .logits = in.address(), .asked = what.address(), .to = out.address(), .cols = cols, .unused = 0},
        {1, static_cast<uint>(asked.size()), 1});
    const auto got = get<cases::TopKPair>(out);
    std::vector<std::vector<cases::TopKPair>> answers;
    auto at = got.begin();
    for (const auto& a : asked) {
      answers.emplace_back(at, at + 1 + a.k);
      at += 1 + a.k;
    }
    return answers;
  }
  cases::Stored rope_kv_store(const cases::KvShape& shape, const cases::Rotation& rotation, const Floats& q,
                              const Floats& k, const Floats& v, const Uints& slots,
                              std::size_t cache_bytes) override {
    const Bytes poison(cache_bytes, cases::kPoison);
    const Buffer q_out = put(q), k_in = put(k), v_in = put(v), q_by = put(rotation.q_by),
                 by = put(rotation.by), where = put(slots), keys = put(poison), values = put(poison);
    constexpr std::uint32_t kAtOnce = 65'535;  // rows: as many groups as every device has
    for (std::uint32_t first = 0; first < shape.positions; first += kAtOnce) {
      const auto at = [first](const Buffer& of, std::size_t row) {
        return of.address() + first * row * sizeof(float);
      };
      run("rope_kv_store",
          {size("rope_kv_store"), rotation.style == kernels::RopeStyle::interleaved ? 1U : 0U,
           shape.type == DType::q8_0 ? 1U : 0U},
          RopeKvStorePush{.q = at(q_out, shape.heads * shape.head_dim),
                          .k = at(k_in, shape.kv_heads * shape.head_dim),
                          .v = at(v_in, shape.kv_heads * shape.head_dim),
                          .q_rotations = at(q_by, rotation.dim),
                          .rotations = at(by, rotation.dim),
                          .slots = at(where, 1),
                          .keys = keys.address(),
                          .values = values.address(),
                          .n_heads = shape.heads,
                          .n_kv_heads = shape.kv_heads,
                          .head_dim = shape.head_dim,
                          .rope_dim = rotation.dim,
                          .block_size = cases::kTile,
                          .unused = 0},
          {2, std::min(kAtOnce, shape.positions - first), 1});
    }
    return {get<float>(q_out), get<std::uint8_t>(keys), get<std::uint8_t>(values)};
  }
  Floats attend(const cases::KvShape& shape, const Floats& q, const Bytes& keys, const Bytes& values,
                const std::vector<cases::AttendWork>& work, const Uints& table, float scale,
                bool decode) override {
    const std::uint32_t items = static_cast<uint>(work.size());
    const AttendPlan plan = plan_attend(device_->facts(), shape.head_dim, shape.heads / shape.kv_heads,
                                        cases::kTile, shape.positions);
    // Short sequences have several splits here, long ones those they have in use: they say how often loops
    // turn.
    const std::uint32_t split = shape.positions < kLong ? cases::kSplit : plan.split;
    const std::uint32_t max_splits = (shape.positions + split - 1) / split;
    const Buffer q_in = put(q), k_in = put(keys), v_in = put(values), what = put(work), blocks = put(table),
                 out = put(Floats(q.size(), NAN)),
                 partial =
                     put(Floats(std::size_t{items} * max_splits * shape.heads * (shape.head_dim + 2), NAN));
    const AttendPush push{.q = q_in.address(),
                          .keys = k_in.address(),
                          .values = v_in.address(),
                          .work = what.address(),
                          .tables = blocks.address(),
                          .to = out.address(),
                          .partial = partial.address(),
                          .n_kv_heads = shape.kv_heads,
                          .max_splits = max_splits,
                          .scale = scale,
                          .window = shape.window};
    const auto constants = [&](const char* kernel) -> std::vector<std::uint32_t> {
      return {group_size(device_->facts(), kernel),
              shape.head_dim,
              shape.heads / shape.kv_heads,
              cases::kTile,
              shape.type == DType::q8_0 ? 1U : 0U,
              split,
              8,
              shape.window != 0 ? 1U : 0U,
              std::bit_cast<std::uint32_t>(shape.cap),
              (plan.unrolled && !decode) || as_elsewhere_ ? 1U : 0U,  // as the engine
              device_->facts().processor && !as_elsewhere_ ? 1U : 0U};
    };
    if (decode) {
      run("attend_split", constants("attend_split"), push, {max_splits, shape.kv_heads, items});
      run("attend_combine", constants("attend_combine"), push, {shape.heads, items, 1});
    } else {
      run("attend_rows", constants("attend_rows"), push, {1, shape.kv_heads, items});
    }
    get<float>(partial);
    EXPECT_EQ(get<std::uint8_t>(k_in), keys);
    EXPECT_EQ(get<std::uint8_t>(v_in), values);
    return get<float>(out);
  }

 protected:
  static constexpr std::uint32_t kLong = 1'000;
  bool as_elsewhere_ = false;  // attention reduced as on GPUs, unrolled as for long sequences

 private:
  bool small_ = false;
};

TEST_F(VulkanOps, RmsNorm) {
  for (const std::uint32_t dim : {2U, 8U, 61U, 576U, 2048U})
    each_size([&] { cases::check_rms_norm(*this, dim); });
}
TEST_F(VulkanOps, HeadNorm) {
  each_size([&] { cases::check_head_norm(*this); });
}
TEST_F(VulkanOps, AddBiasGluSoftcapGather) {
  for (const std::uint32_t cols : {1U, 8U, 13U, 512U, 1000U})
    each_size([&] { cases::check_elementwise(*this, cols); });
}
TEST_F(VulkanOps, EmbedDecodesEveryFormatExactly) {
  for (const DType type : kernels::kAllDTypes)
    for (const std::size_t at : {0, 8}) cases::check_embed(*this, type, at);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) cases::check_embed(*this, type, 3);
  for (const DType type : kernels::kAffineDTypes)
    for (const DType scales : cases::kScaleTypes)
      for (const std::size_t at : {0, 3, 4}) cases::check_embed(*this, type, at, scales);
}
TEST_F(VulkanOps, RopeKvStore) {
  for (const auto style : {kernels::RopeStyle::interleaved, kernels::RopeStyle::half})
    for (const DType type : {DType::f16, DType::q8_0})
      each_size([&] { cases::check_rope_kv_store(*this, style, type); });
}
TEST_F(VulkanOps, MoeRouteAndAdd) {
  each_size([&] { cases::check_moe_route_and_add(*this); });
}
// What multiplies by experts counts on no row choosing one twice.
TEST_F(VulkanOps, ARowWithANanChoosesEachExpertOnce) {
  const std::uint32_t experts = 40, used = 6;
  auto logits = cases::random_floats(2 * experts, 11, 2.0F);
  logits[experts - 3] = NAN;
  each_size([&] {
    const auto [ids, weights] = moe_route(logits, 2, experts, used);
    EXPECT_EQ(std::set(ids.begin(), ids.begin() + used).size(), used);
    EXPECT_EQ(std::set(ids.begin() + used, ids.end()).size(), used);
    for (std::uint32_t u = 0; u < used; ++u) {
      EXPECT_LT(ids[u], experts);
      EXPECT_TRUE(std::isnan(weights[u]));
      EXPECT_FALSE(std::isnan(weights[used + u])) << "the other row";
    }
  });
}
TEST_F(VulkanOps, TopK) {
  for (const std::uint32_t of : cases::kTopKColumns) each_size([&] { cases::check_top_k(*this, of); });
}
// The largest vocabulary that a model may have; llvmpipe would end loops of more turns without a word.
TEST_F(VulkanOps, TopKOfTheLargestVocabulary) {
  cases::check_top_k(*this, model::kMaxVocab);
}
TEST_F(VulkanOps, TopKOfEqualValuesComeByIndex) {
  each_size([&] { cases::check_top_k_ties(*this); });
}
TEST_F(VulkanOps, TopKSaysWhichRowsAreNoNumbers) {
  each_size([&] { cases::check_top_k_broken(*this); });
}

// The kernels of software devices, which take eight values at a time.
class VulkanTexelOps : public VulkanOps {
 protected:
  void SetUp() override {
    VulkanOps::SetUp();
    if (!IsSkipped() && device_->facts().texel_bytes == 0) GTEST_SKIP() << "the device reads by address";
  }
  Address place(const Buffer& buffer) {
    return buffer.address() - device_->texels(buffer.address()).value().begin;
  }

 public:
  Floats rms_norm(const Floats& x, const Floats& weight, std::uint32_t n, std::uint32_t dim,
                  float eps) override {
    const Buffer in = put(x), w = put(weight), out = put(Floats(x.size(), NAN));
    run_by_texel("texel_rms_norm", {group_size(device_->facts(), "texel_rms_norm")},
                 RmsNormPush{.x = place(in), .weight = place(w), .to = place(out), .cols = dim, .eps = eps},
                 {1, n, 1}, {in.address(), w.address(), out.address()});
    return get<float>(out);
  }
  Floats glu(kernels::Activation activation, const Floats& gate, const Floats& up, std::uint32_t) override {
    const Buffer inout = put(gate), other = put(up);
    const std::uint32_t group = group_size(device_->facts(), "texel_glu"),
                        groups = static_cast<uint>(gate.size() / 8 + group - 1) / group;
    run_by_texel(
        "texel_glu", {group, activation == kernels::Activation::gelu ? 1U : 0U},
        ElementwisePush{
            .x = place(inout), .y = place(other), .count = static_cast<uint>(gate.size()), .unused = 0},
        {std::max(1U, groups / 2), 1, 1}, {inout.address(), other.address()});
    return get<float>(inout);
  }
};
TEST_F(VulkanTexelOps, RmsNorm) {
  for (const std::uint32_t dim : {8U, 24U, 576U, 2048U}) cases::check_rms_norm(*this, dim);
}
TEST_F(VulkanTexelOps, Glu) {
  for (const std::uint32_t cols : {8U, 24U, 512U, 1000U}) cases::check_elementwise(*this, cols);
}

class VulkanAttend : public VulkanOps, public testing::WithParamInterface<cases::KvShape> {};
TEST_P(VulkanAttend, AgreesWithTheReference) {
  cases::check_attention(*this, GetParam());
  if (HasFatalFailure() || GetParam().positions >= kLong) return;
  as_elsewhere_ = true;
  cases::check_attention(*this, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Shapes, VulkanAttend, testing::ValuesIn(cases::kKvShapes), cases::kv_shape_name);
// As many positions as loops can have on llvmpipe, and more.
INSTANTIATE_TEST_SUITE_P(Long, VulkanAttend,
                         testing::Values(cases::KvShape{2, 1, 32, 27'392}, cases::KvShape{2, 1, 32, 40'000}),
                         cases::kv_shape_name);
// And as many as a software device can attend to.
TEST_F(VulkanOps, AttendToTheLongestSequence) {
  if (!device_->facts().processor) GTEST_SKIP() << "a GPU's loops have all their turns";
  const AttendPlan plan = plan_attend(device_->facts(), 32, 2, cases::kTile, 20'000'000);
  cases::check_attention(*this, {2, 1, 32, static_cast<std::uint32_t>(plan.most_positions)});
}

}  // namespace
}  // namespace flyball::vulkan::test
