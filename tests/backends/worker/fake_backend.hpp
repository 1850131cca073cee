// A Backend without a model, driven by a script ("tokens=50,delay_us=1000,kill_after=20"): what the worker
// and fleet tests put behind the real wire protocol. Token i of every request is i; its text is "i ".
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "backends/backend.hpp"
#include "backends/memory_need.hpp"

namespace flyball::test {

class Script {
 public:
  explicit Script(const std::string& text);
  bool has(const std::string& key) const { return values_.contains(key); }
  std::string text(const std::string& key) const { return has(key) ? values_.at(key) : ""; }
  long number(const std::string& key, long otherwise) const {
    return has(key) ? std::stol(values_.at(key)) : otherwise;
  }

 private:
  std::map<std::string, std::string> values_;
};

// need=<bytes> of weights (asks for them first), need_kv=<bytes> of one of eight sequences, holds=<bytes>
// beside the KV when it is ready (need, if absent), load_ms, fail=<code>, crash_load, log=<file> (one line
// for each load), tokens, delay_us, text_bytes, kill_after=<n> (SIGKILL itself, but not in a resumed
// request), wedge_after=<n>, stop_after=<n> (SIGSTOP itself), bad_token (beyond the vocabulary), bad_utf8,
// memory=<file> (room for one process that names it), lose_device=<backend> (in each answer of that engine,
// at its third token). A prefix is kept at once, and has 32 tokens.
Result<std::unique_ptr<Backend>> load_fake_backend(
    const std::string& script, const std::function<std::uint64_t(const MemoryNeed&)>& ask = {});

inline constexpr std::uint32_t kFakeVocab = 100'000;

}  // namespace flyball::test
