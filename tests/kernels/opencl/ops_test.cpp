// Every op of the OpenCL engine against kernels/reference (tests/kernels/reference/op_cases.hpp), as processors run it
// (one work-item a row) and as GPUs do (a work-group a row).
#include "backends/opencl/matmul_plan.hpp"
#include "tests/kernels/opencl/kernel_test.hpp"
#include "tests/kernels/reference/op_cases.hpp"

namespace flyball::opencl {
namespace {

namespace cases = kernels::cases;
using cases::Bytes;
using cases::Floats;
using cases::Uints;
using kernels::DType;

class OpenClOps : public KernelTest, public cases::Column {
 protected:
  void with_lanes(std::initializer_list<std::uint32_t> counts, const std::function<void()>& check) {
    for (const std::uint32_t lanes : counts) {
      if (lanes == 1 && !device_->facts().processor) continue;  // a processor's: no engine runs it on a GPU
      lanes_ = lanes;
      check();
      if (HasFatalFailure()) return;
    }
  }

 public:
  Floats rms_norm(const Floats& x, const Floats& weight, std::uint32_t n, std::uint32_t dim,
                  float eps) override {
    Floats at_five(5, NAN);
    at_five.insert(at_five.end(), weight.begin(), weight.end());
    const Memory out = put(Floats(x.size(), NAN));
    run(kernel("rms_norm", wg()), grid({lanes_, n, 1}, lanes_), put(x), put(at_five), 5U, out, dim, eps);
    return get<float>(out);
  }
  Floats head_norm(const Floats& x, const Floats& weight, std::uint32_t n, std::uint32_t heads,
                   float eps) override {
    const Memory inout = put(x);
    run(kernel("head_norm", ""), grid({heads, n, 1}), inout, put(weight), 0U,
        static_cast<cl_uint>(weight.size()), eps);
    return get<float>(inout);
  }
  Floats add(const Floats& x, const Floats& y, std::uint32_t cols) override {
    const Memory inout = put(x);
    run(kernel("add", ""), rows_of(cols, x.size() / cols), inout, put(y), cols);
    return get<float>(inout);
  }
  Floats bias(const Floats& x, const Floats& b, std::uint32_t cols) override {
    const Memory inout = put(x);
    run(kernel("bias", ""), rows_of(cols, x.size() / cols), inout, put(b), 0U, cols);
    return get<float>(inout);
  }
  Floats glu(kernels::Activation activation, const Floats& gate, const Floats& up,
             std::uint32_t cols) override {
    const Memory inout = put(gate);
    run(kernel("glu", activation == kernels::Activation::gelu ? "-D GELU=1" : ""),
        rows_of(cols, gate.size() / cols), inout, put(up), cols);
    return get<float>(inout);
  }
  Floats softcap(const Floats& x, float cap, std::uint32_t cols) override {
    const Memory inout = put(x);
    run(kernel("softcap", ""), rows_of(cols, x.size() / cols), inout, cap, cols);
    return get<float>(inout);
  }
  Floats gather(const Floats& x, const Uints& rows, std::uint32_t cols) override {
    const Memory out = put(Floats(rows.size() * cols, NAN));
    run(kernel("gather", ""), rows_of(cols, rows.size()), put(x), put(rows), out, cols);
    return get<float>(out);
  }
  Floats embed(DType type, const kernels::test::FileMatrix& table, std::size_t at,
               const std::vector<std::int32_t>& tokens, std::uint32_t cols, float scale) override {
    Bytes bytes(at);
    cl_ulong begins[3];  // of the rows, the scales and the biases
    const Bytes* const parts[] = {&table.bytes, &table.scales, &table.biases};
    for (std::size_t i = 0; i < 3; ++i) {
      begins[i] = bytes.size();
      bytes.insert(bytes.end(), parts[i]->begin(), parts[i]->end());
    }
    const Memory out = put(Floats(tokens.size() * cols, NAN));
    run(kernel("embed",
               format_options(type) + " -D SCALES_" + std::string(to_string(table.scale_type)) + "=1",
               {"format_table", "weights", "embed"}),
        grid({64, tokens.size(), 1}, 32), put(bytes), begins[0], cl_ulong{kernels::row_bytes(type, cols)},
        begins[1], begins[2], cl_ulong{table.rows().scale_bytes(type, 1, cols)}, put(tokens), out, cols,
        scale);
    return get<float>(out);
  }
  std::pair<Uints, Floats> moe_route(const Floats& router, std::uint32_t n, std::uint32_t experts,
                                     std::uint32_t used) override {
    const Memory ids = put(Uints(n * used, 99)), weights = put(Floats(n * used, NAN));
    run(kernel("moe_route", wg()), grid({lanes_, n, 1}, lanes_), put(router), ids, weights, experts, used);
    return {get<std::uint32_t>(ids), get<float>(weights)};
  }
  Floats moe_add(const Floats& y, const Floats& weights, const Floats& residual, std::uint32_t used,
                 std::uint32_t cols) override {
    const Memory inout = put(residual);
    run(kernel("moe_add", ""), rows_of(cols, residual.size() / cols), put(y), put(weights), inout, used,
        cols);
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
    const Memory out = put(std::vector<cases::TopKPair>(pairs, {0xdeadbeef, NAN}));
    run(kernel("top_k", wg()), grid({lanes_, asked.size(), 1}, lanes_), put(logits), put(words), out, cols);
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
    const Memory q_out = put(q), keys = put(poison), values = put(poison);
    const bool interleaved = rotation.style == kernels::RopeStyle::interleaved;
    run(kernel("rope_kv_store", kv(shape) + " -D INTERLEAVED=" + (interleaved ? "1" : "0")),
        grid({lanes_, shape.heads + 2 * shape.kv_heads, shape.positions}, lanes_), q_out, put(k), put(v),
        put(rotation.q_by), put(rotation.by), put(slots), keys, values, shape.heads, shape.kv_heads,
        shape.head_dim, rotation.dim, cases::kTile);
    return {get<float>(q_out), get<std::uint8_t>(keys), get<std::uint8_t>(values)};
  }
  Floats attend(const cases::KvShape& shape, const Floats& q, const Bytes& keys, const Bytes& values,
                const std::vector<cases::AttendWork>& work, const Uints& table, float scale,
                bool decode) override {
    const std::uint32_t max_splits = (shape.positions + cases::kSplit - 1) / cases::kSplit;
    const std::string options =
        "-D HEAD_DIM=" + std::to_string(shape.head_dim) +
        " -D GROUP=" + std::to_string(shape.heads / shape.kv_heads) +
        " -D TILE=16 -D SPLIT=64 -D STAGE=" + std::to_string(stage(shape)) + wg(" ") + kv(shape) +
        seen(shape) +
        (decode ? " -D TQ=1 -D SPLITS_APART=1" : " -D SPLITS_APART=0 -D TQ=" + std::to_string(kPromptRows));
    const Memory k_cache = put(keys), v_cache = put(values), items = put(work),
                 out = put(Floats(q.size(), NAN)),
                 partial = put(Floats(work.size() * max_splits * shape.heads * (shape.head_dim + 2), NAN));
    run(kernel("attend", options),
        grid({decode ? lanes_ * max_splits : lanes_, shape.kv_heads, work.size()}, lanes_), put(q), k_cache,
        v_cache, items, put(table), out, partial, shape.kv_heads, scale, max_splits, shape.window);
    if (decode)
      run(kernel("attend_combine", options, {"attend"}), grid({shape.heads, work.size(), 1}), items, partial,
          out, shape.heads, max_splits, shape.window);
    return get<float>(out);
  }

