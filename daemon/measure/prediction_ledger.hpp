// What was predicted beside what then was, the latest of each kind: bytes and time of a load, time to a first
// token and speed of an answer. Keeps them by model, engine, quantity and basis; predict::RatioWindow says
// how to correct predictions by them. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/predict/statistics/ratio_window.hpp"
#include "daemon/predict/statistics/window.hpp"

namespace flyball::measure {

enum class Quantity : std::uint8_t { bytes, load_ms, ttft_ms, decode_tps, request_ttft_ms, request_tpot_ms };
inline constexpr std::size_t kQuantities = 6;
std::string_view to_string(Quantity quantity) noexcept;  // "bytes"
std::optional<Quantity> quantity_named(std::string_view name) noexcept;

// The source of a prediction: the model's file (bytes), the device's measured ceilings, figures of
// `calibrate`, earlier requests (daemon/predict), or ceilings assumed of the device's class.
enum class Basis : std::uint8_t { file, roofline, measured, requests, assumed };
inline constexpr std::size_t kBases = 5;
std::string_view to_string(Basis basis) noexcept;
std::optional<Basis> basis_named(std::string_view name) noexcept;

struct Outcome {
  std::string model, backend;  // ids
  Quantity quantity = Quantity::bytes;
  Basis basis = Basis::file;
  double predicted = 0, actual = 0;  // predicted: before any correction
  std::int64_t at = 0;               // seconds since 1970
};

class PredictionLedger {
 public:
  static constexpr std::size_t kKept = 64;       // of each model, engine, quantity and basis
  static constexpr std::size_t kMaxBooks = 512;  // of such; the one that was added to longest ago makes room
  // A load repeats: the same bytes come the same way. The median of so many latest ones leaves out one that
  // met a cold disk.
  static constexpr std::size_t kLoads = 3;
  static constexpr double kSameLoad = 4;  // times as long, or as short, predicted: not the same any more
  static constexpr double kMaxMargin = 0.25;

  // False, and nothing is kept: a figure is not finite or not above 0.
  bool add(const Outcome& outcome);
  // The factor for a prediction from ceilings, measured (roofline) or assumed: of this model on this engine,
  // or of the latest of all models on it where that has not been seen often enough; 1 where neither has.
  double correction(const std::string& model, const std::string& backend, Quantity quantity,
                    Basis basis = Basis::roofline) const;
  // Milliseconds that the model's latest loads on the engine took, of those that were predicted to take about
  // as long as `predicted`: others were another file's, or before other settings. nullopt: none was seen.
  std::optional<double> load_ms(const std::string& model, const std::string& backend, double predicted) const;
  // Share of a model's predicted bytes that is asked for beside them: mean of what loads on this engine came
  // out larger, and twice its spread. Never below 0, whatever came out smaller: what is predicted is asked
  // for.
  double margin(const std::string& backend) const;

  struct Summary {
    std::string backend;
    Quantity quantity = Quantity::bytes;
    Basis basis = Basis::file;
    double mean = 1, spread = 0;  // of actual over predicted; the standard deviation
    std::size_t kept = 0;
    Outcome latest;
  };
  std::vector<Summary> summaries() const;  // in order of backend, quantity, basis

 private:
  using Key = std::tuple<std::string, Quantity, Basis, std::string>;  // backend, ..., model
  struct Kept {
    predict::Window<double, kKept> ratios;  // actual over predicted
    predict::RatioWindow correction{
        predict::RatioWindow::kEnoughAlone};  // of times: predicted over actual speed
    Outcome latest;
  };
  std::vector<double> ratios(const std::string& backend, Quantity quantity, Basis basis) const;
  std::map<Key, Kept> kept_;
  std::map<std::tuple<std::string, Quantity, Basis>, predict::RatioWindow> of_all_models_;
  struct Load {
    double predicted = 0, actual = 0;  // ms
  };
  struct Loads {
    predict::Window<Load, kLoads> latest;
    std::int64_t at = 0;  // of the latest
  };
  std::map<std::pair<std::string, std::string>, Loads> loads_;  // by backend, model
};

}  // namespace flyball::measure
