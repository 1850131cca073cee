#include "backends/decode/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "backends/decode/softmax.hpp"

namespace flyball::decode {
namespace {

// Sixteen lanes: one AVX-512 or two AVX2 registers' worth; a fixed inner trip count lets -O2 vectorize.
constexpr std::size_t kLanes = 16;

constexpr std::uint64_t mix(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

float maximum(std::span<const float> x) noexcept {
  float lanes[kLanes];
  std::fill(std::begin(lanes), std::end(lanes), x[0]);
  std::size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  float best = *std::max_element(std::begin(lanes), std::end(lanes));
  for (; i < x.size(); ++i) best = std::max(best, x[i]);
  return best;
}

// Likelier first; equal ones by id, so that the order is total and the same everywhere.
bool likelier(const Likely& a, const Likely& b) noexcept {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}

bool by_id(const Likely& a, const Likely& b) noexcept {
  return a.token < b.token;
}

double sum_of_exp(std::span<const Likely> candidates, double max) {
  double sum = 0;
  for (const Likely& c : candidates) sum += std::exp(static_cast<double>(c.value) - max);
  return sum;
}

float max_value(std::span<const Likely> candidates) {
  return std::max_element(candidates.begin(), candidates.end(),
                          [](const Likely& a, const Likely& b) { return a.value < b.value; })
      ->value;
}

// f({token, logit}) for every token that is allowed, by id.
template <class F>
void each_allowed(std::span<const std::uint64_t> allowed, std::span<const float> logits, F f) {
  for (std::size_t word = 0; word < allowed.size(); ++word)
    for (std::uint64_t left = allowed[word]; left != 0; left &= left - 1) {
      const std::size_t token = word * 64 + static_cast<std::size_t>(std::countr_zero(left));
      if (token < logits.size()) f(Likely{static_cast<Token>(token), logits[token]});
    }
}

// Up to so many allowed tokens are gathered; more are drawn as from a whole row, whose loops are vectorized.
constexpr std::size_t kFew = 2'048;

bool are_few(std::span<const std::uint64_t> allowed) noexcept {
  std::size_t count = 0;
  for (std::size_t word = 0; word < allowed.size() && count <= kFew; ++word)
    if (allowed[word] != 0) count += static_cast<std::size_t>(std::popcount(allowed[word]));
  return count <= kFew;
}

// Makes the others negligible.
void keep_allowed(std::span<float> logits, std::span<const std::uint64_t> allowed) noexcept {
  constexpr std::size_t kBits = 64;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBits) {
    const std::uint64_t bits = allowed[begin / kBits];
    if (bits == ~std::uint64_t{0}) continue;
    const auto some = logits.subspan(begin, std::min(kBits, logits.size() - begin));
    for (std::size_t i = 0; i < some.size(); ++i)
      some[i] = (bits >> i & 1U) != 0 ? some[i] : -std::numeric_limits<float>::infinity();
  }
}

// Those of c, of lower ids, and of logits from `begin` on: the likeliest, as many as c has. Few values get
// past the worst of those, so that its place on a heap is cheap.
void keep_likeliest(std::vector<Likely>& c, std::span<const float> logits, std::size_t begin) {
  std::make_heap(c.begin(), c.end(), likelier);
  for (std::size_t i = begin; i < logits.size(); ++i) {
    if (logits[i] <= c.front().value) continue;
    std::pop_heap(c.begin(), c.end(), likelier);
    c.back() = {static_cast<Token>(i), logits[i]};
    std::push_heap(c.begin(), c.end(), likelier);
  }
}

// Keeps the likeliest that together reach `mass` of the whole (at least one). A heap gives up only as many as
// needed.
void keep_top_p(std::vector<Likely>& c, double mass) {
  const double max = max_value(c);
  const double enough = mass * sum_of_exp(c, max);
  const auto lower = [](const Likely& a, const Likely& b) { return likelier(b, a); };
  std::make_heap(c.begin(), c.end(), lower);
  auto end = c.end();
  double sum = 0;
  while (end != c.begin() && sum < enough) {
    std::pop_heap(c.begin(), end, lower);
    --end;
    sum += std::exp(static_cast<double>(end->value) - max);
  }
  c.erase(c.begin(), end);
}

// Locally typical sampling (Meister et al. 2022): those whose surprise is nearest the entropy, up to `mass`.
void keep_typical(std::vector<Likely>& c, double mass) {
  const double max = max_value(c);
  const double log_sum = max + std::log(sum_of_exp(c, max));
  double entropy = 0;
  for (const Likely& x : c) {
    const double log_p = static_cast<double>(x.value) - log_sum;
    entropy -= std::exp(log_p) * log_p;
  }
  struct Oddness {
    double shift;
    Likely x;
  };
  std::vector<Oddness> heap;
  heap.reserve(c.size());
  for (const Likely& x : c) heap.push_back({std::abs(log_sum - static_cast<double>(x.value) - entropy), x});
  const auto odder = [](const Oddness& a, const Oddness& b) {
    return a.shift > b.shift || (a.shift == b.shift && a.x.token > b.x.token);
  };
  std::make_heap(heap.begin(), heap.end(), odder);
  c.clear();
  double sum = 0;
  for (auto end = heap.end(); end != heap.begin() && sum < mass;) {
    std::pop_heap(heap.begin(), end, odder);
    --end;
    c.push_back(end->x);
    sum += std::exp(static_cast<double>(end->x.value) - log_sum);
  }
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t index) noexcept {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  const std::uint64_t bits = mix(mix(seed + kGolden) + (index + 1) * kGolden);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

bool all_finite(std::span<const float> logits) noexcept {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: NaN or infinite
  std::uint32_t bad[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) {
      const auto bits = std::bit_cast<std::uint32_t>(logits[i + j]);
      bad[j] |= (bits & kExponent) == kExponent ? 1U : 0U;
    }
  std::uint32_t any = 0;
  for (const std::uint32_t b : bad) any |= b;
  for (; i < logits.size(); ++i) any |= std::isfinite(logits[i]) ? 0U : 1U;
  return any == 0;
}

Token argmax(std::span<const float> logits) noexcept {
  const float best = maximum(logits);
  return static_cast<Token>(std::find(logits.begin(), logits.end(), best) - logits.begin());
}

Sampler::Sampler(const SamplingParams& params, std::uint32_t vocab_size) : params_(params) {
  std::erase_if(params_.logit_bias, [&](const auto& entry) {
    return entry.first < 0 || static_cast<std::uint32_t>(entry.first) >= vocab_size;
  });
}

void Sampler::accept_prompt(std::span<const Token> tokens) {
  if (params_.repetition_penalty == 1.0F) return;
  for (const Token t : tokens) ++seen_[t];
}

void Sampler::accept(Token token) {
  ++n_accepted_;
  if (params_.repetition_penalty != 1.0F) ++seen_[token];
  if (params_.frequency_penalty != 0.0F || params_.presence_penalty != 0.0F) ++generated_[token];
}

bool Sampler::adjusts() const noexcept {
  return !params_.logit_bias.empty() || !seen_.empty() || !generated_.empty();
}

void Sampler::adjust(std::span<float> logits) const {
  for (const auto& [token, bias] : params_.logit_bias) logits[static_cast<std::size_t>(token)] += bias;
  for (const auto& [token, count] : seen_) {
    float& x = logits[static_cast<std::size_t>(token)];
    x = x > 0 ? x / params_.repetition_penalty : x * params_.repetition_penalty;
    // The smallest penalties overflow, and an infinite value makes every weight NaN.
    x = std::clamp(x, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  }
  for (const auto& [token, count] : generated_)
    logits[static_cast<std::size_t>(token)] -=
        static_cast<float>(count) * params_.frequency_penalty + params_.presence_penalty;
}

Token Sampler::sample(std::span<const float> logits, SamplerScratch& scratch) const {
  if (adjusts()) {
    scratch.logits.assign(logits.begin(), logits.end());
    adjust(scratch.logits);
    logits = scratch.logits;
  }
  return choose(logits, scratch);
}

Token Sampler::choose(std::span<const float> logits, SamplerScratch& scratch) const {
  if (greedy()) return argmax(logits);
  if (!filters())
    return Softmax{maximum(logits), params_.temperature}.at(uniform(params_.seed, n_accepted_), logits,
                                                            scratch.sums);

  // All of them, less those that cannot matter, in order of id.
  auto& c = scratch.candidates;
  c.clear();
  const float floor = floor_below(maximum(logits));
  const std::size_t most = params_.top_k > 0 ? static_cast<std::size_t>(params_.top_k) : logits.size();
  std::size_t i = 0;
  for (; i < logits.size() && c.size() < most; ++i)
    if (logits[i] >= floor) c.push_back({static_cast<Token>(i), logits[i]});
  if (i < logits.size()) {
    keep_likeliest(c, logits, i);
    std::sort(c.begin(), c.end(), by_id);
  }
  return draw(c);
}

Token Sampler::sample(std::span<const float> logits, std::span<const std::uint64_t> allowed,
                      SamplerScratch& scratch) const {
  if (adjusts()) {
    scratch.logits.assign(logits.begin(), logits.end());
    adjust(scratch.logits);
    logits = scratch.logits;
  }
  if (!are_few(allowed)) {
    if (!adjusts()) scratch.logits.assign(logits.begin(), logits.end());
    keep_allowed(scratch.logits, allowed);
    return choose(scratch.logits, scratch);
  }
  Likely best{-1, 0.0F};
  each_allowed(allowed, logits, [&](const Likely& x) {
    if (best.token < 0 || x.value > best.value) best = x;
  });
  if (greedy()) return best.token;
  auto& c = scratch.candidates;
  c.clear();
  const float floor = floor_below(best.value);
  each_allowed(allowed, logits, [&](const Likely& x) {
    if (x.value >= floor) c.push_back(x);
  });
  const std::size_t most = params_.top_k > 0 ? static_cast<std::size_t>(params_.top_k) : c.size();
  if (c.size() > most) {
    std::ranges::nth_element(c, c.begin() + static_cast<std::ptrdiff_t>(most), likelier);
    c.resize(most);
    std::sort(c.begin(), c.end(), by_id);
  }
  return draw(c);
}

std::uint32_t Sampler::candidates() const noexcept {
  if (adjusts()) return 0;
  return greedy() ? 1 : static_cast<std::uint32_t>(params_.top_k);  // every later filter sees only these
}

Token Sampler::sample(const Candidates& row, SamplerScratch& scratch) const {
  if (greedy()) return row.likeliest.front().token;
  auto& c = scratch.candidates;
  c.clear();
  const float floor = floor_below(row.likeliest.front().value);
  for (const Likely& x :
       row.likeliest.first(std::min(static_cast<std::size_t>(params_.top_k), row.likeliest.size())))
    if (x.value >= floor) c.push_back(x);
  std::sort(c.begin(), c.end(), by_id);
  return draw(c);
}

bool Sampler::filters() const noexcept {
  return params_.top_k > 0 || params_.typical_p < 1.0F || params_.top_p < 1.0F || params_.min_p > 0.0F;
}

// Scaled by the temperature where it flattens; where it sharpens, the filters come first.
float Sampler::floor_below(float best) const noexcept {
  return best - kNegligible * std::max(1.0F, params_.temperature);
}

// What top-k left, in order of id: sums depend on the order they are taken in, and the same candidates must
// give the same token wherever they come from.
Token Sampler::draw(std::vector<Likely>& c) const {
  if (params_.typical_p < 1.0F) keep_typical(c, params_.typical_p);
  if (params_.top_p < 1.0F) keep_top_p(c, params_.top_p);
  if (params_.min_p > 0.0F) {
    const float least = max_value(c) + std::log(params_.min_p);
    std::erase_if(c, [&](const Likely& x) { return x.value < least; });
  }

  // Along the ids, not along the ranks: last-bit noise in the logits cannot reorder the candidates.
  if (!std::is_sorted(c.begin(), c.end(), by_id)) std::sort(c.begin(), c.end(), by_id);
  const double max = max_value(c);
  double sum = 0;
  for (Likely& x : c) {
    x.value = static_cast<float>(std::exp((static_cast<double>(x.value) - max) / params_.temperature));
    sum += x.value;
  }
  const double target = uniform(params_.seed, n_accepted_) * sum;
  double reached = 0;
  for (const Likely& x : c) {
    reached += x.value;
    if (target < reached) return x.token;
  }
  return c.back().token;  // rounding: target was the very end
}

}  // namespace flyball::decode