 private:
  // Positions in local memory at a time: what the device has room for.
  std::uint32_t stage(const cases::KvShape& shape) const {
    const std::uint64_t queries = std::uint64_t{kPromptRows} * (shape.heads / shape.kv_heads),
                        dim = shape.head_dim;
    std::uint32_t stage = lanes_ == 8 ? 4 : cases::kTile;
    while (stage > 1 && 4 * (queries * (dim + stage + 7) + 2 * stage * dim) > device_->facts().local_bytes)
      stage /= 2;
    return stage;
  }
  std::string wg(const std::string& before = "") const { return before + "-D WG=" + std::to_string(lanes_); }
  static std::string kv(const cases::KvShape& shape) {
    return shape.type == DType::q8_0 ? " -D KV_Q8_0=1" : "";
  }
  static std::string seen(const cases::KvShape& shape) {
    return (shape.window == 0 ? "" : " -D WINDOWED=1") +
           (shape.cap == 0.0F ? "" : " -D CAP=" + std::to_string(shape.cap) + "f");
  }
  static constexpr std::uint32_t kPromptRows = 8;  // that share a work-group
  std::uint32_t lanes_ = 1;                        // work-items that share a row
};

TEST_F(OpenClOps, RmsNorm) {
  for (const std::uint32_t dim : {2U, 8U, 61U, 576U, 2048U})
    with_lanes({1, 64}, [&] { cases::check_rms_norm(*this, dim); });
}
TEST_F(OpenClOps, HeadNorm) {
  cases::check_head_norm(*this);
}
TEST_F(OpenClOps, AddBiasGluSoftcapGather) {
  for (const std::uint32_t cols : {1U, 8U, 13U, 512U, 1000U}) cases::check_elementwise(*this, cols);
}
TEST_F(OpenClOps, EmbedDecodesEveryFormatExactly) {
  for (const DType type : kernels::kAllDTypes) cases::check_embed(*this, type, 3);
  for (const DType type : kernels::kAffineDTypes)
    for (const DType scales : cases::kScaleTypes) cases::check_embed(*this, type, 3, scales);
}
TEST_F(OpenClOps, RopeKvStore) {
  for (const auto style : {kernels::RopeStyle::interleaved, kernels::RopeStyle::half})
    for (const DType type : {DType::f16, DType::q8_0})
      with_lanes({1, 4}, [&] { cases::check_rope_kv_store(*this, style, type); });
}
TEST_F(OpenClOps, MoeRouteAndAdd) {
  with_lanes({1, 32}, [&] { cases::check_moe_route_and_add(*this); });
}
TEST_F(OpenClOps, TopK) {
  for (const std::uint32_t of : cases::kTopKColumns)
    with_lanes({1, 64, 256}, [&] { cases::check_top_k(*this, of); });
}
TEST_F(OpenClOps, TopKOfEqualValuesComeByIndex) {
  with_lanes({1, 64, 256}, [&] { cases::check_top_k_ties(*this); });
}
TEST_F(OpenClOps, TopKSaysWhichRowsAreNoNumbers) {
  with_lanes({1, 64, 256}, [&] { cases::check_top_k_broken(*this); });
}

class OpenClAttend : public OpenClOps, public testing::WithParamInterface<cases::KvShape> {};
TEST_P(OpenClAttend, AgreesWithTheReference) {
  with_lanes({1, 32, 8}, [&] { cases::check_attention(*this, GetParam()); });
}
INSTANTIATE_TEST_SUITE_P(Shapes, OpenClAttend, testing::ValuesIn(cases::kKvShapes), cases::kv_shape_name);

}  // namespace
}  // namespace flyball::opencl
