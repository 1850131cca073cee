// The best that a model can do on an engine whose device's ceilings are known or assumed: a step takes as
// long as reading its weights or as its arithmetic, whichever is longer. It stands in for what was not
// measured. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/measure/figures.hpp"

namespace flyball::measure {

// Of an engine's devices together; 0: not known.
struct Ceilings {
  double read_gbps = 0;                  // of memory, 1e9 bytes a second
  double float_gops = 0, int8_gops = 0;  // 1e9 operations a second, a multiply-add is two
  std::int64_t measured_at = 0;          // seconds since 1970
  double load_gbps = 0;                  // assumed, at which weights reach it; 0: read and written there
  std::string_view assumed_of = {};      // "a discrete GPU": these are its class's; "": they were measured
  // At which the machine gives the pages that a load fills; 0: not known, or the device has its own memory.
  double page_gbps = 0;
};
// As the store keeps them, of a subject without a model; the newest time counts. Those that have expired are
// left out.
Ceilings ceilings_of(std::span<const Figure> figures, std::int64_t now);
// Devices that work one after the other on equal parts of a model.
Ceilings in_turn(std::span<const Ceilings> devices);

struct ModelSize {
  std::uint64_t weight_bytes = 0, token_weight_bytes = 0;  // all; those that one token reads
  std::uint64_t parameters = 0;
  bool mixture = false;    // tokens of a step read experts of their own
  bool quantized = false;  // its products may be of int8
  std::uint64_t kv_bytes = 0;  // of the KV cache as the model is served; 0: not known
};

class Roofline {
 public:
  // Tokens of a prompt that are computed together: weights are read once for all of them.
  static constexpr std::uint32_t kStepTokens = 256;
  // A load's process, its libraries and its driver.
  static constexpr double kStartMs = 200;

  Roofline(Ceilings ceilings, ModelSize model) : ceilings_(ceilings), model_(model) {}

  struct Prediction {
    double value = 0;
    bool of_memory = true;  // bound by reading; else by arithmetic
  };
  // at: as of Figure. nullopt: a ceiling or a size that it takes is not known, or the kind is none of
  // decode_tps, prefill_tps, ttft_ms and load_ms.
  std::optional<Prediction> predict(Kind kind, std::uint32_t at) const;
  // "roofline 21.3 GB/s / 1.10 GB", "roofline 231 GFLOP/s / 2.20 GFLOP a token"; of a load "1.10 GB read and
  // written at 21.3 GB/s, 4.9 GB of pages taken at 0.75 GB/s", or "1.10 GB carried at assumed 12 GB/s". With
  // assumed ceilings "assumed 300 GB/s of a discrete GPU / 1.10 GB".
  std::string basis(Kind kind, const Prediction& prediction) const;
  std::int64_t measured_at() const noexcept { return ceilings_.measured_at; }

 private:
  double operations() const noexcept;               // of a token
  double gops() const noexcept;                     // 1e9 a second
  double page_bytes() const noexcept;               // that a load takes of the machine; 0: none, or not known
  double load_seconds() const noexcept;
  std::string of_class() const;                     // " of a discrete GPU"; "" where ceilings were measured
  double read_bytes(double tokens) const noexcept;  // of a step
  Prediction step_seconds(double tokens) const noexcept;

  Ceilings ceilings_;
  ModelSize model_;
};

}  // namespace flyball::measure
