#include "tests/backends/graph/naive_forward.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/formats/dequantize.hpp"

namespace flyball::test {
namespace {

using model::WeightRole;
using Vector = std::vector<double>;

Vector weight_row(const model::Weight& w, std::uint32_t row) {
  std::vector<float> values(w.cols);
  kernels::dequantize_row(w.type, w.source().after(w.type, row, w.cols), w.cols, values.data());
  return {values.begin(), values.end()};
}

Vector multiply(const model::Weight& w, const Vector& x, std::uint32_t expert = 0) {
  Vector y(w.rows);
  for (std::uint32_t r = 0; r < w.rows; ++r) {
    const Vector row = weight_row(w, expert * w.rows + r);
    for (std::uint32_t c = 0; c < w.cols; ++c) y[r] += row[c] * x[c];
  }
  return y;
}

Vector norm(const model::Weight& w, const Vector& x, double eps) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  const Vector weight = weight_row(w, 0);
  Vector y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

void rotate(Vector& x, std::uint32_t n_heads, const model::ModelConfig& c, const model::RopeConfig& rope,
            std::size_t position) {
  if (!rope.rotates) return;
  // YaRN (arXiv:2309.00071) leaves frequencies with many turns over the original context as they are.
  const bool yarn = rope.scaling == model::RopeScaling::yarn;
  const auto index_of = [&](double turns) {
    return rope.dim * std::log(rope.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(double{rope.base}));
  };
  const double low = std::max(0.0, std::floor(index_of(rope.beta_fast)));
  const double high = std::min(rope.dim - 1.0, std::ceil(index_of(rope.beta_slow)));
  const double magnitude = rope.attn_factor * (yarn ? 1 + 0.1 * std::log(double{rope.factor}) : 1);
  for (std::uint32_t h = 0; h < n_heads; ++h) {
    for (std::uint32_t i = 0; i < rope.dim / 2; ++i) {
      const double divisor = rope.frequency_factors.empty() ? 1 : double{rope.frequency_factors[i]};
      const double whole = yarn ? 1 - std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0) : 0;
      const double scale = whole + (1 - whole) / rope.factor;
      const double angle =
          scale * static_cast<double>(position) * std::pow(double{rope.base}, -2.0 * i / rope.dim) / divisor;
      const double cos = magnitude * std::cos(angle), sin = magnitude * std::sin(angle);
      const bool half = c.rope_style == kernels::RopeStyle::half;
      const std::size_t a = h * c.head_dim + (half ? i : 2 * i);
      const std::size_t b = half ? a + rope.dim / 2 : a + 1;
      const double xa = x[a];
      const double xb = x[b];
      x[a] = xa * cos - xb * sin;
      x[b] = xa * sin + xb * cos;
    }
  }
}

void add(Vector& x, const Vector& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void add_bias(Vector& x, const model::Weight& w) {
  if (w.data != nullptr) add(x, weight_row(w, 0));
}

void norm_heads(Vector& x, const model::Weight& w, const model::ModelConfig& c) {
  if (w.data == nullptr) return;
  for (auto head = x.begin(); head != x.end(); head += c.head_dim) {
    const Vector normed = norm(w, Vector(head, head + c.head_dim), c.norm_eps);
    std::copy(normed.begin(), normed.end(), head);
  }
}

// GELU as its paper has it.
Vector glu(const model::ModelConfig& c, Vector gate, const Vector& up) {
  const bool gelu = c.activation == kernels::Activation::gelu;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i];
    const double inner = std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * std::pow(x, 3));
    gate[i] = (gelu ? 0.5 * x * (1 + std::tanh(inner)) : x / (1 + std::exp(-x))) * up[i];
  }
  return gate;
}

double capped(double x, double cap) {
  return cap == 0 ? x : cap * std::tanh(x / cap);
}

// What attention or a feed-forward gives, normed where the family has it so.
void add_output(Vector& stream, Vector y, const model::Weight& post_norm, const model::ModelConfig& c) {
  if (post_norm.data != nullptr) y = norm(post_norm, y, c.norm_eps);
  for (double& v : y) v *= c.residual_scale;
  add(stream, y);
}

