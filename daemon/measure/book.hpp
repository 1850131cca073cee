// What the daemon knows by measurement, by model of its configuration: read once, then asked at every
// request.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "daemon/measure/figures.hpp"
#include "daemon/measure/subject.hpp"
#include "policy/facts.hpp"

namespace flyball::measure {

class Book {
 public:
  Book() = default;
  // Of all measurements those of these engines and of the models as they are configured and lie on the disk
  // now: reads the models' files (their digests), nothing else.
  Book(std::span<const Measured> measured, std::span<const Engine> engines,
       std::span<const config::ModelEntry> models);

  // backend.<id>.decode_tps and the like for this model, at the concurrency and prompt length that the app's
  // facts declare (else 1 stream, and a prompt of kPromptTokens). now: seconds since 1970.
  void set_facts(const std::string& model, std::int64_t now, policy::Facts& facts) const;
  static constexpr std::uint32_t kPromptTokens = 512;

  bool empty() const noexcept { return figures_.empty(); }
  std::size_t size() const noexcept { return figures_.size(); }  // pairs of model and engine

 private:
  // By model id and backend.
  std::map<std::pair<std::string, std::string>, std::vector<Figure>> figures_;
};

}  // namespace flyball::measure
