// A fleet and engines that do what a script says, on the test's own io_context: no processes, no models.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "backends/backend.hpp"
#include "daemon/api/gateway.hpp"
#include "daemon/fleet/fleet.hpp"

namespace flyball::testing {

// Tokens of every prefix that a fake engine keeps.
inline constexpr std::uint32_t kFakeKeptTokens = 64;
// Microseconds that a fake engine reports for a constraint in Done::timings.
inline constexpr std::uint64_t kFakeCompileUs = 40, kFakeMaskUs = 500;

// How an engine answers one request. Token i of any answer is the text "t<i> ", so that a resumed answer can
// be compared with an uninterrupted one.
struct Script {
  std::uint32_t tokens = 4;
  bool manual = false;                           // emits only when FakeBackend::emit is called
  bool empty_first = false;                      // the first token releases no text
  std::vector<std::string> texts = {};           // of the first tokens, instead of "t<i> "
  std::size_t token_bytes = 0;                   // pad each token's text to so many bytes
  std::optional<std::uint32_t> fail_after = {};  // tokens of this attempt, echoed ones too, then `error`
  Error error{ErrorCode::worker_died, "The engine process died.", {}, {}};
  std::optional<Error> refuse = {};  // start() itself fails
  std::string kept = {};             // Done::kept; 4 tokens are of it
};

class FakeBackend final : public Backend {
 public:
  FakeBackend(boost::asio::io_context& io, std::string model, std::string id);

  const BackendInfo& info() const override { return info_; }
  BackendInfo& info_of_the_model() noexcept { return info_; }
  BackendLoad load() const noexcept override;
  Result<Ticket> start(CompletionRequest request, std::shared_ptr<EventSink> sink) override;
  void drain(TimePoint) override {}
  std::vector<KeptPrefixState> kept_prefixes() const override { return kept; }
  void drop_kept_prefix(const std::string& owner, const std::string& name) override {
    dropped.emplace_back(owner, name);
    std::erase_if(kept, [&](const KeptPrefixState& one) { return one.owner == owner && one.name == name; });
  }

  // For manual scripts: so many tokens of every running request, or of those that came first.
  void emit(std::uint32_t tokens, std::size_t sequences = SIZE_MAX);

  std::function<Script(const CompletionRequest&)> script = [](const CompletionRequest&) { return Script{}; };
  // The answer to every request for a prompt alone.
  std::vector<Token> prompt{11, 12, 11, 999, 0, 1, 2};
  // The prefixes that it keeps, with all blocks in memory, until a test says otherwise.
  std::vector<KeptPrefixState> kept;
  std::uint32_t kept_tokens = kFakeKeptTokens;  // of every prefix
  std::vector<std::pair<std::string, std::string>> dropped;  // owner and name
  std::string prompt_text = "the \"prompt\"'s text";
  std::vector<CompletionRequest> started;
  bool keeps_started = true;  // false: `started` stays empty
  std::uint32_t cancelled = 0, emitted = 0, paused = 0, resumed = 0;
  std::size_t live() const noexcept { return running_.size(); }

 private:
  struct Running;
  struct TicketImpl;
  void pump(const std::shared_ptr<Running>& running);
  bool step(Running& running);

  boost::asio::io_context& io_;
  BackendInfo info_;
  std::vector<std::shared_ptr<Running>> running_;
};

class FakeFleet final : public fleet::Fleet {
 public:
  explicit FakeFleet(boost::asio::io_context& io, fleet::MemoryStatus memory = {})
      : memory_status(std::move(memory)), io_(io) {}

  void acquire(const std::string& model, const std::string& backend, Acquired callback,
               const fleet::Asker& asker) override;
  std::vector<fleet::WorkerStatus> status() const override;
  void unload(const std::string& model, const std::string& backend, Unloaded callback) override;
  std::vector<std::string> preload_engines(const config::ModelEntry&) override { return {"cpu"}; }
  std::vector<std::string> engines() const override { return {"cpu", "vulkan"}; }
  fleet::MemoryStatus memory() override { return memory_status; }
  void watch(Watcher* one) override { watcher = one; }
  void hold_yielding(const std::vector<std::string>& kinds) override { holds.push_back(kinds); }
  Backend* open_engine(const std::string& model, const std::string& id) override {
    return opened_.contains(model + "/" + id) ? &backend(model, id) : nullptr;
  }
  std::vector<KeptPrefixState> kept_prefixes(const std::string& model, const std::string& id) const override {
    const auto it = backends_.find(model + "/" + id);
    return it == backends_.end() ? std::vector<KeptPrefixState>{} : it->second->kept_prefixes();
  }
  // To the watcher: the engine is ready, as this process; it ends or gives way.
  void open(const std::string& model, const std::string& id, std::uint64_t process = 1) {
    backend(model, id);
    opened_.insert(model + "/" + id);
    watcher->engine_opens(model, id, process);
  }
  void close(const std::string& model, const std::string& id) {
    opened_.erase(model + "/" + id);
    watcher->engine_closes(model, id);
  }
  void drain(TimePoint, std::function<void()> drained) override;

  FakeBackend& backend(const std::string& model, const std::string& id);
  void forget(const std::string& model) {
    std::erase_if(backends_, [&](const auto& b) { return b.first.starts_with(model + "/"); });
  }
  std::map<std::string, std::deque<Error>> acquire_errors;  // by backend id, used up one by one
  std::map<std::string, Error> disabled;
  std::set<std::string> stopped;  // backend ids whose engines status() reports as not loaded
  fleet::MemoryStatus memory_status;
  bool hold_acquires = false;  // keep the callbacks in `held`
  std::vector<Acquired> held;
  std::vector<std::string> acquired;
  std::vector<fleet::Asker> askers;
  std::vector<std::vector<std::string>> holds;  // the engine kinds of each hold_yielding()
  Watcher* watcher = nullptr;

 private:
  std::set<std::string> opened_;  // "model/backend"
  boost::asio::io_context& io_;
  std::map<std::string, std::unique_ptr<FakeBackend>> backends_;
};

// The policy of a file policy.yaml that says so behind its first line, `schema`.
std::shared_ptr<const policy::Tree> tree_of(const std::string& text);

// Three apps: "alice" (key "key-alice", everything), "bob" (key "key-bobby", model "small" only, few limits),
// "uid" (unix uid 4711). Models "demo" (alias "default-demo") and "small". The policy: cpu, then vulkan, for
// all.
std::shared_ptr<settings::Settings> make_settings();
policy::Facts make_hardware(bool vulkan = false);

}  // namespace flyball::testing