// Probabilities of all experts, the likeliest few, those divided by their sum.
Vector mixture(const model::ModelWeights& weights, std::uint32_t layer, const model::ModelConfig& c,
               const Vector& x) {
  Vector p = multiply(weights.of(WeightRole::router, layer), x);
  for (double& v : p) v = std::exp(v);
  std::vector<std::uint32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return p[a] > p[b]; });
  order.resize(c.n_experts_used);
  double chosen = 0;
  for (const std::uint32_t e : order) chosen += p[e];
  Vector out(c.dim);
  for (const std::uint32_t e : order) {
    const Vector inner = glu(c, multiply(weights.of(WeightRole::expert_gate, layer), x, e),
                             multiply(weights.of(WeightRole::expert_up, layer), x, e));
    const Vector y = multiply(weights.of(WeightRole::expert_down, layer), inner, e);
    for (std::size_t i = 0; i < y.size(); ++i) out[i] += p[e] / chosen * y[i];
  }
  return out;
}

}  // namespace

std::vector<double> naive_forward(const model::ModelFile& model, std::span<const Token> tokens) {
  const model::ModelConfig& c = model.config();
  std::vector<Vector> stream;
  for (const Token t : tokens) {
    stream.push_back(
        weight_row(model.weights().of(WeightRole::token_embedding), static_cast<std::uint32_t>(t)));
    for (double& v : stream.back()) v *= c.embedding_scale;
  }

  for (std::uint32_t layer = 0; layer < c.n_layers; ++layer) {
    const auto weight = [&](WeightRole role) -> const model::Weight& {
      return model.weights().of(role, layer);
    };
    const std::size_t window = c.layer(layer).window;
    const model::RopeConfig& rope = c.rope_of(layer);
    std::vector<Vector> q, k, v;
    for (std::size_t t = 0; t < stream.size(); ++t) {
      const Vector x = norm(weight(WeightRole::attn_norm), stream[t], c.norm_eps);
      q.push_back(multiply(weight(WeightRole::q), x));
      k.push_back(multiply(weight(WeightRole::k), x));
      v.push_back(multiply(weight(WeightRole::v), x));
      add_bias(q.back(), weight(WeightRole::q_bias));
      add_bias(k.back(), weight(WeightRole::k_bias));
      add_bias(v.back(), weight(WeightRole::v_bias));
      norm_heads(q.back(), weight(WeightRole::q_norm), c);
      norm_heads(k.back(), weight(WeightRole::k_norm), c);
      rotate(q.back(), c.n_heads, c, rope, t);
      for (double& value : q.back())
        value *=
            1 + c.temperature_scale * std::log(1 + std::floor(static_cast<double>(t) / c.temperature_length));
      rotate(k.back(), c.n_kv_heads, c, rope, t);
    }
    for (std::size_t t = 0; t < stream.size(); ++t) {
      Vector out(std::size_t{c.n_heads} * c.head_dim);
      for (std::uint32_t h = 0; h < c.n_heads; ++h) {
        const std::size_t qh = h * c.head_dim;
        const std::size_t kh = h / (c.n_heads / c.n_kv_heads) * c.head_dim;
        Vector share(t + 1);
        double sum = 0;
        const std::size_t first = window != 0 && t >= window ? t + 1 - window : 0;
        for (std::size_t s = first; s <= t; ++s) {
          double dot = 0;
          for (std::uint32_t d = 0; d < c.head_dim; ++d) dot += q[t][qh + d] * k[s][kh + d];
          sum += share[s] = std::exp(capped(dot * c.query_scale, c.attention_cap));
        }
        for (std::size_t s = first; s <= t; ++s)
          for (std::uint32_t d = 0; d < c.head_dim; ++d) out[qh + d] += share[s] / sum * v[s][kh + d];
      }
      Vector attended = multiply(weight(WeightRole::o), out);
      add_bias(attended, weight(WeightRole::o_bias));
      add_output(stream[t], attended, weight(WeightRole::attn_post_norm), c);
      const Vector x = norm(weight(WeightRole::ffn_norm), stream[t], c.norm_eps);
      const Vector y = c.n_experts > 0
                           ? mixture(model.weights(), layer, c, x)
                           : multiply(weight(WeightRole::down), glu(c, multiply(weight(WeightRole::gate), x),
                                                                    multiply(weight(WeightRole::up), x)));
      add_output(stream[t], y, weight(WeightRole::ffn_post_norm), c);
    }
  }
  model::Weight output_norm = model.weights().of(WeightRole::output_norm);
  if (const auto* tensor = model.gguf().tensor(model::tensor_name(WeightRole::output_norm)))
    output_norm.data = tensor->data.data();  // the file's own, which is not divided by the logit scale
  Vector logits =
      multiply(model.weights().of(WeightRole::output), norm(output_norm, stream.back(), c.norm_eps));
  for (double& logit : logits) logit = capped(logit / c.logit_scale, c.logit_cap);
  return logits;
}

}  // namespace flyball::test
