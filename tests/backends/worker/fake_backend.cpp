#include "tests/backends/worker/fake_backend.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

namespace flyball::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// What one request's thread and its ticket share.
struct Run {
  std::mutex mutex;
  std::condition_variable changed;
  bool cancelled = false;  // mutex
  bool paused = false;     // mutex
};

struct FakeTicket final : Ticket::Impl {
  std::shared_ptr<Run> run;
  std::thread thread;
  ~FakeTicket() override {
    {
      const std::lock_guard lock(run->mutex);
      run->cancelled = true;
    }
    run->changed.notify_all();
    thread.join();
  }
  void resume() noexcept override {
    {
      const std::lock_guard lock(run->mutex);
      run->paused = false;
    }
    run->changed.notify_all();
  }
};

class FakeBackend final : public Backend {
 public:
  FakeBackend(Script script, std::uint64_t kv_bytes) : script_(std::move(script)) {
    info_.weight_bytes = static_cast<std::uint64_t>(script_.number("holds", script_.number("need", 0)));
    info_.kv_bytes = kv_bytes;
    info_.backend = "cpu";
    info_.architecture = "fake";
    info_.model_name = "fake";
    info_.context_length = 1U << 20;
    info_.vocab_size = kFakeVocab;
    info_.max_sequences = 8;
  }
  const BackendInfo& info() const override { return info_; }
  BackendLoad load() const noexcept override {
    BackendLoad load;
    load.running = running_;
    load.steps = steps_;
    return load;
  }
  void drain(TimePoint deadline) override {
    draining_ = true;
    while (running_ > 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(2));
    cut_ = true;
  }
  Result<Ticket> start(CompletionRequest request, std::shared_ptr<EventSink> sink) override {
    if (draining_) return fail(ErrorCode::shutting_down, "draining");
    if (request.wanted == Wanted::kept_prefix) {
      const std::lock_guard lock(kept_mutex_);
      std::erase_if(kept_, [&](const KeptPrefixState& s) {
        return s.owner == request.owner && s.name == request.kept;
      });
      kept_.push_back({request.owner, request.kept, 32, 32, 0, 32, 0, 0});
    }
    auto ticket = std::make_unique<FakeTicket>();
    ticket->run = std::make_shared<Run>();
    ++running_;
    ticket->thread =
        std::thread([this, run = ticket->run, request = std::move(request), sink = std::move(sink)] {
          generate(*run, request, *sink);
          --running_;
        });
    return Ticket(std::move(ticket));
  }

  void hold(bool held) override { held_ = held; }
  std::vector<KeptPrefixState> kept_prefixes() const override {
    const std::lock_guard lock(kept_mutex_);
    return kept_;
  }
  void drop_kept_prefix(const std::string& owner, const std::string& name) override {
    const std::lock_guard lock(kept_mutex_);
    std::erase_if(kept_, [&](const KeptPrefixState& s) { return s.owner == owner && s.name == name; });
  }

 private:
  void generate(Run& run, const CompletionRequest& request, EventSink& sink) {
    const auto first = static_cast<long>(request.resume_tokens.size());
    const long n = request.wanted == Wanted::kept_prefix ? 0
                   : request.max_tokens > 0              ? request.max_tokens
                                                         : script_.number("tokens", 10);
    for (long i = first; i < n; ++i) {
      {
        std::unique_lock lock(run.mutex);
        const auto delay = microseconds(script_.number("delay_us", 0));
        if (delay.count() > 0) run.changed.wait_for(lock, delay, [&] { return run.cancelled; });
        while (held_ && !run.cancelled) run.changed.wait_for(lock, milliseconds(1));
        run.changed.wait(lock, [&] { return run.cancelled || !run.paused; });
        if (run.cancelled) return;
      }
      if (cut_) break;
      if (i == script_.number("kill_after", -1) && first == 0) kill(getpid(), SIGKILL);
      if (i == script_.number("stop_after", -1)) kill(getpid(), SIGSTOP);
      if (i == script_.number("wedge_after", -1)) {
        std::unique_lock lock(run.mutex);
        run.changed.wait(lock, [&] { return run.cancelled; });
        return;
      }
      if (i == 2 && script_.has("lose_device") && script_.text("lose_device") == script_.text("backend")) {
        sink.push(Error{ErrorCode::device_lost, "The script loses its device.", "", ""});
        return;
      }
      ++steps_;
      Delta delta{std::to_string(i) + " ", {static_cast<Token>(i)}, {}};
      delta.text.resize(
          static_cast<std::size_t>(script_.number("text_bytes", static_cast<long>(delta.text.size()))), '.');
      if (script_.has("bad_token")) delta.tokens[0] = static_cast<Token>(kFakeVocab);
      if (script_.has("bad_utf8")) delta.text = "\xff";
      if (script_.has("bad_echo")) {
        delta.tokens.clear();
        delta.echoed = 1;
      }
      {
        // Before the push: a resume() that comes during it must not be lost.
        const std::lock_guard lock(run.mutex);
        run.paused = true;
      }
      if (sink.push(std::move(delta))) {
        const std::lock_guard lock(run.mutex);
        run.paused = false;
      }
    }
    Done done;
    done.reason = cut_ ? FinishReason::cancelled : FinishReason::length;
    done.usage.completion_tokens = static_cast<std::uint32_t>(n);
    if (request.wanted == Wanted::kept_prefix) done.usage.prompt_tokens = 32;
    sink.push(std::move(done));
  }

  const Script script_;
  BackendInfo info_;
  std::atomic<std::uint32_t> running_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<bool> draining_{false}, cut_{false}, held_{false};
  mutable std::mutex kept_mutex_;
  std::vector<KeptPrefixState> kept_;  // kept_mutex_
};

}  // namespace

Script::Script(const std::string& text) {
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    const std::size_t equals = item.find('=');
    values_[item.substr(0, equals)] = equals == std::string::npos ? "" : item.substr(equals + 1);
  }
}

Result<std::unique_ptr<Backend>> load_fake_backend(
    const std::string& text, const std::function<std::uint64_t(const MemoryNeed&)>& ask) {
  Script script(text);
  std::uint64_t kv_bytes = 0;
  if (script.has("need") && ask) {
    const auto one = static_cast<std::uint64_t>(script.number("need_kv", 0));
    kv_bytes = ask({static_cast<std::uint64_t>(script.number("need", 0)), 0, 8 * one, one});
  }
  if (script.has("log")) std::ofstream(script.text("log"), std::ios::app) << getpid() << "\n";
  std::this_thread::sleep_for(milliseconds(script.number("load_ms", 0)));
  if (script.has("crash_load")) std::abort();
  if (script.has("fail"))
    return fail(error_code_from(script.text("fail")), "the script says so", "", "byte 7");
  if (script.has("memory")) {  // held by the process, however it ends
    const int fd = open(script.text("memory").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
      return fail(ErrorCode::insufficient_memory, "2 bytes are needed, 1 are free.");
  }
  return std::make_unique<FakeBackend>(std::move(script), kv_bytes);
}

}  // namespace flyball::test
