#include "backends/opencl/tune.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "backends/opencl/matmul.hpp"
#include "backends/opencl/tune_product.hpp"
#include "backends/opencl/tuning_db.hpp"
#include "backends/opencl/tuning_search.hpp"

namespace flyball::opencl {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kMaxRows = 1U << 20, kMaxCols = 1U << 17;

Result<void> check(const MatrixShape& m) {
  const std::uint32_t block = kernels::block_shape(m.type).values;
  const auto wrong = [&](const char* what, std::uint32_t value, const std::string& must) {
    return fail(ErrorCode::invalid_value,
                "A matrix of " + std::to_string(value) + " " + what + " in " +
                    std::string(kernels::to_string(m.type)) + "; it must be " + must + ".",
                "shapes");
  };
  if (m.rows < 1 || m.rows > kMaxRows) return wrong("rows", m.rows, "1 to " + std::to_string(kMaxRows));
  if (m.cols < 1 || m.cols > kMaxCols) return wrong("columns", m.cols, "1 to " + std::to_string(kMaxCols));
  if (m.cols % block != 0) return wrong("columns", m.cols, "a multiple of " + std::to_string(block));
  return {};
}

// One product's search. An error is the device's: the incumbent itself does not run any more.
class Search {
 public:
  Search(TuneProduct& product, const MatmulDevice& device, TuningTable& table, const TuningKey& key,
         Clock::time_point deadline)
      : product_(product), device_(device), table_(table), counts_(counts_of(key.rows)), deadline_(deadline) {
    out_.key = key;
    base_ = table.shipped();
    if (key.rows == RowClass::few && !device.processor) {  // rows 1 to 8 are summed alike
      const MatmulTuning& one = table.at({key.matrix, RowClass::one});
      base_.matvec.slices = one.matvec.slices;
      if (!refusal(device, base_).empty()) base_ = one;
    }
  }

  Result<TunedProduct> run() {
    const auto start = Clock::now();
    auto base = product_.build(base_, counts_);
    if (!base) return pass(base);
    if (auto ok = product_.set_reference(*base, counts_); !ok) return pass(ok);
    longest_ = Clock::now() - start;
    if (auto ok = descend(*base); !ok) return pass(ok);
    if (!changes(base_, best_).empty()) {  // steps of 2 % may have been noise together
      auto duel = fight(*kernels_, *base, Clock::time_point::max());
      if (!duel) return pass(duel);
      if (duel->verdict == Verdict::better) {
        out_.speedup = duel->incumbent / duel->candidate;
      } else {
        best_ = base_;
      }
    }
    table_.set(out_.key, best_);
    out_.tuning = best_;
    out_.changes = changes(table_.shipped(), best_);
    return std::move(out_);
  }

 private:
  struct Outcome {
    Verdict verdict = Verdict::undecided;
    double candidate = 1e300, incumbent = 1e300;  // the shortest
    bool refused = false;
  };

  // What was found before is where the search begins, if it still holds.
  Result<void> descend(const TuneProduct::Kernels& base) {
    best_ = base_;
    const MatmulTuning& before = table_.at(out_.key);
    if (allowed(before) && !changes(base_, before).empty())
      if (auto ok = try_out(before, base); !ok) return pass(ok);
    TuningSearch search(
        best_, [&](const MatmulTuning& t) { return allowed(t); },
        [&](const MatmulTuning& t) { return product_.fingerprint(t, counts_); });
    for (;;) {
      const auto start = Clock::now();
      if (start + 2 * longest_ >= deadline_) return {};  // one more, and the last duel
      const auto candidate = search.next();
      if (!candidate) return {};
      auto better = try_out(*candidate, kernels_ ? *kernels_ : base);
      if (!better) return pass(better);
      if (*better) search.accept();
      longest_ = std::max(longest_, Clock::now() - start);
    }
  }

  bool allowed(const MatmulTuning& t) const {
    return refusal(device_, t).empty() && (out_.key.rows != RowClass::few || same_sums(device_, t, base_));
  }

  // Whether it is the best now.
  Result<bool> try_out(const MatmulTuning& candidate, const TuneProduct::Kernels& incumbent) {
    ++out_.tried;
    auto kernels = product_.build(candidate, counts_);
    if (!kernels) {
      ++out_.refused;
      return false;
    }
    if (auto right = product_.agrees(*kernels); !right || !*right) {
      ++out_.refused;
      return still_there(incumbent);
    }
    auto duel = fight(*kernels, incumbent, deadline_);
    if (!duel) return pass(duel);
    out_.refused += duel->refused;
    if (duel->verdict != Verdict::better) return false;
    best_ = candidate;
    kernels_ = std::move(*kernels);
    return true;
  }

  // After a candidate failed: false if what we have still runs.
  Result<bool> still_there(const TuneProduct::Kernels& incumbent) {
    auto runs = product_.time(incumbent);
    if (!runs) return pass(runs);
    return false;
  }

