// The top_k kernel against kernels/reference, one work-item a row and a work-group a row: every k, ties, rows
// that are no numbers, more columns than tokens.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "kernels/reference/top_k.hpp"
#include "tests/kernels/opencl/kernel_test.hpp"

namespace flyball::opencl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Pair {
  std::uint32_t id = 0;
  float value = 0;
};
struct Asked {
  std::uint32_t row, k, of, exp_sum;
};

class OpenClTopK : public KernelTest {
 protected:
  // For each of `asked`, what the kernel wrote: the head, then the candidates.
  std::vector<std::vector<Pair>> top_k(const std::vector<float>& logits, std::uint32_t cols,
                                       const std::vector<Asked>& asked, std::uint32_t lanes) {
    std::vector<std::uint32_t> words;
    std::uint32_t pairs = 0;
    for (const Asked& a : asked) {
      words.insert(words.end(), {a.row, a.k, a.of, a.exp_sum, pairs});
      pairs += 1 + a.k;
    }
    const Memory out = put(std::vector<Pair>(pairs, {0xdeadbeef, NAN}));
    run(kernel("top_k", "-D WG=" + std::to_string(lanes)), grid({lanes, asked.size(), 1}, lanes), put(logits),
        put(words), out, cols);
    const auto got = get<Pair>(out);
    std::vector<std::vector<Pair>> answers;
    auto at = got.begin();
    for (const Asked& a : asked) {
      answers.emplace_back(at, at + 1 + a.k);
      at += 1 + a.k;
    }
    return answers;
  }

  void expect_answer(std::span<const float> row, const Asked& a, const std::vector<Pair>& got) {
    std::vector<std::uint32_t> ids(a.k);
    const double sum = kernels::reference::top_k(row.data(), a.of, a.k, ids.data());
    ASSERT_EQ(got[0].id, 0U);
    if (a.exp_sum != 0) {
      ASSERT_NEAR(got[0].value, sum, 2e-6 * sum);
    } else {
      ASSERT_EQ(got[0].value, 0.0F);
    }
    for (std::uint32_t i = 0; i < a.k; ++i) {
      ASSERT_EQ(got[1 + i].id, ids[i]) << "candidate " << i << " of " << a.k << " of " << a.of;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[1 + i].value), std::bit_cast<std::uint32_t>(row[ids[i]]));
    }
  }
};

constexpr std::uint32_t kLanes[] = {1, 64, 256};

std::vector<float> random_row(std::uint32_t n, unsigned seed, float scale) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> row(n);
  std::ranges::generate(row, [&] { return normal(generator); });
  return row;
}

// Three rows, the middle one not asked for; behind the tokens of each, what must not be read as one.
TEST_F(OpenClTopK, AgreesWithTheReference) {
  constexpr std::uint32_t kPadding = 9;
  for (const std::uint32_t lanes : kLanes)
    for (const std::uint32_t of : {1U, 2U, 31U, 32U, 33U, 255U, 256U, 257U, 4000U, 49152U, 151936U}) {
      const std::uint32_t cols = of + kPadding;
      std::vector<float> logits;
      for (unsigned r = 0; r < 3; ++r) {
        auto row = random_row(of, of + r, 3.0F);
        if (r == 1) std::ranges::fill(row, NAN);
        row.resize(cols, r == 0 ? kInfinity : NAN);
        logits.insert(logits.end(), row.begin(), row.end());
      }
      std::vector<Asked> asked;
      for (std::uint32_t k = 1; k <= std::min(64U, of); k += of > 4000 ? 21 : 1)
        asked.insert(asked.end(), {{2, k, of, k % 2}, {0, k, of, 1}});
      const auto got = top_k(logits, cols, asked, lanes);
      for (std::size_t i = 0; i < asked.size(); ++i)
        ASSERT_NO_FATAL_FAILURE(
            expect_answer(std::span(logits).subspan(asked[i].row * cols, cols), asked[i], got[i]))
            << "lanes " << lanes;
    }
}

TEST_F(OpenClTopK, EqualValuesComeByIndex) {
  constexpr std::uint32_t n = 1000;
  const auto filled = [](const std::function<float(std::uint32_t)>& f) {
    std::vector<float> row(n);
    for (std::uint32_t i = 0; i < n; ++i) row[i] = f(i);
    return row;
  };
  const auto noise = random_row(n, 7, 1.0F);
  const std::vector<float> rows[] = {
      filled([](auto) { return 1.5F; }),
      filled([](auto) { return -2.0F; }),
      filled([](auto i) { return i % 3 == 0 ? 0.0F : -0.0F; }),  // equal, whatever their bits
      filled([&](auto i) { return std::round(noise[i] * 2); }),  // many of each
      filled([](auto i) { return static_cast<float>(i); }),
      filled([](auto i) { return -static_cast<float>(i); }),
      filled([](auto i) { return static_cast<float>(i % 7) * 1e-40F; }),  // subnormal
      filled([](auto i) { return i < n - 2 ? -3e38F : 3e38F; }),
      filled([](auto i) { return i == 517 ? std::numeric_limits<float>::max() : -1.0F; }),
  };
  for (const std::uint32_t lanes : kLanes)
    for (const auto& row : rows)
      for (const std::uint32_t k : {1U, 2U, 40U, 64U}) {
        // A processor may flush what is subnormal where it computes with it, so the sums are another test's.
        const std::vector<Asked> asked{{0, k, n, 0}};
        const auto got = top_k(row, n, asked, lanes);
        ASSERT_NO_FATAL_FAILURE(expect_answer(row, asked[0], got[0])) << "row of " << row[0];
      }
}

// One such value anywhere, and the row is known for what it is; the candidates are tokens all the same.
TEST_F(OpenClTopK, SaysWhichRowsAreNoNumbers) {
  constexpr std::uint32_t n = 700;
  const auto good = random_row(n, 3, 2.0F);
  for (const std::uint32_t lanes : kLanes)
    for (const float bad : {NAN, -NAN, kInfinity, -kInfinity, std::bit_cast<float>(0xffffffffU)})
      for (const std::uint32_t at : {0U, 255U, 256U, 699U}) {
        auto logits = good;
        logits.insert(logits.end(), good.begin(), good.end());
        logits[at] = bad;
        const std::vector<Asked> asked{{0, 64, n, 1}, {1, 5, n, 1}};
        const auto got = top_k(logits, n, asked, lanes);
        EXPECT_EQ(got[0][0].id, 1U) << bad << " at " << at;
        for (std::size_t i = 1; i < got[0].size(); ++i) EXPECT_LT(got[0][i].id, n);
        ASSERT_NO_FATAL_FAILURE(expect_answer(good, asked[1], got[1]));
      }
}

}  // namespace
}  // namespace flyball::opencl