  Result<Outcome> fight(const TuneProduct::Kernels& candidate, const TuneProduct::Kernels& incumbent,
                        Clock::time_point until) {
    Outcome out;
    std::vector<Duel> duels;
    do {
      const auto a = product_.time(candidate);
      auto b = product_.time(incumbent);
      if (!b) return pass(b);
      if (!a) {
        out.refused = true;
        return out;
      }
      duels.push_back({*a, *b});
      out.candidate = std::min(out.candidate, *a);
      out.incumbent = std::min(out.incumbent, *b);
      out.verdict = judge(duels);
    } while (out.verdict == Verdict::undecided && Clock::now() < until);
    return out;
  }

  TuneProduct& product_;
  const MatmulDevice& device_;
  TuningTable& table_;
  std::span<const std::uint32_t> counts_;
  Clock::time_point deadline_;
  Clock::duration longest_{};  // that a candidate has taken
  MatmulTuning base_, best_;
  std::optional<TuneProduct::Kernels> kernels_;  // best_'s, where that is not base_
  TunedProduct out_;
};

// All searches, each with its share of the time that is left.
class Tuner {
 public:
  Tuner(std::shared_ptr<Device> device, const TuneOptions& options, TuningDb db, TuneReport& report)
      : device_(std::move(device)),
        limits_(matmul_device(device_->facts())),
        programs_(device_, {}),  // candidates are not worth a place in the cache
        options_(options),
        db_(std::move(db)),
        report_(report),
        deadline_(Clock::now() + options.budget) {}

  // io_error
  Result<void> run() {
    left_ = options_.shapes.size() * std::size(kRowClasses);
    for (const MatrixShape& shape : options_.shapes) {
      auto product = Clock::now() < deadline_ ? TuneProduct::make(*device_, programs_, shape)
                                              : Result<std::unique_ptr<TuneProduct>>(nullptr);
      if (!product && product.error().code != ErrorCode::insufficient_memory) {
        report_.stopped = std::move(product.error());
        break;
      }
      if (!product || !*product) {
        left_ -= std::size(kRowClasses);
        report_.left_out += std::size(kRowClasses);
        continue;
      }
      if (auto ok = run_classes(**product); !ok) return pass(ok);
      if (report_.stopped) break;
    }
    report_.left_out += left_;
    return {};
  }

 private:
  Result<void> run_classes(TuneProduct& product) {
    for (const RowClass rows : kRowClasses) {
      const auto now = Clock::now();
      if (now >= deadline_) return {};
      const TuningKey key{product.matrix(), rows};
      auto tuned = Search(product, limits_, db_.table, key, now + (deadline_ - now) / left_).run();
      if (!tuned) {
        report_.stopped = std::move(tuned.error());
        return {};
      }
      --left_;
      // Rows 1 to 8 must be summed alike, also where there is no time left for the others.
      const TuningKey few{key.matrix, RowClass::few};
      if (rows == RowClass::one && !same_sums(limits_, tuned->tuning, db_.table.at(few)))
        db_.table.set(few, tuned->tuning);
      db_.tuned_at = std::time(nullptr);
      if (auto ok = store_tuning(options_.directory, db_, {report_.device, report_.driver}); !ok) return ok;
      report_.products.push_back(std::move(*tuned));
      if (options_.progress)
        options_.progress(report_.products.back(), options_.shapes.size() * std::size(kRowClasses) - left_,
                          options_.shapes.size() * std::size(kRowClasses));
    }
    return {};
  }

  std::shared_ptr<Device> device_;
  MatmulDevice limits_;
  Programs programs_;
  const TuneOptions& options_;
  TuningDb db_;
  TuneReport& report_;
  Clock::time_point deadline_;
  std::size_t left_ = 0;  // products
};

}  // namespace

Result<TuneReport> tune(const TuneOptions& options) {
  const auto start = Clock::now();
  for (const MatrixShape& shape : options.shapes)
    if (auto ok = check(shape); !ok) return pass(ok);
  if (options.directory.empty())
    return fail(ErrorCode::io_error, "There is no cache directory to keep the tuning in.", "cache-dir");
  auto device = Device::open(options.device);
  if (!device) return pass(device);
  const DeviceFacts& facts = (*device)->facts();
  TuneReport report;
  report.device = facts.name;
  report.driver = facts.driver;
  report.file = tuning_file(options.directory, {facts.name, facts.driver});
  // Two searches would slow each other, and the second one's file would replace what the first one found.
  auto lock = lock_tuning(report.file);
  if (!lock) return pass(lock);
  const MatmulDevice limits = matmul_device(facts);
  auto db = load_tuning(options.directory, {facts.name, facts.driver}, &limits);
  if (!db) {  // nothing of it counts: it is written anew
    report.ignored = std::move(db.error());
    db = TuningDb{.table = TuningTable(default_tuning(limits))};
  }
  if (auto ok = Tuner(std::move(*device), options, std::move(*db), report).run(); !ok) return pass(ok);
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return report;
}

std::vector<MatrixShape> default_shapes(std::span<const kernels::DType> formats) {
  constexpr std::pair<std::uint32_t, std::uint32_t> k1p1B[] = {
      {2048, 2048}, {256, 2048}, {5632, 2048}, {2048, 5632}, {32'000, 2048}};
  std::vector<MatrixShape> out;
  for (const kernels::DType format : formats)
    for (const auto& [rows, cols] : k1p1B) out.push_back({format, rows, cols});
  return out;
}

}  // namespace flyball::opencl
